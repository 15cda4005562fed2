//! A connection inside one process: the same frames, no socket.

use std::collections::VecDeque;
use std::task::{Context as Poller, Poll, ready};

use super::frame::{FrameSource, Transport, TransportError};
use super::outbox::Drained;
use super::{Frame, Outbox};

/// Two ends of a connection. Each end's source takes straight from the other's outbox.
pub fn loopback() -> (Transport, Transport) {
    let (left, right) = (Outbox::new(), Outbox::new());
    (end(&left, &right), end(&right, &left))
}

fn end(own: &Outbox, peer: &Outbox) -> Transport {
    let incoming = LoopbackSource {
        peer: peer.clone(),
        own: own.clone(),
        batch: VecDeque::new(),
    };
    Transport {
        incoming: Box::new(incoming),
        outgoing: own.clone(),
        sink: None,
        keepalive: None,
    }
}

struct LoopbackSource {
    peer: Outbox,
    own: Outbox,
    batch: VecDeque<Frame>,
}

impl FrameSource for LoopbackSource {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        loop {
            if let Some(frame) = self.batch.pop_front() {
                return Poll::Ready(Ok(Some(frame)));
            }
            match ready!(self.peer.poll_drain(&mut self.batch, poller)) {
                Drained::Frames => {}
                Drained::End => return Poll::Ready(Ok(None)),
                Drained::Overflow(bytes) => {
                    return Poll::Ready(Err(TransportError::Overflow(bytes)));
                }
            }
        }
    }
}

impl Drop for LoopbackSource {
    /// The peer learns, as it would from a socket, that nobody reads any more.
    fn drop(&mut self) {
        self.own.close();
        self.peer.close();
    }
}
