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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bezel_context::{ClientId, Principal, Scopes, TaskScope, Workspaces};
    use bytes::Bytes;
    use tokio::sync::Notify;

    use super::super::outbox::Drained;
    use super::*;
    use crate::limits::Limits;
    use crate::provider::{ServiceTable, Told};

    /// Bytes of each answer: so many in one batch are twice what an outbox holds.
    const ANSWER: usize = 64 * 1024;

    fn frame(payload: usize) -> Frame {
        Frame {
            header: Header::new(Kind::Ping).encode(),
            payload: Bytes::from(vec![b' '; payload]),
        }
    }

    /// A peer that has asked for all of it at once, and waits.
    struct Asked(usize);

    impl FrameSource for Asked {
        fn poll_recv(&mut self, _: &mut Poller<'_>) -> Poll<Result<Option<Frame>, TransportError>> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Poll::Ready(Ok(Some(frame(0))))
                }
                None => Poll::Pending,
            }
        }
    }

    /// A peer that reads as fast as it is written to.
    struct Reads {
        written: usize,
        all: usize,
        most: Arc<AtomicUsize>,
        done: Arc<Notify>,
    }

    impl FrameSink for Reads {
        fn poll_drain(
            &mut self,
            outbox: &Outbox,
            poller: &mut Poller<'_>,
        ) -> Poll<Result<(), TransportError>> {
            self.most.fetch_max(outbox.waiting(), Ordering::Relaxed);
            let mut batch = VecDeque::new();
            loop {
                match outbox.poll_drain(&mut batch, poller) {
                    Poll::Ready(Drained::Frames) => self.written += batch.drain(..).count(),
                    Poll::Ready(Drained::End) => return Poll::Ready(Ok(())),
                    Poll::Ready(Drained::Overflow(bytes)) => {
                        return Poll::Ready(Err(TransportError::Overflow(bytes)));
                    }
                    Poll::Pending => break,
                }
            }
            if self.written == self.all {
                self.done.notify_one();
            }
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn answers_that_are_there_at_once_are_written_before_they_fill_the_outbox() {
        let (most, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let outgoing = Outbox::new();
        let sink = Reads {
            written: 0,
            all: READ_BATCH,
            most: Arc::clone(&most),
            done: Arc::clone(&done),
        };
        let mut connection = Connection::new(Transport {
            incoming: Box::new(Asked(READ_BATCH)),
            outgoing: outgoing.clone(),
            sink: Some(Box::new(sink)),
            keepalive: None,
        });
        let tasks = TaskScope::new();
        let peer = Principal {
            client: ClientId::new("c"),
            owner: "me".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        let provider = Provider::new(
            ServiceTable::new(),
            outgoing.clone(),
            tasks.spawner(),
            Limits::default(),
            peer,
            Told::default(),
        );
        let answer = |_: Frame| {
            let sent = outgoing.send(frame(ANSWER));
            sent.map_err(|_| End::Transport(TransportError::Overflow(outgoing.waiting())))
        };
        tokio::select! {
            end = connection.run(&provider, answer) => panic!("{end}"),
            () = done.notified() => {}
        }
        let most = most.load(Ordering::Relaxed);
        assert!(most < ANSWERED + 2 * ANSWER, "{most} bytes waited");
    }
}
