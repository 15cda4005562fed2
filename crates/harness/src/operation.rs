//! The durable state of an operation: one total value, replaced at each transition.

use bezel_context::TraceCarrier;
use bezel_session_types::{CompactionReason, EntryId, InvocationId, LaneName, OperationId};
use serde::{Deserialize, Serialize};

/// What a lane is doing, as the database knows it. Recovery reads this and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) kind: OperationKind,
    /// Milliseconds since 1970.
    pub(crate) started_at: i64,
    /// When somebody asked to end it. A field and never a phase.
    pub(crate) cancel_requested: Option<i64>,
    /// How often it was taken up again after its process ended.
    pub(crate) recoveries: u32,
    /// Model requests so far, retries apart.
    pub(crate) turn: u32,
    /// Those of them since a person last said something.
    #[serde(default)]
    pub(crate) step: u32,
    /// Whether the context was already compacted for the request that overflowed.
    pub(crate) overflow_compacted: bool,
    /// A compaction that somebody asked for meanwhile, with instructions for it.
    pub(crate) compaction_requested: Option<String>,
    /// Whose trace it continues, in whichever process that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceCarrier>,
    pub(crate) phase: Phase,
}

/// What an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperationKind {
    Run,
    Compaction,
    Navigation,
}

/// Where an operation stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The next thing is a model request; `attempt` failed before it.
    Ready { attempt: u32 },
    /// A model request is out; its answer will be `entry`.
    Request { entry: EntryId, attempt: u32 },
    /// A request failed; the next goes out at `until`.
    RetryWait {
        attempt: u32,
        until: i64,
        error: String,
    },
    /// The calls of `assistant` are being worked off.
    Tools {
        assistant: EntryId,
        calls: Vec<Call>,
    },
    /// A summary is being made; it will be `entry`. `ending` tells what it came between.
    Compacting {
        entry: EntryId,
        reason: CompactionReason,
        instructions: String,
        ending: bool,
    },
    /// The last answer asked for nothing more.
    Ending,
    /// The lane moves to `target`, before the first entry where there is none. Nothing has moved until
    /// the operation ends.
    Navigating {
        target: Option<EntryId>,
        summary: Option<BranchSummaryIntent>,
        label: Option<String>,
    },
}

/// A summary of the branch that is left, to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BranchSummaryIntent {
    /// The id that its entry will have.
    pub(crate) entry: EntryId,
    pub(crate) instructions: String,
}

/// One tool call of a step. Its invocation id is the reserved id of its result entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) invocation_id: InvocationId,
    /// The provider's id.
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) phase: CallPhase,
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub(crate) enum CallPhase {
    /// Asked for by the model; nothing ran.
    Planned,
    /// It may have run.
    EffectPending { replay_safe: bool },
    /// Its result is staged and waits for its place.
    OutcomeReady,
    /// Its result is in the tree.
    Completed,
}

impl CallPhase {
    /// Its result is not there yet.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, CallPhase::Planned | CallPhase::EffectPending { .. })
    }
}

impl Operation {
    /// The calls of its step; none where it is at something else.
    pub(crate) fn calls(&self) -> &[Call] {
        match &self.phase {
            Phase::Tools { calls, .. } => calls,
            _ => &[],
        }
    }

    pub(crate) fn new(id: OperationId, kind: OperationKind, started_at: i64, phase: Phase) -> Self {
        Operation {
            id,
            kind,
            started_at,
            cancel_requested: None,
            recoveries: 0,
            turn: 0,
            step: 0,
            overflow_compacted: false,
            compaction_requested: None,
            trace: None,
            phase,
        }
    }

    /// The same operation as a part of this trace.
    pub(crate) fn traced(self, trace: Option<TraceCarrier>) -> Self {
        Operation { trace, ..self }
    }

    /// The same operation in another phase.
    pub(crate) fn at(&self, phase: Phase) -> Self {
        Operation {
            phase,
            ..self.clone()
        }
    }
}

impl Call {
    /// The id of its result entry.
    pub(crate) fn entry(&self) -> EntryId {
        EntryId::new(self.invocation_id.as_str())
    }
}

/// What the keys of values begin with that are there only while an operation is open or prepared. A session that is taken
/// in from elsewhere is given none of them.
pub(crate) const PENDING_PREFIXES: &[&str] = &[
    "operation/",
    "partial/",
    "staged/",
    "arguments/",
    "memo/",
    "departure/",
];

pub(crate) fn operation_key(lane: &LaneName) -> String {
    format!("operation/{lane}")
}

/// Where the lane's next run begins.
pub(crate) fn departure_key(lane: &LaneName) -> String {
    format!("departure/{lane}")
}

/// The text of an answer that still comes in.
pub(crate) fn partial_key(entry: &EntryId) -> String {
    format!("partial/{entry}")
}

/// A result that waits for its place.
pub(crate) fn staged_key(invocation: &InvocationId) -> String {
    format!("staged/{invocation}")
}

/// Arguments that a hook put in place of the model's.
pub(crate) fn arguments_key(invocation: &InvocationId) -> String {
    format!("arguments/{invocation}")
}

/// How the lane's last operation ended.
pub(crate) fn outcome_key(lane: &LaneName) -> String {
    format!("outcome/{lane}")
}
