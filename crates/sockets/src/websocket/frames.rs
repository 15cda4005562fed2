//! Frames over an upgraded connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Poller, Poll, ready};

use bezel_rpc::{
    Drained, Frame, FrameDecoder, FrameEncoder, FrameSink, FrameSource, Outbox, Transport,
    TransportError,
};
use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::KEEPALIVE;

/// The largest message, as on a stream.
const MOST_MESSAGE: usize = 16 * 1024 * 1024;
/// Every connection keeps this much for reading, also while it is idle.
const READ_BUFFER: usize = 8 * 1024;
/// Messages are gathered up to this size before they are written without a flush.
const WRITE_BUFFER: usize = 128 * 1024;

/// How both ends set up the protocol.
pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(MOST_MESSAGE))
        .max_frame_size(Some(MOST_MESSAGE))
}

/// The transport over a connection whose upgrade is done.
pub(super) fn transport<S>(socket: WebSocketStream<S>) -> Transport
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let shared = Arc::new(Mutex::new(Shared {
        socket,
        fault: None,
    }));
    let source = Source {
        shared: Arc::clone(&shared),
        decoder: FrameDecoder::new(),
    };
    let sink = Sink {
        shared,
        encoder: FrameEncoder::new(),
        end: End::Open,
    };
    Transport {
        incoming: Box::new(source),
        outgoing: Outbox::new(),
        sink: Some(Box::new(sink)),
        keepalive: Some(KEEPALIVE),
    }
}

