//! What a lane does: how prompts are delivered, what runs, how it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EntryId, InvocationId, OperationId, UserMessage};

/// When an admitted message enters the conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// At the next safe step boundary, in order.
    #[default]
    Steer,
    /// When the session would go idle, one at a time.
    Queue,
}

/// A message that was admitted and not yet delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedMessage {
    /// The id that its entry will have.
    pub id: EntryId,
    /// The operation that it will belong to.
    pub operation_id: OperationId,
    /// When it enters.
    pub delivery: Delivery,
    /// What was said.
    pub message: UserMessage,
    /// Order of admission.
    pub seq: u64,
}

/// A call that an earlier process had begun when it ended, and that is run again where its tool still says that this is
/// safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunCall {
    /// Which call.
    pub invocation_id: InvocationId,
    /// Its tool.
    pub tool: String,
}

/// What a lane does now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Nothing.
    #[default]
    Idle,
    /// It runs.
    Running {
        /// Which operation.
        operation_id: OperationId,
        /// When this operation started, milliseconds since 1970.
        since: i64,
        /// What goes on.
        phase: RunPhase,
        /// True once somebody asked to end it.
        aborting: bool,
    },
}

/// What goes on in a running operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum RunPhase {
    /// Between two steps.
    Preparing,
    /// A request was sent and nothing came back yet.
    WaitingForModel,
    /// The answer comes in.
    Streaming,
    /// Tools run; each once per call, in order.
    Tools {
        /// Names of the tools whose calls have not settled.
        names: Vec<String>,
    },
    /// A request failed and is tried again later.
    RetryWait {
        /// When, milliseconds since 1970.
        until: i64,
        /// Which retry it will be, from 1.
        attempt: u32,
        /// What went wrong.
        error: String,
    },
    /// Older entries are summarised.
    Compacting,
    /// The lane moves to another place in the tree; a branch that is left may be summarised.
    Navigating,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RunOutcome {
    /// All was said and done.
    Completed,
    /// Somebody ended it.
    Aborted,
    /// It could not go on.
    Failed {
        /// Stable code, for programs.
        code: String,
        /// For people: what failed and what to do.
        message: String,
    },
}

impl RunState {
    /// The operation that runs.
    pub fn operation_id(&self) -> Option<&OperationId> {
        match self {
            RunState::Idle => None,
            RunState::Running { operation_id, .. } => Some(operation_id),
        }
    }

    /// True when nothing runs.
    pub fn is_idle(&self) -> bool {
        matches!(self, RunState::Idle)
    }
}
