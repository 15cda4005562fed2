//! One coordinator per lane: starts or joins, works off what waits, and lets go when idle.

use bezel_context::{TraceCarrier, span};
use bezel_session_types::{Delivery, EntryBody, Message, OperationId, RunOutcome, RunPhase};
use bezel_store::CommitError;
use tokio::sync::oneshot;

use crate::events::EventKind;
use crate::lane::{Lane, Resumed, now};
use crate::navigation::Departure;
use crate::operation::{Operation, OperationKind, Phase, outcome_key};
use crate::state::{LaneState, OperationChange, Running, Step, Stopped};

/// Why a lane stopped without ending its operation. The operation stays open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Read(#[from] bezel_store::ReadError),
    #[error("the session was closed")]
    Closed,
    #[error(
        "{registrant} does not let it begin: {message}; it stays open, and resuming it asks again"
    )]
    Refused {
        registrant: std::sync::Arc<str>,
        message: String,
    },
}

impl Stop {
    /// Whether a hook does not let it begin: nothing is wrong with the session.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Stop::Refused { .. })
    }
}

/// Lets go of the lane when its task is dropped before it let go itself.
struct Hold {
    lane: Lane,
    held: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.held {
            self.lane.let_go(&mut self.lane.core.lock());
        }
    }
}

impl Hold {
    async fn coordinate(mut self) {
        let lane = self.lane.clone();
        loop {
            let kind = lane.core.lock().operation.as_ref().map(|open| open.kind);
            let outcome = lane.run_operation().await;
            let mut state = lane.core.lock();
            if let Some(running) = &state.running {
                note_outcome(&running.span, &outcome);
            }
            let goes_on = match outcome {
                // Whatever waits comes next, one after the other.
                Ok(RunOutcome::Completed) if kind == Some(OperationKind::Run) => true,
                // It brought nothing to answer: only what was sent to run comes next.
                Ok(RunOutcome::Completed) => {
                    state.wake || state.inbox.iter().any(|waiting| waiting.row.resume)
                }
                // Only what somebody asked for since.
                Ok(_) => state.wake,
                Err(Stop::Closed) => false,
                Err(error) => {
                    let stopped = open(&state);
                    state.stopped = stopped.clone().map(|operation_id| Stopped {
                        operation_id,
                        message: error.to_string().into(),
                        refused: error.is_refusal(),
                    });
                    lane.fault(stopped, &error);
                    false
                }
            };
            state.wake = false;
            let begun = goes_on
                && !lane.session.closed()
                && lane.begin(&mut state).unwrap_or_else(|error| {
                    lane.fault(open(&state), &Stop::Commit(error));
                    false
                });
            if !begun {
                // Under the same lock, so that nobody can start between the two.
                self.held = false;
                lane.let_go(&mut state);
                return;
            }
            lane.hold(&mut state);
        }
    }
}

/// The operation that is open, whatever becomes of its run.
fn open(state: &LaneState) -> Option<OperationId> {
    state
        .operation
        .as_ref()
        .map(|operation| operation.id.clone())
}

impl Lane {
    /// Starts what is open or waits, or has the run that goes on look once more when it is done.
    pub(crate) fn wake(&self, state: &mut LaneState, again: bool) -> Result<Resumed, CommitError> {
        if let (Some(_), Some(operation)) = (&state.running, &state.operation) {
            state.wake |= again;
            return Ok(Resumed::Joined(operation.id.clone()));
        }
        if state.running.is_some() || self.session.closed() {
            state.wake |= again;
            return Ok(Resumed::Nothing);
        }
        if state.operation.is_none() && !self.begin(state)? {
            return Ok(Resumed::Nothing);
        }
        Ok(self.start(state).map_or(Resumed::Nothing, Resumed::Started))
    }

    /// Starts the coordinator for the open operation.
    pub(crate) fn start(&self, state: &mut LaneState) -> Option<OperationId> {
        let operation_id = state.operation.as_ref()?.id.clone();
        self.hold(state);
        // The hold is handed over once the task exists: dropped here, under the lane's lock, it
        // would wait for itself.
        let (hand_over, hold) = oneshot::channel::<Hold>();
        self.session.spawner.spawn("lane", async move {
            if let Ok(hold) = hold.await {
                hold.coordinate().await;
            }
        });
        match hand_over.send(Hold {
            lane: self.clone(),
            held: true,
        }) {
            Ok(()) => Some(operation_id),
            Err(mut hold) => {
                hold.held = false;
                self.let_go(state);
                None
            }
        }
    }

    fn hold(&self, state: &mut LaneState) {
        let (cx, cancel) = self.session.root.with_cancel();
        let operation = state.operation.as_ref();
        if operation.is_some_and(|operation| operation.cancel_requested.is_some()) {
            cancel.cancel();
        }
        let trace = operation.and_then(|operation| operation.trace.clone());
        let cx = cx.with_trace(trace.unwrap_or_else(TraceCarrier::root));
        let (cx, span) = span!(
            &cx,
            "harness.run",
            session = %self.session.id,
            lane = %self.core.name,
            operation = operation.map(|operation| tracing::field::display(&operation.id)),
            recoveries = operation.map(|operation| operation.recoveries),
            outcome = tracing::field::Empty,
            "error.type" = tracing::field::Empty,
            link = tracing::field::Empty,
        );
        let running = Running { cx, cancel, span };
        for trace in std::mem::take(&mut state.begun_with) {
            running.link(&trace);
        }
        state.running = Some(running);
        state.stopped = None;
        self.core.set_phase(state, Some(RunPhase::Preparing));
    }