/// What both halves use. One task runs them, so the lock is never waited for.
struct Shared<S> {
    socket: WebSocketStream<S>,
    /// What the peer did wrong, for the close frame.
    fault: Option<(CloseCode, &'static str)>,
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Source<S> {
    shared: Arc<Mutex<Shared<S>>>,
    decoder: FrameDecoder,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> FrameSource for Source<S> {
    fn set_limit(&mut self, bytes: usize) {
        self.decoder.set_limit(bytes);
    }

    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        let shared = &mut *lock(&self.shared);
        loop {
            let message = match ready!(Pin::new(&mut shared.socket).poll_next(poller)) {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Poll::Ready(ended(error, &mut shared.fault)),
                None => return Poll::Ready(Ok(None)),
            };
            let decoded = match message {
                Message::Text(text) => self.decoder.message(Bytes::from(text)),
                Message::Binary(_) => {
                    shared.fault = Some((CloseCode::Unsupported, "protocol"));
                    Err(TransportError::Framing(
                        "a binary message; frames are text messages",
                    ))
                }
                // The reply to a ping is sent by itself.
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {
                    continue;
                }
            };
            match decoded {
                Ok(Some(frame)) => return Poll::Ready(Ok(Some(frame))),
                Ok(None) => {}
                Err(error) => {
                    shared.fault.get_or_insert_with(|| fault_of(&error));
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

fn fault_of(error: &TransportError) -> (CloseCode, &'static str) {
    match error {
        TransportError::FrameTooLarge { .. } => (CloseCode::Size, "frame_too_large"),
        _ => (CloseCode::Protocol, "protocol"),
    }
}

/// What the end of reading means; and for the peer's close frame, what it did wrong.
fn ended(
    error: Error,
    fault: &mut Option<(CloseCode, &'static str)>,
) -> Result<Option<Frame>, TransportError> {
    let error = match error {
        // A peer that was killed says nothing: its connection has ended all the same.
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return Ok(None),
        Error::Io(error) => return Err(error.into()),
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            TransportError::FrameTooLarge {
                size,
                limit: max_size,
            }
        }
        Error::Utf8(_) => {
            *fault = Some((CloseCode::Invalid, "protocol"));
            return Err(TransportError::Framing("a text message is not UTF-8"));
        }
        _ => TransportError::Framing("the peer broke the WebSocket protocol"),
    };
    *fault = Some(fault_of(&error));
    Err(error)
}

struct Sink<S> {
    shared: Arc<Mutex<Shared<S>>>,
    encoder: FrameEncoder,
    end: End,
}

/// How far the end of a connection has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// The close frame is queued.
    Closing,
    /// It is written, and nothing follows it.
    Closed,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> FrameSink for Sink<S> {
    fn poll_drain(
        &mut self,
        outbox: &Outbox,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let shared = &mut *lock(&self.shared);
        if self.end != End::Open {
            return self.end.poll(shared, poller);
        }
        loop {
            // New frames join those that are still to be sent, so that small ones may pass large ones.
            let drained = self.encoder.poll_take(outbox, poller);
            if let Poll::Ready(Drained::Overflow(bytes)) = drained {
                return Poll::Ready(Err(TransportError::Overflow(bytes)));
            }
            let written = write(&mut self.encoder, &mut shared.socket, poller)?;
            match (drained, written) {
                (Poll::Ready(Drained::End), Poll::Ready(())) => {
                    return self.end.poll(shared, poller);
                }
                // Once more, so that the queue wakes this task too.
                (Poll::Ready(Drained::Frames), _) => {}
                _ => return Poll::Pending,
            }
        }
    }
}

/// Puts all that waits into one buffer, which leaves at once where the peer takes it.
fn write<S: AsyncRead + AsyncWrite + Unpin>(
    encoder: &mut FrameEncoder,
    socket: &mut WebSocketStream<S>,
    poller: &mut Poller<'_>,
) -> Result<Poll<()>, TransportError> {
    let mut socket = Pin::new(socket);
    loop {
        if socket
            .as_mut()
            .poll_ready(poller)
            .map_err(broken)?
            .is_pending()
        {
            return Ok(Poll::Pending);
        }
        let Some(frame) = encoder.message() else {
            break;
        };
        let message = Message::Text(text(&frame)?);
        socket.as_mut().start_send(message).map_err(broken)?;
    }
    Ok(socket.poll_flush(poller).map_err(broken)?.map(|()| ()))
}

impl End {
    /// Says goodbye, then takes what the peer has still sent: a connection that is closed over unread
    /// bytes loses the goodbye itself. Whoever waits for this bounds the time.
    fn poll<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        shared: &mut Shared<S>,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>> {
        if *self == End::Open {
            let frame = shared.fault.map(|(code, reason)| CloseFrame {
                code,
                reason: Utf8Bytes::from_static(reason),
            });
            match Pin::new(&mut shared.socket).start_send(Message::Close(frame)) {
                Ok(()) => *self = End::Closing,
                // The peer said goodbye first.
                Err(error) => {
                    tracing::trace!(%error, "a connection had ended before its close frame");
                    return Poll::Ready(Ok(()));
                }
            }
        }
        if *self == End::Closing {
            let flushed = ready!(Pin::new(&mut shared.socket).poll_flush(poller));
            let stopped = match flushed {
                Ok(()) => ready!(Pin::new(shared.socket.get_mut()).poll_shutdown(poller))
                    .map_err(Into::into),
                Err(error) => Err(broken(error)),
            };
            *self = End::Closed;
            if let Err(error) = stopped {
                tracing::trace!(%error, "a connection broke before its goodbye was read");
                return Poll::Ready(Ok(()));
            }
        }
        let mut space = [0; 4096];
        loop {
            let mut unread = ReadBuf::new(&mut space);
            match ready!(Pin::new(shared.socket.get_mut()).poll_read(poller, &mut unread)) {
                Ok(()) if !unread.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// A frame as a message: the one copy on its way out, beside the socket's own buffer.
fn text(frame: &Frame) -> Result<Utf8Bytes, TransportError> {
    let mut message = BytesMut::with_capacity(frame.len());
    message.put_slice(&frame.header);
    message.put_u8(b'\n');
    message.put_slice(&frame.payload);
    Utf8Bytes::try_from(message.freeze())
        .map_err(|_| TransportError::Framing("a frame that is not UTF-8 cannot be sent on"))
}

fn broken(error: Error) -> TransportError {
    match error {
        Error::Io(error) => error.into(),
        other => std::io::Error::other(other).into(),
    }
}
