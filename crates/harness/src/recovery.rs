//! Taking an operation up whose process ended, by the table of `durability.md`.
//!
//! Tool calls need little here: where a call stands says what may be done with it, and working a
//! step off begins with exactly that (see `tools::step`). Observers of this process hear of the results
//! that an earlier one had staged.

use std::sync::Arc;

use bezel_session_types::{
    CustomEntry, EntryBody, EntryId, Message, RunOutcome, StopReason, ToolResultMessage,
};

use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::operation::{Call, CallPhase, Operation, OperationKind, Phase, partial_key, staged_key};
use crate::run::{Run, StepResult};
use crate::state::{LaneState, OperationChange, Step};

impl Run {
    /// Decides what an operation found open does next. Its uncertain effect is settled here.
    pub(crate) fn recover(&mut self) -> StepResult {
        let mut state = self.lane.core.lock();
        let Some(mut operation) = state.operation.clone() else {
            return Err(Stop::Closed);
        };
        operation.recoveries += 1;
        state.found = false;
        if operation.recoveries > self.lane.session.config.max_recoveries {
            return self.give_up(&mut state, &operation);
        }
        let mut before = Vec::new();
        match operation.phase.clone() {
            Phase::Request { entry, attempt } => {
                return self.recover_request(&mut state, operation, &entry, attempt);
            }
            Phase::Tools { calls, .. } => before = self.staged(&calls)?,
            _ => {}
        }
        let mut step = Step::default();
        self.notice(&operation, &mut step);
        step.operation = OperationChange::Set(Box::new(operation));
        step.before = before;
        self.commit(&mut state, step)?;
        Ok(None)
    }

    /// Says in the tree that a run goes on which its process had left, for who looks at it.
    fn notice(&self, operation: &Operation, step: &mut Step) {
        if operation.kind != OperationKind::Run || operation.cancel_requested.is_some() {
            return;
        }
        let most = self.lane.session.config.max_recoveries;
        let value = serde_json::json!({
            "operation": operation.id,
            "attempt": operation.recoveries,
            "most": most,
            "message": format!(
                "the session's process ended while this ran, or could not write; it goes on from there ({} of at most {most} times)",
                operation.recoveries
            ),
        });
        let name = "harness.resumed".into();
        step.append(
            EntryId::generate(),
            EntryBody::Custom(CustomEntry { name, value }),
        );
    }

    /// A request was out. What came of it is kept for people; the model is asked again.
    fn recover_request(
        &self,
        state: &mut LaneState,
        operation: Operation,
        entry: &EntryId,
        attempt: u32,
    ) -> StepResult {
        let store = &self.lane.session.store;
        let partial: Option<bezel_session_types::AssistantMessage> =
            store.read(|queries| queries.value(&partial_key(entry)))?;
        let aborted = operation.cancel_requested.is_some();
        let attempts = self.lane.session.config.retry.retries;
        let mut step = Step::to(operation.at(Phase::Ready {
            attempt: attempt + 1,
        }));
        step.transaction.delete_value(partial_key(entry));
        if let Some(mut partial) = partial {
            if aborted {
                partial.stop_reason = StopReason::Aborted;
            } else {
                partial.stop_reason = StopReason::Error;
                partial.error =
                    Some("interrupted: the session ended while this answer came in".into());
            }
            step.append(entry.clone(), Message::Assistant(partial));
        }
        if aborted {
            return self.end(state, step, RunOutcome::Aborted);
        }
        if attempt < attempts
            && let OperationChange::Set(operation) = &step.operation
        {
            let operation = Operation::clone(operation);
            self.notice(&operation, &mut step);
        }
        if attempt >= attempts {
            let message = format!(
                "the model was asked {} times and the session ended each time before its answer was complete; send the message again",
                attempt + 1
            );
            let outcome = RunOutcome::Failed {
                code: "run.interrupted".into(),
                message,
            };
            return self.end(state, step, outcome);
        }
        self.commit(state, step)?;
        Ok(None)
    }

    /// The ends of calls that settled in an earlier process and wait for those before them.
    fn staged(&self, calls: &[Call]) -> Result<Vec<EventKind>, Stop> {
        let mut ends = Vec::new();
        let waiting = |call: &&Call| matches!(call.phase, CallPhase::OutcomeReady);
        for call in calls.iter().filter(waiting) {
            let key = staged_key(&call.invocation_id);
            let store = &self.lane.session.store;
            let staged: Option<ToolResultMessage> = store.read(|queries| queries.value(&key))?;
            ends.extend(staged.map(|result| EventKind::ToolEnd {
                invocation_id: call.invocation_id.clone(),
                result: Arc::new(result),
                changes: Vec::new(),
            }));
        }
        Ok(ends)
    }

    /// It was taken up too often: something in it ends the process each time.
    fn give_up(&self, state: &mut LaneState, operation: &Operation) -> StepResult {
        let mut step = Step::default();
        match &operation.phase {
            Phase::Request { entry, .. } => step.transaction.delete_value(partial_key(entry)),
            Phase::Tools { calls, .. } => {
                let mut operation = operation.clone();
                step.before = self.staged(calls)?;
                let outcomes = self.interrupted_results(calls);
                self.place(&mut operation, &mut step, outcomes)?;
            }
            _ => {}
        }
        let message = format!(
            "this operation was taken up {} times and its process ended each time; look at what it does last, then ask for it again",
            operation.recoveries - 1
        );
        let value = serde_json::json!({ "code": "run.recoveries", "message": message });
        let name = "harness.failed".into();
        step.append(
            EntryId::generate(),
            EntryBody::Custom(CustomEntry { name, value }),
        );
        let outcome = RunOutcome::Failed {
            code: "run.recoveries".into(),
            message,
        };
        self.end(state, step, outcome)
    }
}