    fn let_go(&self, state: &mut LaneState) {
        state.running = None;
        state.view = None;
        if let Some(message) = state.message.take() {
            let entry = message.entry;
            self.publish(EventKind::MessageEnd {
                entry,
                message: None,
                invocations: Vec::new(),
            });
        }
        state.calls.clear();
        state.wake = false;
        // Whatever is open now was left where it stands.
        state.found = state.operation.is_some();
        self.core.set_phase(state, None);
    }

    /// Makes an operation of what waits: all steering messages, else the first queued one. False
    /// when nothing waits.
    fn begin(&self, state: &mut LaneState) -> Result<bool, CommitError> {
        let steers = state
            .inbox
            .iter()
            .filter(|waiting| waiting.row.delivery == Delivery::Steer);
        let mut rows: Vec<_> = steers.map(|waiting| waiting.row.clone()).collect();
        if rows.is_empty() {
            rows.extend(state.inbox.first().map(|waiting| waiting.row.clone()));
        }
        let Some(first) = rows.first() else {
            return Ok(false);
        };
        let id = first.operation_id.clone();
        let phase = Phase::Ready { attempt: 0 };
        let operation = Operation::new(id.clone(), OperationKind::Run, now(), phase);
        let mut traces = rows.iter().map(|row| state.traces.get(&row.id).cloned());
        let mut step = Step::to(operation.traced(traces.next().flatten()));
        let begun_with = traces.flatten().collect();
        step.transaction.journal(
            "run_started",
            serde_json::json!({ "lane": *self.core.name, "operation": id }),
        );
        if let Some(Departure { from }) = state.departure.clone() {
            step.transaction.journal(
                "navigated",
                serde_json::json!({ "lane": *self.core.name, "from": state.tip, "to": from }),
            );
            step.before.push(EventKind::NavigationEnd {
                operation_id: id.clone(),
                tip: from.clone(),
                error: None,
            });
            step.moved_to = Some(from);
        }
        step.before.push(EventKind::RunStart { operation_id: id });
        for row in rows {
            step.taken.push(row.id.clone());
            step.append(row.id, Message::User(row.message));
        }
        state.found = false;
        self.commit(state, step)?;
        state.begun_with = begun_with;
        Ok(true)
    }

    /// Ends the operation: `step` says what else is written with it.
    pub(crate) fn end(
        &self,
        state: &mut LaneState,
        mut step: Step,
        outcome: RunOutcome,
    ) -> Result<RunOutcome, CommitError> {
        let operation = state
            .operation
            .as_ref()
            .expect("an operation is ended by its own run");
        let id = operation.id.clone();
        let body =
            serde_json::json!({ "lane": *self.core.name, "operation": id, "result": outcome });
        step.transaction.journal("run_ended", body);
        let last = crate::LaneOutcome {
            operation_id: id.clone(),
            outcome: outcome.clone(),
        };
        step.transaction
            .set_value(outcome_key(&self.core.name), &last);
        step.operation = OperationChange::Clear;
        step.after.push(EventKind::RunEnd {
            operation_id: id.clone(),
            outcome: outcome.clone(),
        });
        let next = self.reassign_waiting(state, &mut step);
        // Interrupted or failed: what waits is kept, and runs when somebody asks for it, in whichever
        // process. What asked since goes on.
        let holds = outcome != RunOutcome::Completed && !state.wake;
        if holds {
            let waiting = state.inbox.iter().filter(|waiting| waiting.row.resume);
            waiting.for_each(|waiting| step.transaction.hold_admitted(&waiting.row.id));
        }
        self.commit(state, step)?;
        if holds {
            let waiting = state.inbox.iter_mut();
            waiting.for_each(|waiting| waiting.row.resume = false);
        }
        if let Some(next) = next {
            let waits = state
                .inbox
                .iter_mut()
                .filter(|waiting| waiting.row.operation_id == id);
            waits.for_each(|waiting| waiting.row.operation_id = next.clone());
            self.publish(EventKind::QueueUpdate {
                queued: state.queued(),
            });
        }
        Ok(outcome)
    }

    /// Puts the steering messages that wait into `step`, in order, and says whether one of them is a person's.
    pub(crate) fn deliver_steers(&self, state: &mut LaneState, step: &mut Step) -> bool {
        let mut heard = false;
        for waiting in &state.inbox {
            if waiting.row.delivery == Delivery::Steer {
                step.taken.push(waiting.row.id.clone());
                if let (Some(running), Some(trace)) =
                    (&state.running, state.traces.get(&waiting.row.id))
                {
                    running.link(trace);
                }
                heard |= !waiting.row.message.synthetic;
                let message = Message::User(waiting.row.message.clone());
                step.entries
                    .push((waiting.row.id.clone(), EntryBody::from(message)));
            }
        }
        heard
    }
}

/// Says in the trace how an operation ended, or that it did not.
fn note_outcome(span: &tracing::Span, outcome: &Result<RunOutcome, Stop>) {
    let (outcome, error) = match outcome {
        Ok(RunOutcome::Completed) => ("completed", None),
        Ok(RunOutcome::Aborted) => ("aborted", None),
        Ok(RunOutcome::Failed { code, .. }) => ("failed", Some(code.as_ref())),
        Err(Stop::Closed) => ("left open", None),
        Err(Stop::Commit(_) | Stop::Read(_)) => ("left open", Some("storage")),
        Err(Stop::Refused { .. }) => ("left open", Some("refused")),
    };
    span.record("outcome", outcome);
    if let Some(code) = error {
        span.record("error.type", code);
    }
}
