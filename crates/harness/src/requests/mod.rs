//! Durable requests: what a call asks somebody, kept until it settles, answered once.
//!
//! A request and its answer are memos of the call that asks (see [`crate::memos`]). A call may ask while it is
//! cleared, and while it runs where it is safe to replay: then asking again after a crash finds the same
//! request, or the answer that came meanwhile. The first answer wins; it is on the disk before anybody is
//! told that it was accepted, and it needs nobody to wait for it.

mod answers;
mod asked;
mod error;
mod waiting;

use std::sync::{Arc, Weak};

use bezel_context::Context;
use bezel_session_types::{InvocationId, LaneName, OperationId, SubmitOutcome};
use jsonschema::Validator;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use answers::Answer;
pub(crate) use answers::Answers;
pub(crate) use asked::{Asked, load_notes};
pub use asked::{ChannelId, PendingRequests};
pub use error::{ChannelError, SubmitError, WaitError};
use waiting::Channel;
pub(crate) use waiting::Channels;

use crate::harness::{Harness, Session};
use crate::lane::Lane;
use crate::memos::call_requests;
use crate::operation::CallPhase;
use crate::schema::{self, Schema};
use crate::state::Step;

/// What registering found.
enum Registered {
    Pending,
    Resolved(Arc<Value>),
}

/// What the journal says of a request.
#[derive(Serialize)]
struct Fact<'fact> {
    channel: &'fact ChannelId,
    invocation: &'fact InvocationId,
    lane: &'fact LaneName,
    operation: &'fact OperationId,
}

/// One kind of request. Clones are the same channel. It keeps no session open: the tools of a session
/// hold its channels.
#[derive(Clone)]
pub struct RequestChannel {
    session: Weak<Session>,
    id: ChannelId,
    channel: Arc<Channel>,
    request: Arc<Schema>,
    response: Arc<Schema>,
}

impl Harness {
    /// How many requests wait for an answer, of whichever channel, now and from now on.
    pub fn open_requests(&self) -> watch::Receiver<usize> {
        self.session().channels.open()
    }

    /// Opens a channel whose requests and answers match these schemas. What an earlier process left
    /// asked is there.
    pub fn requests(
        &self,
        id: ChannelId,
        request: &Value,
        response: &Value,
    ) -> Result<RequestChannel, ChannelError> {
        let compile = |part, schema| {
            schema::compile(schema).map_err(|error| ChannelError {
                channel: id.clone(),
                part,
                reason: error.to_string(),
            })
        };
        let (request, response) = (compile("request", request)?, compile("response", response)?);
        Ok(RequestChannel {
            channel: self.session().channels.channel(&id),
            session: Arc::downgrade(self.session()),
            id,
            request,
            response,
        })
    }
}

impl RequestChannel {
    /// What waits for an answer, now and from now on.
    pub fn pending(&self) -> watch::Receiver<PendingRequests> {
        self.channel.pending()
    }

