//! A lane's state in this process: a projection of what is committed, and what is live beside it.
//!
//! All changes go through [`Lane::commit`], the lane's mutation line: validate, one commit, change
//! the projection, tell observers, all under one lock that is never held across an await.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_context::{CancelHandle, Context, Link, TraceCarrier};
use bezel_session_types::{
    BegunCall, Entry, EntryBody, EntryId, InvocationId, LaneName, OperationId, QueuedMessage,
    RunPhase, RunState, ToolResultMessage,
};
use bezel_store::{CommitError, Committed, InboxRow, ReadError, Store, Transaction};
use serde_json::Value;
use tokio::sync::watch;

use crate::answer::LiveMessage;
use crate::context::trim_view;
use crate::coordinator::Stop;
use crate::events::{EventKind, HarnessEvents};
use crate::harness::OpenLane;
use crate::lane::Lane;
use crate::memos::{Notes, left_behind};
use crate::navigation::Departure;
use crate::operation::{Call, CallPhase, Operation, departure_key, operation_key};
use crate::requests::load_notes;

/// One lane of a session.
pub(crate) struct LaneCore {
    pub(crate) name: Arc<LaneName>,
    // A plain mutex: held for one mutation with its commit, never across an await.
    state: Mutex<LaneState>,
    run_state: watch::Sender<RunState>,
}

/// What a lane knows.
#[derive(Default)]
pub(crate) struct LaneState {
    pub(crate) tip: Option<EntryId>,
    /// Admitted messages in order of admission.
    pub(crate) inbox: Vec<InboxRow>,
    /// Whose trace each of them is a part of; unknown of one that an earlier process admitted.
    pub(crate) traces: HashMap<EntryId, TraceCarrier>,
    /// The traces of those that an operation began with, besides its own.
    pub(crate) begun_with: Vec<TraceCarrier>,
    pub(crate) operation: Option<Operation>,
    /// Where the next run begins, where that is not the tip.
    pub(crate) departure: Option<Departure>,
    /// The operation was not brought where it stands by a run of this process that still goes on.
    pub(crate) found: bool,
    /// What runs it.
    pub(crate) running: Option<Running>,
    /// The operation that stands where its last pass stopped, and why it did; none while something runs.
    pub(crate) stopped: Option<Stopped>,
    /// Somebody asked for one more pass.
    pub(crate) wake: bool,
    /// The entries that the model sees, oldest first, while something runs.
    pub(crate) view: Option<Vec<Arc<Entry>>>,
    pub(crate) message: Option<LiveMessage>,
    pub(crate) calls: Vec<LiveCall>,
    /// Results of calls that settled here and could not be written.
    pub(crate) unwritten: HashMap<InvocationId, ToolResultMessage>,
    /// Memos and requests of the operation's calls.
    pub(crate) notes: Notes,
    phase: Option<RunPhase>,
}

/// The coordinator's hold on a lane.
pub(crate) struct Running {
    /// The context of the current operation: ended by an abort and by closing.
    pub(crate) cx: Context,
    pub(crate) cancel: CancelHandle,
    /// Ends when the lane lets go or takes up the next operation.
    pub(crate) span: tracing::Span,
}

impl Running {
    /// Says in the trace that a message of another one was delivered to this operation.
    pub(crate) fn link(&self, trace: &TraceCarrier) {
        if trace.trace_id() != self.cx.trace().trace_id() {
            self.span
                .record("link", tracing::field::display(Link(trace)));
        }
    }
}

/// A call that runs now.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveCall {
    /// Which call.
    pub invocation_id: InvocationId,
    /// The provider's id of it.
    pub call_id: String,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments that it runs with.
    pub arguments: Arc<Value>,
    /// What it has shown so far; of long output the tail.
    pub output: String,
    /// Its latest details for renderers.
    pub details: Value,
}

/// An operation that stands where its last pass stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Which; the next message, or resuming, takes it up.
    pub operation_id: OperationId,
    /// What went wrong and what to do.
    pub message: Arc<str>,
    /// Whether somebody's hook does not let it begin; otherwise the lane's state could not be written or read.
    pub refused: bool,
}

/// Everything a late observer needs of a lane.
#[derive(Debug, Clone)]
pub struct LaneSnapshot {
    /// The tip; none while the lane is empty.
    pub tip: Option<EntryId>,
    /// What goes on.
    pub state: RunState,
    /// The operation that stands where its last pass in this process stopped, and why it did.
    pub stopped: Option<Stopped>,
    /// Messages that wait, in order of admission.
    pub queued: Arc<[QueuedMessage]>,
    /// The answer that comes in now.
    pub message: Option<LiveMessage>,
    /// The calls that run now.
    pub calls: Vec<LiveCall>,
}

