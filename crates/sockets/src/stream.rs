//! Frames over a connected Unix stream.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, ready};

use bezel_rpc::{
    Drained, Frame, FrameDecoder, FrameEncoder, FrameSink, FrameSource, Outbox, Transport,
    TransportError,
};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How much is read at once: more for those who send more. An idle connection holds no buffer.
const FIRST_READ: usize = 8 * 1024;
const LARGEST_READ: usize = 96 * 1024;

/// The transport over a stream that is in non-blocking mode.
///
/// Its peer's death ends the stream, so nothing has to ask after it. The two halves wait apart, and
/// the writing half only while it is blocked: registered for both at once, every read of the peer
/// would wake this side.
pub(crate) fn transport(stream: UnixStream) -> std::io::Result<Transport> {
    let stream = Arc::new(OwnedFd::from(stream));
    let source = Source {
        stream: register(Arc::clone(&stream), Interest::READABLE)?,
        frames: Bytes::new(),
        partial: Vec::new(),
        decoder: FrameDecoder::new(),
        next_read: FIRST_READ,
        ended: false,
    };
    let sink = Sink {
        stream,
        blocked: None,
        encoder: FrameEncoder::new(),
    };
    Ok(Transport {
        incoming: Box::new(source),
        outgoing: Outbox::new(),
        sink: Some(Box::new(sink)),
        keepalive: None,
    })
}

/// Lets the runtime watch a descriptor.
fn register(stream: Arc<OwnedFd>, interest: Interest) -> std::io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, its number never changes, and the `Arc`
    // inside the `AsyncFd` keeps it alive.
    let registered = unsafe { AsyncFd::register_with_interest(stream, interest) };
    Ok(registered?)
}

struct Source {
    stream: AsyncFd<Arc<OwnedFd>>,
    /// Received frames, and at most the beginning of one after them.
    frames: Bytes,
    /// The beginning of a frame that is not whole yet.
    partial: Vec<u8>,
    decoder: FrameDecoder,
    next_read: usize,
    ended: bool,
}

impl FrameSource for Source {
    fn set_limit(&mut self, bytes: usize) {
        self.decoder.set_limit(bytes);
    }

    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.frames)? {
                return Poll::Ready(Ok(Some(frame)));
            }
            if self.ended {
                return Poll::Ready(match self.frames.is_empty() {
                    true => Ok(None),
                    false => Err(TransportError::Framing("the stream ended inside a frame")),
                });
            }
            ready!(self.poll_fill(poller))?;
        }
    }
}

impl Source {
    /// Reads until there is something to decode.
    fn poll_fill(&mut self, poller: &mut Poller<'_>) -> Poll<std::io::Result<()>> {
        loop {
            let mut guard = ready!(self.stream.poll_read_ready(poller))?;
            let partial = &mut self.partial;
            partial.extend_from_slice(&std::mem::take(&mut self.frames));
            let missing = self.decoder.missing(partial);
            partial.reserve(missing.clamp(self.next_read, LARGEST_READ));
            let room = partial.capacity() - partial.len();
            match rustix::io::read(self.stream.get_ref(), spare_capacity(partial)) {
                // A peer that was killed with data unread: its stream has ended all the same.
                Ok(0) | Err(Errno::CONNRESET) => self.ended = true,
                Ok(read) if read == room => self.next_read = (room * 2).min(LARGEST_READ),
                Ok(read) => {
                    // Less than there was room for: nothing is left, and more will be told.
                    guard.clear_ready();
                    if read < self.next_read / 4 {
                        self.next_read = (self.next_read / 2).max(FIRST_READ);
                    }
                }
                Err(Errno::WOULDBLOCK) => guard.clear_ready(),
                Err(Errno::INTR) => continue,
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if self.ended || self.decoder.missing(partial) == 0 {
                self.frames = Bytes::from(std::mem::take(partial));
                return Poll::Ready(Ok(()));
            }
            if partial.is_empty() {
                *partial = Vec::new();
            }
        }
    }
}

struct Sink {
    stream: Arc<OwnedFd>,
    /// Registered while the peer does not take what there is to write.
    blocked: Option<AsyncFd<Arc<OwnedFd>>>,
    encoder: FrameEncoder,
}

impl FrameSink for Sink {
    fn poll_drain(
        &mut self,
        outbox: &Outbox,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            // New frames join those that are still being written, so that small ones may pass large ones.
            match self.encoder.poll_take(outbox, poller) {
                Poll::Ready(Drained::Overflow(bytes)) => {
                    return Poll::Ready(Err(TransportError::Overflow(bytes)));
                }
                Poll::Ready(Drained::End) if self.encoder.is_empty() => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending if self.encoder.is_empty() => {
                    self.blocked = None;
                    return Poll::Pending;
                }
                Poll::Ready(_) | Poll::Pending => {}
            }
            if let Some(blocked) = &self.blocked {
                ready!(blocked.poll_write_ready(poller))?.clear_ready();
            }
            let mut slices = [IoSlice::new(&[]); 32];
            let count = self.encoder.slices(&mut slices);
            let mut control = SendAncillaryBuffer::default();
            let sent = sendmsg(
                &self.stream,
                &slices[..count],
                &mut control,
                SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(written) => self.encoder.advance(written),
                Err(Errno::WOULDBLOCK) if self.blocked.is_none() => {
                    // A second descriptor, for one can be registered once.
                    let stream = Arc::new(self.stream.try_clone()?);
                    self.blocked = Some(register(stream, Interest::WRITABLE)?);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(std::io::Error::from(error).into())),
            }
        }
    }
}
