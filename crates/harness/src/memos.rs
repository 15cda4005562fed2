//! What calls note. A memo belongs to one call and goes with the commit that settles it, whoever
//! settles it: every change of an operation passes [`left_behind`].
//!
//! A memo's key is `memo/{operation}:{invocation}:{name}`. A name has no colon, so that what the harness
//! keeps of its own beside a call (`:{channel}:request`, `:{channel}:response`) is out of reach of tools.

use std::collections::HashSet;

use bezel_session_types::{InvocationId, MemoError, OperationId};
use bezel_store::Transaction;
use serde_json::Value;

use crate::lane::Lane;
use crate::operation::{Call, CallPhase, Operation, Phase};
use crate::requests::Asked;
use crate::state::{LaneState, OperationChange, Step};

/// What the calls of the open operation have noted: a projection of what is committed.
#[derive(Default)]
pub(crate) struct Notes {
    /// Calls that may have memos or requests.
    pub(crate) noted: HashSet<InvocationId>,
    /// What they have asked.
    pub(crate) asked: Vec<Asked>,
}

/// What a call loses with a change of its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loss {
    /// It settled.
    All,
    /// Nobody waits for its requests any more: its clearance is over, or it was cancelled.
    Requests,
}

/// The memos that a commit takes out.
#[derive(Default)]
pub(crate) struct LeftBehind(Vec<(InvocationId, Loss)>);

/// The prefix of everything that the calls of an operation have noted.
pub(crate) fn operation_memos(operation: &OperationId) -> String {
    format!("memo/{operation}:")
}

/// The prefix of everything that a call has noted.
fn call_memos(operation: &OperationId, invocation: &InvocationId) -> String {
    format!("memo/{operation}:{invocation}:")
}

/// The prefix of what the harness keeps of a call's requests.
pub(crate) fn call_requests(operation: &OperationId, invocation: &InvocationId) -> String {
    format!("memo/{operation}:{invocation}::")
}

fn memo_key(
    operation: &OperationId,
    invocation: &InvocationId,
    name: &str,
) -> Result<String, MemoError> {
    if name.is_empty() || name.contains(':') {
        return Err(MemoError::Name { name: name.into() });
    }
    Ok(call_memos(operation, invocation) + name)
}

/// The calls that lose something between two states of an operation.
fn losses<'operation>(
    before: &'operation Operation,
    after: Option<&'operation Operation>,
) -> impl Iterator<Item = (&'operation InvocationId, Loss)> {
    let after = after.filter(|after| after.id == before.id);
    let cancelled = before.cancel_requested.is_none()
        && after.is_some_and(|after| after.cancel_requested.is_some());
    let later = move |call: &Call| match after.map(|after| &after.phase) {
        Some(Phase::Tools { calls, .. }) => calls
            .iter()
            .find(|later| later.invocation_id == call.invocation_id)
            .map(|later| later.phase),
        _ => None,
    };
    let calls: &[Call] = match &before.phase {
        Phase::Tools { calls, .. } => calls,
        _ => &[],
    };
    calls.iter().filter_map(move |call| {
        let loss = match (call.phase, later(call)) {
            (CallPhase::OutcomeReady | CallPhase::Completed, _) => return None,
            (_, None | Some(CallPhase::OutcomeReady | CallPhase::Completed)) => Loss::All,
            (CallPhase::Planned, Some(CallPhase::EffectPending { .. })) => Loss::Requests,
            _ if cancelled => Loss::Requests,
            _ => return None,
        };
        Some((&call.invocation_id, loss))
    })
}

/// Takes out, in the same transaction, what the calls lose with this change of the operation.
pub(crate) fn left_behind(
    state: &LaneState,
    change: &OperationChange,
    transaction: &mut Transaction,
) -> LeftBehind {
    let after = match change {
        OperationChange::Keep => return LeftBehind::default(),
        OperationChange::Set(operation) => Some(&**operation),
        OperationChange::Clear => None,
    };
    let Some(before) = state
        .operation
        .as_ref()
        .filter(|_| !state.notes.noted.is_empty())
    else {
        return LeftBehind::default();
    };
    let noted = losses(before, after).filter(|(id, _)| state.notes.noted.contains(id));
    let lost = noted.map(|(id, loss)| {
        transaction.delete_values(match loss {
            Loss::All => call_memos(&before.id, id),
            Loss::Requests => call_requests(&before.id, id),
        });
        (id.clone(), loss)
    });
    LeftBehind(lost.collect())
}

impl Lane {
    /// Forgets what a commit took out, and has nobody wait for it.
    pub(crate) fn forget(&self, state: &mut LaneState, left: LeftBehind) {
        for (id, loss) in left.0 {
            if loss == Loss::All {
                state.notes.noted.remove(&id);
            }
            let of_call = |asked: &mut Asked| asked.invocation_id == id;
            for asked in state.notes.asked.extract_if(.., of_call) {
                self.session.channels.withdraw(&asked);
            }
        }
    }

    /// A memo of the call that runs under `invocation` as a part of `operation`. `settled` says under
    /// the lane's lock whether this very execution is over.
    pub(crate) fn memo(
        &self,
        operation: &OperationId,
        invocation: &InvocationId,
        settled: impl FnOnce() -> bool,
        name: &str,
    ) -> Result<Option<Value>, MemoError> {
        let key = memo_key(operation, invocation, name)?;
        let state = self.core.lock();
        runs_now(&state, operation, invocation, settled)?;
        self.session
            .store
            .read(|queries| queries.value(&key))
            .map_err(|error| storage(invocation, name, &error))
    }

    /// Sets or takes out a memo, on the same terms.
    pub(crate) fn set_memo(
        &self,
        operation: &OperationId,
        invocation: &InvocationId,
        settled: impl FnOnce() -> bool,
        name: &str,
        value: Option<&Value>,
    ) -> Result<(), MemoError> {
        let key = memo_key(operation, invocation, name)?;
        let mut state = self.core.lock();
        runs_now(&state, operation, invocation, settled)?;
        if self.session.closed() {
            return Err(storage(invocation, name, &"the session is closed"));
        }
        let mut step = Step::default();
        match value {
            Some(value) => step.transaction.set_value(key, value),
            None => step.transaction.delete_value(key),
        }
        self.commit(&mut state, step)
            .map_err(|error| storage(invocation, name, &error))?;
        state.notes.noted.insert(invocation.clone());
        Ok(())
    }
}

/// Refuses whoever is not the call that runs now.
fn runs_now(
    state: &LaneState,
    operation: &OperationId,
    invocation: &InvocationId,
    settled: impl FnOnce() -> bool,
) -> Result<(), MemoError> {
    let current = state.open_call(invocation).is_some_and(|(current, call)| {
        current.id == *operation && matches!(call.phase, CallPhase::EffectPending { .. })
    });
    if current && !settled() {
        return Ok(());
    }
    let invocation_id = invocation.clone();
    Err(MemoError::Settled { invocation_id })
}

fn storage(invocation: &InvocationId, name: &str, error: &dyn std::fmt::Display) -> MemoError {
    MemoError::Storage {
        invocation_id: invocation.clone(),
        name: name.to_owned(),
        message: error.to_string(),
    }
}