/// A snapshot and what happens after it, with nothing between and nothing twice.
#[derive(Debug)]
pub struct LaneWatch {
    /// The lane as it was.
    pub snapshot: LaneSnapshot,
    /// What happened since.
    pub events: HarnessEvents,
}

/// One mutation: what is committed, and what observers hear of it.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) transaction: Transaction,
    /// Where the tip goes before anything is appended. The lane then has no departure any more.
    pub(crate) moved_to: Option<Option<EntryId>>,
    /// Entries to append at the tip, in order.
    pub(crate) entries: Vec<(EntryId, EntryBody)>,
    pub(crate) operation: OperationChange,
    /// Messages that leave the inbox.
    pub(crate) taken: Vec<EntryId>,
    /// Told before the entries.
    pub(crate) before: Vec<EventKind>,
    /// Told after the entries.
    pub(crate) after: Vec<EventKind>,
}

/// What becomes of the lane's operation.
#[derive(Default)]
pub(crate) enum OperationChange {
    #[default]
    Keep,
    Set(Box<Operation>),
    Clear,
}

impl Step {
    /// A step that brings the operation to this state.
    pub(crate) fn to(operation: Operation) -> Self {
        Step {
            operation: OperationChange::Set(Box::new(operation)),
            ..Step::default()
        }
    }

    pub(crate) fn append(&mut self, id: EntryId, body: impl Into<EntryBody>) {
        self.entries.push((id, body.into()));
    }
}

/// The calls of an operation whose process has ended that are run again.
fn begun(operation: &Operation) -> Vec<BegunCall> {
    if operation.cancel_requested.is_some() {
        return Vec::new();
    }
    let runs_again =
        |call: &&Call| matches!(call.phase, CallPhase::EffectPending { replay_safe: true });
    let begun = operation.calls().iter().filter(runs_again);
    let found = begun.map(|call| BegunCall {
        invocation_id: call.invocation_id.clone(),
        tool: call.tool.clone(),
    });
    found.collect()
}

impl LaneCore {
    pub(crate) fn empty(name: &LaneName) -> Self {
        LaneCore {
            name: Arc::new(name.clone()),
            state: Mutex::default(),
            run_state: watch::Sender::default(),
        }
    }

    /// Reads what the database holds of a lane.
    pub(crate) fn load(store: &Store, name: &LaneName) -> Result<Self, ReadError> {
        let core = LaneCore::empty(name);
        store.read(|queries| {
            let mut state = core.lock();
            state.tip = queries.tip(name)?;
            state.inbox = queries.inbox(name)?;
            state.operation = queries.value(&operation_key(name))?;
            state.departure = queries.value(&departure_key(name))?;
            state.found = state.operation.is_some();
            if let Some(operation) = &state.operation {
                state.notes = load_notes(queries, &operation.id)?;
            }
            Ok(())
        })?;
        Ok(core)
    }

