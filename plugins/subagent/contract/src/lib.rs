//! Subagents: what a call of the tool shows while it runs and when it has ended.
//!
//! A subagent is a session of its own, a child of the one that calls: it is listed, opened, read and answered like
//! any session.

use bezel_session_types::{OperationId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the tool.
pub const TOOL: &str = "subagent";

/// What a call is about, for renderers: the call's details while it runs, and its result's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentDetails {
    /// The child.
    pub session_id: SessionId,
    /// What it is to do, in a few words.
    pub description: String,
    /// The agent that it runs; none for its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How far it is.
    pub status: SubagentStatus,
    /// Whether the caller went on without waiting.
    #[serde(default)]
    pub background: bool,
    /// The child's operation that does it; absent before the child has taken its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<OperationId>,
    /// Tool calls that it has made for this call.
    #[serde(default)]
    pub tool_calls: u32,
    /// The tool that it called last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<String>,
}

/// How far a subagent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubagentStatus {
    /// It waits for others to end: only so many run at once.
    Waiting,
    /// It works.
    Running,
    /// It has answered.
    Completed,
    /// Somebody ended it.
    Interrupted,
    /// It could not go on.
    Failed,
}
