//! What crosses a connection: frames, headers, transports and the queue in front of each.

mod codec;
pub(crate) mod drive;
mod frame;
pub(crate) mod header;
mod loopback;
mod outbox;
mod parts;
mod passing;
mod scan;

pub use codec::{FrameDecoder, FrameEncoder};
pub use frame::{Frame, FrameSink, FrameSource, Transport, TransportError};
pub use loopback::loopback;
pub use outbox::{Drained, Outbox, OutboxError};

pub(crate) use header::{Header, Kind};

/// The protocol's own version. Another major is refused at the handshake.
pub const PROTOCOL: crate::Version = crate::Version::new(1, 0);
