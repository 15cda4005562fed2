//! Runs one connection in one task: reads and acts on frames, then writes all that this caused.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::frame::{Frame, FrameSink, FrameSource, Transport, TransportError};
use super::{Header, Kind, Outbox};
use crate::error::RpcError;
use crate::provider::Provider;

/// Frames that are read before anything is written.
const READ_BATCH: usize = 256;
/// Bytes that wait to be written after which frames are read one by one.
const ANSWERED: usize = 1024 * 1024;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The peer closed it.
    Closed,
    /// The peer said that it goes, and why.
    Goaway(String),
    /// The peer broke the protocol or a limit.
    Violation(RpcError),
    /// It broke.
    Transport(TransportError),
    /// The peer was silent for too long.
    Silent(Duration),
}

impl std::fmt::Display for End {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => formatter.write_str("the peer closed the connection"),
            End::Goaway(reason) => write!(formatter, "the peer ends the connection: {reason}"),
            End::Violation(error) => write!(formatter, "{error}"),
            End::Transport(error) => write!(formatter, "{error}"),
            End::Silent(interval) => write!(formatter, "the peer did not answer for {interval:?}"),
        }
    }
}

impl End {
    /// What the peer did wrong, where it did.
    pub(crate) fn fault(&self) -> Option<RpcError> {
        match self {
            End::Violation(error) => Some(error.clone()),
            End::Transport(error) => Some(RpcError::new(error.fault()?, error.to_string())),
            End::Closed | End::Goaway(_) | End::Silent(_) => None,
        }
    }
}

/// A transport that is being run.
pub(crate) struct Connection {
    incoming: Box<dyn FrameSource>,
    pub(crate) outgoing: Outbox,
    sink: Option<Box<dyn FrameSink>>,
    flush: Option<Pin<Box<Sleep>>>,
    keepalive: Option<Keepalive>,
}

struct Keepalive {
    interval: Duration,
    sleep: Pin<Box<Sleep>>,
    heard: bool,
    pinged: bool,
}

impl Connection {
    pub(crate) fn new(transport: Transport) -> Self {
        let keepalive = transport.keepalive.map(|interval| Keepalive {
            interval,
            sleep: Box::pin(tokio::time::sleep(interval)),
            heard: false,
            pinged: false,
        });
        Connection {
            incoming: transport.incoming,
            outgoing: transport.outgoing,
            sink: transport.sink,
            flush: None,
            keepalive,
        }
    }

    /// From now on the peer may send no larger message.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.incoming.set_limit(bytes);
    }

    /// The next frame, for the handshake.
    pub(crate) async fn recv(&mut self) -> Result<Option<Frame>, TransportError> {
        std::future::poll_fn(|poller| {
            if let Poll::Ready(frame) = self.incoming.poll_recv(poller) {
                return Poll::Ready(frame);
            }
            match self.poll_write(poller) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(None)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Gives every frame to `act` until the connection ends.
    pub(crate) async fn run(
        &mut self,
        provider: &Provider,
        mut act: impl FnMut(Frame) -> Result<(), End>,
    ) -> End {
        std::future::poll_fn(|poller| {
            // Whoever closed this end is done with the peer, whether it reads what waits for it or not.
            if self.outgoing.is_closed() {
                return Poll::Ready(match self.poll_write(poller) {
                    Poll::Ready(Err(error)) => End::Transport(error),
                    Poll::Ready(Ok(())) | Poll::Pending => End::Closed,
                });
            }
            let mut exhausted = true;
            for _ in 0..READ_BATCH {
                match self.incoming.poll_recv(poller) {
                    Poll::Ready(Ok(Some(frame))) => {
                        if let Some(keepalive) = &mut self.keepalive {
                            keepalive.heard = true;
                        }
                        if let Err(end) = act(frame) {
                            return Poll::Ready(end);
                        }
                        // What is answered at once would pass any bound before the first of it is written.
                        if self.outgoing.waiting() >= ANSWERED {
                            break;
                        }
                    }
                    Poll::Ready(Ok(None)) => return Poll::Ready(End::Closed),
                    Poll::Ready(Err(error)) => return Poll::Ready(End::Transport(error)),
                    Poll::Pending => {
                        exhausted = false;
                        break;
                    }
                }
            }
            if exhausted {
                poller.waker().wake_by_ref();
            }
            self.poll_flush(provider, poller);
            if let Poll::Ready(end) = self.poll_keepalive(poller) {
                return Poll::Ready(end);
            }
            loop {
                provider.start_waiting();
                match self.poll_write(poller) {
                    Poll::Ready(Ok(())) => return Poll::Ready(End::Closed),
                    Poll::Ready(Err(error)) => return Poll::Ready(End::Transport(error)),
                    Poll::Pending if provider.start_waiting() => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Closes the outbox and writes what waits in it, for `grace` at most.
    pub(crate) async fn finish(mut self, grace: Duration) {
        self.outgoing.close();
        if self.sink.is_none() {
            return;
        }
        let written = tokio::time::timeout(
            grace,
            std::future::poll_fn(|poller| self.poll_write(poller)),
        )
        .await;
        if written.is_err() {
            tracing::debug!("a peer did not take the last frames of its connection");
        }
    }

    fn poll_write(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), TransportError>> {
        match &mut self.sink {
            Some(sink) => sink.poll_drain(&self.outgoing, poller),
            // The peer takes what waits by itself, also after this end has gone.
            None => self
                .outgoing
                .poll_closed(poller)
                .map(|waiting| match waiting {
                    None => Ok(()),
                    Some(bytes) => Err(TransportError::Overflow(bytes)),
                }),
        }
    }

    fn poll_flush(&mut self, provider: &Provider, poller: &mut Poller<'_>) {
        while let Poll::Ready(due) = provider.poll_due(poller) {
            if due <= Instant::now() {
                provider.flush();
                continue;
            }
            let flush = self
                .flush
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if flush.deadline() != due {
                flush.as_mut().reset(due);
            }
            if flush.as_mut().poll(poller).is_pending() {
                return;
            }
            provider.flush();
        }
        self.flush = None;
    }

    fn poll_keepalive(&mut self, poller: &mut Poller<'_>) -> Poll<End> {
        let Some(keepalive) = &mut self.keepalive else {
            return Poll::Pending;
        };
        while keepalive.sleep.as_mut().poll(poller).is_ready() {
            if keepalive.heard {
                keepalive.pinged = false;
            } else if keepalive.pinged {
                return Poll::Ready(End::Silent(keepalive.interval * 2));
            } else {
                keepalive.pinged = true;
                let ping = Frame {
                    header: Header::new(Kind::Ping).encode(),
                    payload: bytes::Bytes::new(),
                };
                if let Err(error) = self.outgoing.send(ping) {
                    tracing::trace!(%error, "a ping was not sent");
                }
            }
            keepalive.heard = false;
            keepalive
                .sleep
                .as_mut()
                .reset(Instant::now() + keepalive.interval);
        }
        Poll::Pending
    }
}
