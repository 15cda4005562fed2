//! Turns the body of a streamed answer into model events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use bezel_context::{Cancelled, Context};
use bezel_session_types::{ModelEvent, ProviderError};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::{Instant, Sleep};

use crate::failure::{Fault, Origin};
use crate::sse::Splitter;

/// How much of a body is taken at once before what it holds is handed on.
const BATCH: usize = 64 * 1024;

/// The body of an answer as it arrives.
pub(crate) type Body = BoxStream<'static, Result<Bytes, reqwest::Error>>;

/// Time for the last bytes of an answer that is complete, before the next request takes another connection.
const REST_TIMEOUT: Duration = Duration::from_millis(5);

/// The body of an answer that is complete while its last bytes, which say so to HTTP, had not come. Kept
/// until the next request: the connection can then serve that too, for which it must not be dropped.
#[derive(Clone, Default)]
pub(crate) struct Rest(Arc<Mutex<Option<Body>>>);

impl Rest {
    /// Gives the last answer's connection back to its pool, if its last bytes have come.
    pub(crate) async fn release(&self) {
        let Some(mut body) = self.replace(None) else {
            return;
        };
        let rest = async { while let Some(Ok(_)) = body.next().await {} };
        // Without them it is closed.
        tokio::time::timeout(REST_TIMEOUT, rest).await.ok();
    }

    fn replace(&self, body: Option<Body>) -> Option<Body> {
        std::mem::replace(
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner),
            body,
        )
    }
}

/// What reads one wire format's events.
pub(crate) trait Decode: Send + 'static {
    /// Reads the data of one event.
    fn event(&mut self, data: &[u8], events: &mut Events) -> Result<(), Fault>;

    /// The body has ended. It ends an answer that lacks only its last event, and is a [`Fault::Cut`] else.
    fn end(&mut self, events: &mut Events) -> Result<(), Fault>;

    /// Whether the answer is complete: whatever else comes is not read.
    fn is_complete(&self) -> bool;
}

/// Events that were decoded and not handed on. Pieces of one part that come together become one event.
#[derive(Debug, Default)]
pub(crate) struct Events(VecDeque<ModelEvent>);

impl Events {
    pub(crate) fn text(&mut self, piece: &str) {
        match self.0.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Text(text)) => text.push_str(piece),
            _ => self.0.push_back(ModelEvent::Text(piece.into())),
        }
    }

    pub(crate) fn thinking(&mut self, piece: &str) {
        match self.0.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Thinking(text)) => text.push_str(piece),
            _ => self.0.push_back(ModelEvent::Thinking(piece.into())),
        }
    }

    pub(crate) fn arguments(&mut self, call: usize, piece: &str) {
        match self.0.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::ToolCallDelta { index, arguments }) if *index == call => {
                arguments.push_str(piece)
            }
            _ => self.0.push_back(ModelEvent::ToolCallDelta {
                index: call,
                arguments: piece.into(),
            }),
        }
    }

    pub(crate) fn push(&mut self, event: ModelEvent) {
        self.0.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<ModelEvent> {
        self.0.pop_front()
    }
}

/// One answer. Dropping it before it is complete closes the request.
pub(crate) struct Answer<D: Decode> {
    /// None once it has ended, well or not.
    body: Option<Body>,
    rest: Rest,
    decoder: D,
    splitter: Splitter,
    events: Events,
    /// Whether a read goes on: what it holds is kept back, so that pieces of one part are joined.
    reading: bool,
    /// Bytes taken by this read.
    taken: usize,
    /// Whether the connection's task was given a turn since anything came from it.
    waited: bool,
    /// What to fail with once the events before it are handed on.
    failure: Option<ProviderError>,
    cancelled: BoxFuture<'static, Cancelled>,
    idle: Pin<Box<Sleep>>,
    idle_timeout: Duration,
    origin: Origin,
}

impl<D: Decode> Answer<D> {
    pub(crate) fn new(
        cx: &Context,
        body: Body,
        rest: Rest,
        decoder: D,
        idle_timeout: Duration,
        origin: Origin,
    ) -> Self {
        let cx = cx.clone();
        Answer {
            body: Some(body),
            rest,
            decoder,
            splitter: Splitter::default(),
            events: Events::default(),
            reading: false,
            taken: 0,
            waited: false,
            failure: None,
            cancelled: async move { cx.cancelled().await }.boxed(),
            idle: Box::pin(tokio::time::sleep(idle_timeout)),
            idle_timeout,
            origin,
        }
    }

    fn fail(&mut self, error: ProviderError) {
        self.body = None;
        self.failure = Some(error);
    }

    /// Reads what has arrived. Ready when there is something to hand on or the body has ended.
    fn read(&mut self, cx: &mut PollContext<'_>) -> Poll<()> {
        while self.taken < BATCH {
            let Some(body) = &mut self.body else { break };
            match body.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    self.taken += bytes.len();
                    self.waited = false;
                    self.decode(&bytes);
                }
                Poll::Ready(Some(Err(_))) if self.decoder.is_complete() => self.body = None,
                Poll::Ready(Some(Err(error))) => self.fail(self.origin.broken_off(&error)),
                Poll::Ready(None) => self.body_ended(),
                Poll::Pending if self.taken == 0 => {
                    return self
                        .idle
                        .poll_unpin(cx)
                        .map(|()| self.fail(self.origin.silent(self.idle_timeout)));
                }
                // HTTP/1 hands over one chunk at a time: more of this read may lie ready, and comes once the
                // connection's task had its turn.
                Poll::Pending if !self.waited => {
                    self.waited = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => break,
            }
        }
        self.taken = 0;
        self.waited = false;
        self.idle.as_mut().reset(Instant::now() + self.idle_timeout);
        Poll::Ready(())
    }

    fn decode(&mut self, bytes: &[u8]) {
        let (decoder, events) = (&mut self.decoder, &mut self.events);
        let read = self.splitter.push(bytes, |data| {
            if decoder.is_complete() {
                Ok(())
            } else {
                decoder.event(data, events)
            }
        });
        if let Err(fault) = read {
            self.fail(self.origin.fault(fault));
        }
    }

    fn body_ended(&mut self) {
        self.body = None;
        let (decoder, events) = (&mut self.decoder, &mut self.events);
        // What is left over is half an event if it cannot be read: the answer was cut.
        let last = self.splitter.finish(|data| decoder.event(data, events));
        let ended = match last {
            Err(Fault::Malformed(_)) => Err(Fault::Cut),
            Err(fault) => Err(fault),
            Ok(()) if decoder.is_complete() => Ok(()),
            Ok(()) => decoder.end(events),
        };
        if let Err(fault) = ended {
            self.failure = Some(self.origin.fault(fault));
        }
    }
}

impl<D: Decode + Unpin> Stream for Answer<D> {
    type Item = Result<ModelEvent, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if !this.reading {
                if let Some(event) = this.events.pop() {
                    return Poll::Ready(Some(Ok(event)));
                }
                if let Some(error) = this.failure.take() {
                    return Poll::Ready(Some(Err(error)));
                }
                if this.body.is_none() || this.decoder.is_complete() {
                    return Poll::Ready(None);
                }
            }
            this.reading = true;
            if this.cancelled.poll_unpin(cx).is_ready() {
                this.fail(this.origin.cancelled());
            } else {
                std::task::ready!(this.read(cx));
            }
            this.reading = false;
        }
    }
}

impl<D: Decode> Drop for Answer<D> {
    fn drop(&mut self) {
        if self.decoder.is_complete() {
            drop(self.rest.replace(self.body.take()));
        }
    }
}
