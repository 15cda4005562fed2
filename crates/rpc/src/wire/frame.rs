//! A frame and the two halves of a connection that carry it.

use std::task::{Context as Poller, Poll};

use bytes::Bytes;

use super::Outbox;
use crate::error::ErrorCode;

/// One message: a small JSON header and one JSON payload, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Read by every hop. At most 8 KiB, without a raw newline.
    pub header: Bytes,
    /// Read by the endpoint alone.
    pub payload: Bytes,
}

impl Frame {
    /// Header, newline and payload together, in bytes.
    pub fn len(&self) -> usize {
        self.header.len() + 1 + self.payload.len()
    }

    /// Whether there is nothing in it at all.
    pub fn is_empty(&self) -> bool {
        self.header.is_empty() && self.payload.is_empty()
    }
}

/// Why a transport stopped carrying frames.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Reading or writing failed.
    #[error("the connection broke: {0}")]
    Io(#[from] std::io::Error),
    /// A message passes the limit.
    #[error("a message of {size} bytes passes the limit of {limit}; send it in parts")]
    FrameTooLarge {
        /// What was announced.
        size: usize,
        /// What is accepted.
        limit: usize,
    },
    /// A header passes the limit, or is not there.
    #[error("a frame has no header within {limit} bytes; write the header, a newline, the payload")]
    HeaderTooLarge {
        /// What is accepted.
        limit: usize,
    },
    /// The peer broke the rules of the framing.
    #[error("the peer broke the framing: {0}")]
    Framing(&'static str),
    /// Frames waited in the queue until it was full.
    #[error("the peer does not read: {0} bytes wait for it")]
    Overflow(usize),
}

impl TransportError {
    /// The peer's fault as the peer is told of it; `None` where the connection itself failed.
    pub(crate) fn fault(&self) -> Option<ErrorCode> {
        match self {
            TransportError::FrameTooLarge { .. } => Some(ErrorCode::FrameTooLarge),
            TransportError::HeaderTooLarge { .. } | TransportError::Framing(_) => {
                Some(ErrorCode::Protocol)
            }
            TransportError::Io(_) | TransportError::Overflow(_) => None,
        }
    }
}

/// The receiving half of a connection.
pub trait FrameSource: Send {
    /// From now on no message may be larger than this many bytes; before, the largest that any peer takes.
    /// Where the peer is of this process there is nothing to guard.
    fn set_limit(&mut self, _bytes: usize) {}

    /// The next frame; `None` once the peer has closed in good order.
    fn poll_recv(&mut self, poller: &mut Poller<'_>)
    -> Poll<Result<Option<Frame>, TransportError>>;
}

/// The sending half of a connection, where there is more to do than to queue.
pub trait FrameSink: Send {
    /// Writes what waits in `outbox`. Ready once the outbox is closed and empty, or on an error.
    fn poll_drain(
        &mut self,
        outbox: &Outbox,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>>;
}

/// A connection as it comes from a dialler or a listener.
pub struct Transport {
    /// What the peer sends.
    pub incoming: Box<dyn FrameSource>,
    /// What goes to the peer.
    pub outgoing: Outbox,
    /// Carries the outbox to the peer; `None` where the peer takes from it directly.
    pub sink: Option<Box<dyn FrameSink>>,
    /// After how much silence to ask whether the peer still lives; `None` where its death is noticed
    /// by itself, as on loopback and Unix sockets.
    pub keepalive: Option<std::time::Duration>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Transport")
    }
}