    /// What waits to be resumed.
    pub(crate) fn found(&self) -> Option<OpenLane> {
        let state = self.lock();
        let waits = state.operation.is_some() || !state.inbox.is_empty();
        waits.then(|| OpenLane {
            lane: (*self.name).clone(),
            operation_id: state
                .operation
                .as_ref()
                .map(|operation| operation.id.clone()),
            queued: state.inbox.len(),
            resume: state.inbox.iter().any(|waiting| waiting.row.resume),
            begun: state.operation.as_ref().map(begun).unwrap_or_default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run_state(&self) -> watch::Receiver<RunState> {
        self.run_state.subscribe()
    }

    /// Resolves once nothing runs here.
    pub(crate) async fn stopped(&self) {
        let mut states = self.run_state.subscribe();
        // The sender lives in `self`.
        states
            .wait_for(RunState::is_idle)
            .await
            .expect("the lane outlives its observers");
    }

    /// Shows what goes on.
    pub(crate) fn set_phase(&self, state: &mut LaneState, phase: Option<RunPhase>) {
        state.phase = phase;
        self.refresh(state);
    }

    /// Tells those who follow what goes on.
    pub(crate) fn refresh(&self, state: &mut LaneState) {
        self.run_state.send_replace(state.run_state());
    }
}

impl LaneState {
    pub(crate) fn run_state(&self) -> RunState {
        match (&self.running, &self.operation, &self.phase) {
            (Some(_), Some(operation), Some(phase)) => RunState::Running {
                operation_id: operation.id.clone(),
                since: operation.started_at,
                phase: phase.clone(),
                aborting: operation.cancel_requested.is_some(),
            },
            _ => RunState::Idle,
        }
    }

    /// A call of the open operation that has not settled.
    pub(crate) fn open_call(&self, invocation: &InvocationId) -> Option<(&Operation, &Call)> {
        let operation = self.operation.as_ref()?;
        let mut calls = operation.calls().iter();
        let call = calls.find(|call| call.invocation_id == *invocation)?;
        call.phase.is_open().then_some((operation, call))
    }

    /// The calls of the open operation that have not settled, for whoever looks many up.
    pub(crate) fn open_calls(&self) -> HashSet<&InvocationId> {
        let calls = self.operation.iter().flat_map(Operation::calls);
        calls
            .filter(|call| call.phase.is_open())
            .map(|call| &call.invocation_id)
            .collect()
    }

    pub(crate) fn queued(&self) -> Arc<[QueuedMessage]> {
        let queued = self
            .inbox
            .iter()
            .map(|InboxRow { seq, row }| QueuedMessage {
                id: row.id.clone(),
                operation_id: row.operation_id.clone(),
                delivery: row.delivery,
                message: row.message.clone(),
                seq: *seq,
            });
        queued.collect()
    }
}

impl Lane {
    /// Commits one mutation, changes the projection and tells observers.
    pub(crate) fn commit(
        &self,
        state: &mut LaneState,
        step: Step,
    ) -> Result<Committed, CommitError> {
        let Step {
            mut transaction,
            moved_to,
            entries,
            operation,
            taken,
            before,
            after,
        } = step;
        let moved = moved_to.is_some();
        let mut tip = moved_to.unwrap_or_else(|| state.tip.clone());
        for (id, body) in entries {
            transaction.append(id.clone(), tip.replace(id), body);
        }
        if tip != state.tip {
            transaction.set_tip(&self.core.name, tip.as_ref());
        }
        if moved && state.departure.is_some() {
            transaction.delete_value(departure_key(&self.core.name));
        }
        for id in &taken {
            transaction.take_out(id);
        }
        let key = || operation_key(&self.core.name);
        match &operation {
            OperationChange::Keep => {}
            OperationChange::Set(operation) => transaction.set_value(key(), operation.as_ref()),
            OperationChange::Clear => transaction.delete_value(key()),
        }
        let left = left_behind(state, &operation, &mut transaction);
        let committed = self.session.store.commit(transaction)?;
        self.forget(state, left);
        state.tip = tip;
        if moved {
            // Another path: whatever runs next reads it.
            state.view = None;
            state.departure = None;
        }
        match operation {
            OperationChange::Keep => {}
            OperationChange::Set(operation) => state.operation = Some(*operation),
            OperationChange::Clear => state.operation = None,
        }
        before.into_iter().for_each(|event| self.publish(event));
        for entry in &committed.entries {
            if let Some(view) = &mut state.view {
                view.push(Arc::clone(entry));
                trim_view(view);
            }
            self.publish(EventKind::EntryAdded {
                entry: Arc::clone(entry),
            });
        }
        if !taken.is_empty() {
            let taken: HashSet<EntryId> = taken.into_iter().collect();
            state.traces.retain(|id, _| !taken.contains(id));
            state
                .inbox
                .retain(|waiting| !taken.contains(&waiting.row.id));
            self.publish(EventKind::QueueUpdate {
                queued: state.queued(),
            });
        }
        after.into_iter().for_each(|event| self.publish(event));
        Ok(committed)
    }

    pub(crate) fn publish(&self, event: EventKind) {
        self.session.hub.publish(&self.core.name, event);
    }

    /// Stops the lane's work where it stands: its state could not be written or read, or it is not to begin.
    pub(crate) fn fault(&self, operation_id: Option<OperationId>, error: &Stop) {
        match error {
            Stop::Refused { .. } => {
                tracing::info!(lane = %self.core.name, %error, "the lane was not let begin");
            }
            _ => tracing::error!(lane = %self.core.name, %error, "the lane stopped"),
        }
        self.publish(EventKind::Fault {
            operation_id,
            message: error.to_string(),
            refused: error.is_refusal(),
        });
    }
}