    /// Asks on behalf of a call, or finds what it asked before, and waits for the answer. Without an end
    /// of its own: it ends with `cx`, and when the call is settled or interrupted. Ending `cx` writes
    /// nothing and leaves the request asked.
    pub async fn wait(
        &self,
        cx: &Context,
        invocation_id: &InvocationId,
        request: Value,
    ) -> Result<Arc<Value>, WaitError> {
        cx.status().map_err(WaitError::Cancelled)?;
        if let Some(found) = mismatch(&self.request, &request) {
            return Err(WaitError::Invalid {
                invocation_id: invocation_id.clone(),
                channel: self.id.clone(),
                found,
            });
        }
        // Before it is shown: whoever sees it may answer at once.
        let waiter = self.channel.wait_for(invocation_id)?;
        let session = self.session.upgrade().ok_or(WaitError::Closed)?;
        if let Registered::Resolved(response) = self.register(&session, invocation_id, request)? {
            return Ok(response);
        }
        drop(session);
        match cx.run(waiter.answered()).await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(WaitError::NotCurrent {
                invocation_id: invocation_id.clone(),
            }),
            Err(cancelled) => Err(WaitError::Cancelled(cancelled)),
        }
    }

    /// Answers a request. The first answer that is committed is the answer, and is on the disk when this
    /// says so; later ones find nothing pending. Nobody need wait for it. Ending `cx` ends the waiting
    /// alone.
    pub async fn submit(
        &self,
        cx: &Context,
        invocation_id: &InvocationId,
        response: Value,
    ) -> Result<SubmitOutcome, SubmitError> {
        cx.status().map_err(SubmitError::Cancelled)?;
        if let Some(found) = mismatch(&self.response, &response) {
            return Err(SubmitError::Invalid {
                invocation_id: invocation_id.clone(),
                channel: self.id.clone(),
                found,
            });
        }
        let session = self.open_session()?;
        let (told, outcome) = oneshot::channel();
        session.answer(Answer {
            channel: self.clone(),
            invocation_id: invocation_id.clone(),
            response: Arc::new(response),
            told,
        });
        drop(session);
        match cx.run(outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(SubmitError::Closed),
            Err(cancelled) => Err(SubmitError::Cancelled(cancelled)),
        }
    }

    fn open_session(&self) -> Result<Arc<Session>, SubmitError> {
        let session = self.session.upgrade();
        session
            .filter(|session| !session.closed())
            .ok_or(SubmitError::Closed)
    }

    fn register(
        &self,
        session: &Arc<Session>,
        invocation_id: &InvocationId,
        request: Value,
    ) -> Result<Registered, WaitError> {
        let not_current = || WaitError::NotCurrent {
            invocation_id: invocation_id.clone(),
        };
        for lane in session.all_lanes() {
            let mut state = lane.core.lock();
            let Some((operation, call)) = state.open_call(invocation_id) else {
                continue;
            };
            if operation.cancel_requested.is_some() {
                return Err(not_current());
            }
            if call.phase == (CallPhase::EffectPending { replay_safe: false }) {
                return Err(WaitError::NotReplaySafe {
                    invocation_id: invocation_id.clone(),
                });
            }
            if session.closed() {
                return Err(WaitError::Closed);
            }
            let operation_id = operation.id.clone();
            let mut asked = state.notes.asked.iter();
            if let Some(asked) = asked.find(|asked| asked.is(&self.id, invocation_id)) {
                return match &asked.response {
                    _ if *asked.request != request => Err(WaitError::OtherRequest {
                        invocation_id: invocation_id.clone(),
                        channel: self.id.clone(),
                    }),
                    Some(response) => Ok(Registered::Resolved(Arc::clone(response))),
                    None => Ok(Registered::Pending),
                };
            }
            let mut step = Step::default();
            self.journal(
                &lane,
                &operation_id,
                invocation_id,
                "request_asked",
                &mut step,
            );
            let key = self.key(&operation_id, invocation_id, "request");
            step.transaction.set_value(key, &request);
            lane.commit(&mut state, step)?;
            let asked = Asked {
                invocation_id: invocation_id.clone(),
                channel: self.id.clone(),
                request: Arc::new(request),
                response: None,
            };
            state.notes.noted.insert(invocation_id.clone());
            self.channel.show(&asked);
            state.notes.asked.push(asked);
            return Ok(Registered::Pending);
        }
        Err(not_current())
    }

    /// Adds the fact for those who follow the journal; never what is asked or answered.
    fn journal(
        &self,
        lane: &Lane,
        operation: &OperationId,
        invocation: &InvocationId,
        kind: &'static str,
        step: &mut Step,
    ) {
        let fact = Fact {
            channel: &self.id,
            invocation,
            lane: &lane.core.name,
            operation,
        };
        step.transaction.journal(kind, fact);
    }

    fn key(&self, operation: &OperationId, invocation: &InvocationId, part: &str) -> String {
        format!("{}{}:{part}", call_requests(operation, invocation), self.id)
    }
}

impl std::fmt::Debug for RequestChannel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("RequestChannel")
            .field(&self.id)
            .finish()
    }
}

/// Where and why a value does not match a schema; nothing where it does. Never the value itself.
fn mismatch(validator: &Validator, value: &Value) -> Option<String> {
    if validator.is_valid(value) {
        return None;
    }
    let error = validator.iter_errors(value).next()?;
    let place = error.instance_path().to_string();
    let place = if place.is_empty() { "/" } else { &place };
    Some(format!("at {place}, {}", error.masked_with("the value")))
}
