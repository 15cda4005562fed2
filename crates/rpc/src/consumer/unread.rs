//! A peer's services without their contracts: payloads pass as they are, for who hands them on.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};

use bezel_context::Context;
use bytes::Bytes;
use futures::task::AtomicWaker;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::line::{Line, Reply};
use super::namespace::Remote;
use crate::error::{Envelope, ErrorCode, RpcError};
use crate::sync::lock;
use crate::wire::{Header, Kind};

/// Why a call gave no result, as it crossed: nobody here knows the contract whose error it may be.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct UnreadError {
    /// One of [`ErrorCode`]'s, or the contract's own.
    pub code: String,
    /// What was attempted, on what, and what to do.
    pub message: String,
    /// Detail that a program can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Whether the contract declares it; otherwise it is the machinery's.
    #[serde(skip)]
    pub declared: bool,
}

impl From<RpcError> for UnreadError {
    fn from(error: RpcError) -> Self {
        UnreadError {
            code: error.code.as_str().to_owned(),
            message: error.message,
            data: error.data,
            declared: false,
        }
    }
}

impl UnreadError {
    fn of(envelope: Envelope, declared: bool) -> Self {
        UnreadError {
            code: envelope.code,
            message: envelope.message,
            data: envelope.data,
            declared,
        }
    }
}

/// What comes of a service that is followed. Payloads are strict JSON.
#[derive(Debug)]
pub enum Notice {
    /// First: every state that the follower may see, by member, with its revision. From here on nothing is
    /// missed.
    Snapshot(HashMap<String, (u64, Bytes)>),
    /// A state changed.
    State {
        /// Which.
        member: String,
        /// The revision that the patch applies to; none where the payload is the whole value.
        base: Option<u64>,
        /// The revision that it has now.
        revision: u64,
        /// The whole value, or an array of operations.
        payload: Bytes,
    },
    /// An event.
    Event {
        /// Of which member.
        member: String,
        /// The event.
        payload: Bytes,
    },
    /// In the place of events that were dropped, for the follower did not keep up.
    Lost {
        /// Of which member.
        member: String,
        /// How many.
        count: u64,
    },
    /// Nothing follows: the service, the attachment or the connection has gone, or there was no way in.
    Closed(UnreadError),
}

impl Remote {
    /// Calls a member with arguments that are one JSON object, or nothing at all, and answers with the result
    /// as JSON. Dropping the future tells the peer to stop. A reference in the answer is given back at once.
    pub async fn call_unread(
        &self,
        cx: &Context,
        service: &str,
        member: &str,
        arguments: Bytes,
    ) -> Result<Bytes, UnreadError> {
        cx.status().map_err(RpcError::from)?;
        if !arguments.is_empty() {
            crate::strict::check(&arguments).map_err(|error| {
                let text = format!("the arguments of {service}.{member} cannot be taken: {error}");
                RpcError::new(ErrorCode::InvalidArguments, text)
            })?;
        }
        let (line, route) = self.reach_unread(service)?;
        let traceparent = cx.trace().traceparent();
        let header = Header {
            route,
            service: Some(service),
            member: Some(member),
            trace: Some(&traceparent),
            trace_state: cx.trace().tracestate().map(Into::into),
            deadline: cx
                .remaining()
                .map(|left| u64::try_from(left.as_millis()).map_or(1 << 53, |left| left.max(1))),
            ..Header::new(Kind::Call)
        };
        let mut begun = line.call(header, arguments)?;
        tokio::select! {
            biased;
            reply = &mut begun.reply => match reply {
                Ok(Reply::Value(payload)) if payload.is_empty() => Ok(Bytes::from_static(b"null")),
                Ok(Reply::Value(payload)) => Ok(payload),
                Ok(Reply::Reference(_)) => Err(RpcError::new(
                    ErrorCode::InvalidResult,
                    format!("{service}.{member} answers with an object, which stays where it is"),
                )
                .into()),
                Ok(Reply::Declared(envelope)) => Err(UnreadError::of(envelope, true)),
                Ok(Reply::Failed(error)) => Err(error.into()),
                Err(_) => {
                    let text = "the connection ended";
                    Err(RpcError::new(ErrorCode::Disconnected, text).into())
                }
            },
            reason = cx.cancelled() => Err(RpcError::from(reason).into()),
        }
    }

