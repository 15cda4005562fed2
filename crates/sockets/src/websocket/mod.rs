//! WebSocket: one text message per frame, the header, a newline, the payload.
//!
//! The accepting side answers HTTP/1.1 on one TCP port and turns requests for [`PATH`] into connections; a
//! [`Site`] may answer others. Everything else about a frame (parts, limits, strictness) is as on a stream.

mod dial;
mod endpoint;
mod frames;
mod guard;
mod listen;
mod site;
mod tls;

pub use dial::dial_websocket;
pub use endpoint::{Endpoint, EndpointError};
pub use listen::{ListenError, WebSocketListener, WebSocketOptions};
pub use site::{Site, Visitor};
pub use tls::{ServerTls, TlsError, Trust};

use std::time::Duration;

/// Where connections are asked for.
const PATH: &str = "/connect";

/// After how much silence a peer is asked whether it still lives; after as much again it is given up.
const KEEPALIVE: Duration = Duration::from_secs(20);
