//! What can be done with a lane.

use std::sync::Arc;

use bezel_context::{Cancelled, Context};
use bezel_session_types::{LaneName, OperationId, QueuedMessage, RunOutcome, RunState};
use bezel_store::{CommitError, ReadError};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::events::EventKind;
use crate::harness::Session;
use crate::operation::outcome_key;
use crate::state::{LaneSnapshot, LaneWatch, Step};

pub(crate) use crate::state::LaneCore;

/// A movable tip of the tree, with a queue and at most one operation. Clones are the same lane.
#[derive(Clone)]
pub struct Lane {
    pub(crate) session: Arc<Session>,
    pub(crate) core: Arc<LaneCore>,
}

/// What a resume found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// It runs now.
    Started(OperationId),
    /// It ran already; one more pass follows.
    Joined(OperationId),
    /// There is nothing to do.
    Nothing,
}

/// How a lane's last operation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaneOutcome {
    /// Which operation.
    pub operation_id: OperationId,
    /// How.
    #[serde(flatten)]
    pub outcome: RunOutcome,
}

/// A lane that could not be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The caller's context had ended.
    #[error("the session was not resumed: {0}")]
    Cancelled(Cancelled),
    /// The start could not be written.
    #[error("the session was not resumed: {0}")]
    Storage(#[from] CommitError),
}

/// An operation that could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum AbortError {
    /// It does not run here.
    #[error("operation {operation_id} does not run: it ended already, or never began")]
    NotRunning {
        /// Which.
        operation_id: OperationId,
    },
    /// The request could not be written.
    #[error("the operation was not ended: {0}")]
    Storage(#[from] CommitError),
    /// The caller's context had ended.
    #[error("the operation was not ended: {0}")]
    Cancelled(Cancelled),
}

/// A compaction that was not started.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The lane has no entry.
    #[error("there is nothing to summarise yet")]
    Nothing,
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The start could not be written.
    #[error("the compaction was not started: {0}")]
    Storage(#[from] CommitError),
    /// The caller's context had ended.
    #[error("the compaction was not started: {0}")]
    Cancelled(Cancelled),
}

impl Lane {
    pub(crate) fn new(session: Arc<Session>, core: Arc<LaneCore>) -> Self {
        Lane { session, core }
    }

    /// Its name.
    pub fn name(&self) -> &LaneName {
        &self.core.name
    }

    /// What goes on.
    pub fn state(&self) -> RunState {
        self.core.lock().run_state()
    }

    /// Follows what goes on; values in between may be skipped.
    pub fn states(&self) -> watch::Receiver<RunState> {
        self.core.run_state()
    }

    /// The operation that this process runs now.
    pub fn active(&self) -> Option<OperationId> {
        self.state().operation_id().cloned()
    }

    /// The messages that wait, in order of admission.
    pub fn queued(&self) -> Arc<[QueuedMessage]> {
        self.core.lock().queued()
    }

    /// The lane as it is and what happens from then on, with nothing between and nothing twice.
    pub fn watch(&self) -> LaneWatch {
        let state = self.core.lock();
        // Whoever publishes for this lane holds the same lock.
        let events = self.session.hub.subscribe(Some((*self.core.name).clone()));
        let snapshot = LaneSnapshot {
            tip: state.tip.clone(),
            state: state.run_state(),
            stopped: state.stopped.clone(),
            queued: state.queued(),
            message: state.message.clone(),
            calls: state.calls.clone(),
        };
        LaneWatch { snapshot, events }
    }

    /// Goes on with what is open or waits: starts it, or joins what runs and has it look once more.
    pub async fn resume(&self, cx: &Context) -> Result<Resumed, ResumeError> {
        cx.status().map_err(ResumeError::Cancelled)?;
        if self.session.closed() {
            return Err(ResumeError::Closed);
        }
        Ok(self.wake(&mut self.core.lock(), true)?)
    }

    /// Waits until nothing runs and nothing follows. Starts nothing.
    pub async fn wait_idle(&self, cx: &Context) -> Result<(), Cancelled> {
        cx.run(self.core.stopped()).await
    }

    /// Ends an operation durably: once this returns it will not go on, even after a crash. It is
    /// ended when its [`EventKind::RunEnd`] comes. Asking twice is asking once.
    pub async fn request_abort(
        &self,
        cx: &Context,
        operation_id: &OperationId,
    ) -> Result<(), AbortError> {
        cx.status().map_err(AbortError::Cancelled)?;
        let mut state = self.core.lock();
        let current = state
            .operation
            .as_ref()
            .filter(|operation| operation.id == *operation_id);
        let Some(operation) = current.cloned() else {
            return Err(AbortError::NotRunning {
                operation_id: operation_id.clone(),
            });
        };
        if operation.cancel_requested.is_none() {
            let mut cancelled = operation;
            cancelled.cancel_requested = Some(now());
            let mut step = Step::to(cancelled);
            step.transaction.journal(
                "abort_requested",
                serde_json::json!({ "lane": *self.core.name, "operation": operation_id }),
            );
            step.after.push(EventKind::OperationAbort {
                operation_id: operation_id.clone(),
            });
            self.commit(&mut state, step)?;
            self.core.refresh(&mut state);
        }
        state.wake = false;
        match &state.running {
            Some(running) => running.cancel.cancel(),
            // Found open and not resumed: it is taken up to be ended.
            None => drop(self.wake(&mut state, false)?),
        }
        Ok(())
    }

    /// Ends the operation that runs now, if one does, and says which. What waits stays.
    pub async fn interrupt(&self, cx: &Context) -> Result<Option<OperationId>, AbortError> {
        let Some(operation_id) = self.active() else {
            return Ok(None);
        };
        match self.request_abort(cx, &operation_id).await {
            Ok(()) => Ok(Some(operation_id)),
            Err(AbortError::NotRunning { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How the last operation ended.
    pub fn last_outcome(&self) -> Result<Option<LaneOutcome>, ReadError> {
        self.session
            .store
            .read(|queries| queries.value(&outcome_key(&self.core.name)))
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Lane")
            .field("name", &self.core.name)
            .finish_non_exhaustive()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