    /// Follows all states and events of a service. The owner sends as fast as [`Followed::next`] is asked: who is
    /// slow gets the latest states, and a mark in the place of lost events.
    pub fn follow_unread(&self, cx: &Context, service: &str) -> Result<Followed, RpcError> {
        cx.status()?;
        let (line, route) = self.reach_unread(service)?;
        let traceparent = cx.trace().traceparent();
        let header = Header {
            route,
            service: Some(service),
            trace: Some(&traceparent),
            trace_state: cx.trace().tracestate().map(Into::into),
            ..Header::new(Kind::Subscribe)
        };
        let arrivals = Arc::<Arrivals>::default();
        let id = line.subscribe_unread(header, &arrivals)?;
        Ok(Followed { line, id, arrivals })
    }
}

/// What a service that is followed sends. Dropping it ends that.
pub struct Followed {
    line: Arc<Line>,
    id: u64,
    arrivals: Arc<Arrivals>,
}

impl Followed {
    /// The next notice; none after [`Notice::Closed`].
    pub async fn next(&mut self) -> Option<Notice> {
        std::future::poll_fn(|poller| self.poll_next(poller)).await
    }

    /// See [`Followed::next`].
    pub fn poll_next(&mut self, poller: &mut Poller<'_>) -> Poll<Option<Notice>> {
        self.arrivals.waker.register(poller.waker());
        let mut waiting = lock(&self.arrivals.waiting);
        match waiting.queue.pop_front() {
            Some((notice, bytes)) => {
                drop(waiting);
                self.line.consumed(self.id, bytes);
                Poll::Ready(Some(notice))
            }
            None if waiting.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.line.unsubscribe(self.id);
    }
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Followed")
    }
}

/// What has come and was not asked for yet: as much as the window allows, for only what is taken widens it.
#[derive(Default)]
pub(super) struct Arrivals {
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Waiting {
    /// Each with its payload's bytes.
    queue: VecDeque<(Notice, u64)>,
    closed: bool,
}

#[derive(Deserialize)]
struct Snapshot<'p> {
    #[serde(default, borrow)]
    cells: HashMap<Cow<'p, str>, (u64, &'p RawValue)>,
}

impl Arrivals {
    /// Takes one frame of the subscription.
    pub(super) fn deliver(&self, header: &Header<'_>, payload: &Bytes) {
        let notice = read(header, payload).unwrap_or_else(Notice::Closed);
        self.push(notice, payload.len() as u64);
    }

    /// The way to the owner is gone.
    pub(super) fn end(&self, error: RpcError) {
        self.push(Notice::Closed(error.into()), 0);
    }

    fn push(&self, notice: Notice, bytes: u64) {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return;
        }
        waiting.closed = matches!(notice, Notice::Closed(_));
        waiting.queue.push_back((notice, bytes));
        drop(waiting);
        self.waker.wake();
    }
}

fn read(header: &Header<'_>, payload: &Bytes) -> Result<Notice, UnreadError> {
    let broken = |cause: String| {
        let text = format!("what the peer sent cannot be read: {cause}");
        UnreadError::from(RpcError::new(ErrorCode::InvalidResult, text))
    };
    let member = || {
        let named = header.member.map(str::to_owned);
        named.ok_or_else(|| broken("a frame lacks its member".to_owned()))
    };
    if let Some(count) = header.lost {
        return Ok(Notice::Lost {
            member: member()?,
            count,
        });
    }
    crate::strict::check(payload).map_err(|error| broken(error.to_string()))?;
    match header.kind {
        Kind::Snapshot => {
            let snapshot: Snapshot<'_> =
                serde_json::from_slice(payload).map_err(|error| broken(error.to_string()))?;
            let cell = |(name, (revision, value)): (Cow<'_, str>, (u64, &RawValue))| {
                (
                    name.into_owned(),
                    (revision, payload.slice_ref(value.get().as_bytes())),
                )
            };
            Ok(Notice::Snapshot(
                snapshot.cells.into_iter().map(cell).collect(),
            ))
        }
        Kind::State => Ok(Notice::State {
            member: member()?,
            base: header.base,
            revision: header
                .revision
                .ok_or_else(|| broken("a frame lacks its revision".to_owned()))?,
            payload: payload.clone(),
        }),
        Kind::Event => Ok(Notice::Event {
            member: member()?,
            payload: payload.clone(),
        }),
        _ => {
            let envelope: Envelope =
                serde_json::from_slice(payload).map_err(|error| broken(error.to_string()))?;
            Ok(Notice::Closed(UnreadError::of(envelope, header.declared)))
        }
    }
}
