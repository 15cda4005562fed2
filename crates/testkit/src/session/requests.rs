//! Durable requests of a played session: every call may ask, and what is asked lives as long as the test.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::backend::RequestsBackend;
use bezel_api_session::{SubmitError, WaitError};
use bezel_context::Context;
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

/// One channel.
pub(super) struct FakeRequests {
    // A plain mutex: held to read or change the record, never across an await.
    record: Mutex<Record>,
    pending: watch::Sender<Arc<[PendingRequest<Arc<Value>>]>>,
    answers: watch::Sender<HashMap<InvocationId, Arc<Value>>>,
}

#[derive(Default)]
struct Record {
    asked: HashMap<InvocationId, Value>,
    waiting: HashSet<InvocationId>,
    settled: HashSet<InvocationId>,
}

impl Default for FakeRequests {
    fn default() -> Self {
        FakeRequests {
            record: Mutex::default(),
            pending: watch::Sender::new(Arc::from([])),
            answers: watch::Sender::default(),
        }
    }
}

/// Ends a wait when dropped.
struct Waiting<'channel>(&'channel FakeRequests, &'channel InvocationId);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting.remove(self.1);
    }
}

impl FakeRequests {
    pub(super) fn withdraw(&self, invocation: &InvocationId) {
        self.lock().settled.insert(invocation.clone());
        self.hide(invocation);
        // Wakes the waiter, which looks again.
        self.answers.send_modify(|answers| {
            answers.remove(invocation);
        });
    }

    fn ask(&self, invocation: &InvocationId, request: Value) -> Result<(), WaitError> {
        let mut record = self.lock();
        if record.settled.contains(invocation) {
            return Err(WaitError::Ended(format!("call {invocation} has settled")));
        }
        match record.asked.get(invocation) {
            Some(asked) if *asked != request => {
                return Err(WaitError::Refused("it asked something else before".into()));
            }
            Some(_) => {}
            None => {
                record.asked.insert(invocation.clone(), request.clone());
                self.pending.send_modify(|pending| {
                    let mut longer = pending.to_vec();
                    longer.push(PendingRequest {
                        id: invocation.clone(),
                        request: Arc::new(request),
                        asker: None,
                    });
                    *pending = longer.into();
                });
            }
        }
        if !record.waiting.insert(invocation.clone()) {
            return Err(WaitError::Refused("it waits already".into()));
        }
        Ok(())
    }

    fn hide(&self, invocation: &InvocationId) {
        self.pending.send_modify(|pending| {
            let left = pending.iter().filter(|shown| shown.id != *invocation);
            *pending = left.cloned().collect();
        });
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestsBackend for FakeRequests {
    fn pending(&self) -> watch::Receiver<Arc<[PendingRequest<Arc<Value>>]>> {
        self.pending.subscribe()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        invocation: &'a InvocationId,
        request: Value,
    ) -> BoxFuture<'a, Result<Arc<Value>, WaitError>> {
        async move {
            let mut answers = self.answers.subscribe();
            self.ask(invocation, request)?;
            let _waiting = Waiting(self, invocation);
            let answered = |answers: &HashMap<InvocationId, Arc<Value>>| {
                answers.contains_key(invocation) || self.lock().settled.contains(invocation)
            };
            let answers = cx.run(answers.wait_for(answered)).await;
            let answers = answers.map_err(|_| WaitError::Cancelled)?;
            let answer = answers
                .ok()
                .and_then(|answers| answers.get(invocation).cloned());
            answer.ok_or_else(|| WaitError::Ended(format!("call {invocation} has settled")))
        }
        .boxed()
    }

    fn submit<'a>(
        &'a self,
        _cx: &'a Context,
        invocation: &'a InvocationId,
        response: Value,
    ) -> BoxFuture<'a, Result<SubmitOutcome, SubmitError>> {
        let waits = self
            .pending
            .borrow()
            .iter()
            .any(|shown| shown.id == *invocation);
        let outcome = match waits {
            false => SubmitOutcome::NotPending,
            true => {
                self.hide(invocation);
                self.answers.send_modify(|answers| {
                    answers.insert(invocation.clone(), Arc::new(response));
                });
                SubmitOutcome::Accepted
            }
        };
        async move { Ok(outcome) }.boxed()
    }
}
