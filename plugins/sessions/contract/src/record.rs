//! A session's record, as its own worker reads and changes it.

use bezel_rpc::{Context, State, service};
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionError;

/// What a worker may do to the record of its own session. The server knows which one from the credential.
#[service("session-record", version = "1.2")]
pub trait SessionRecord {
    /// The record of the worker's own session, as it changes; empty for everybody else.
    #[scope(operate)]
    fn state(&self) -> State<WorkerRecord>;

    /// The record as it stands.
    #[scope(operate)]
    async fn current(&self, cx: &Context) -> Result<WorkerRecord, SessionError>;

    /// Tells the server of a commit: the newest sequence number, whether the session runs, and a
    /// title where the session has none yet.
    #[scope(operate)]
    async fn committed(&self, cx: &Context, report: CommitReport) -> Result<(), SessionError>;

    /// Records the chosen model and thinking level.
    #[scope(operate)]
    async fn switch_model(
        &self,
        cx: &Context,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<(), SessionError>;

    /// Records the chosen agent; none for the configured one.
    #[scope(operate)]
    async fn switch_agent(&self, cx: &Context, agent: Option<String>) -> Result<(), SessionError>;

    /// Records what the agent may do unasked from now on.
    #[scope(operate)]
    async fn switch_permission_mode(
        &self,
        cx: &Context,
        mode: PermissionMode,
    ) -> Result<(), SessionError>;
}

/// A record as the session's own worker sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerRecord {
    /// For people; empty while it has none.
    pub title: String,
    /// The chosen model.
    pub model: Option<ModelRef>,
    /// How much it reasons.
    pub thinking_level: ThinkingLevel,
    /// What the agent may do unasked.
    pub permission_mode: PermissionMode,
    /// The agent that it runs; none while the configured one serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
}

/// What a worker tells of its commits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommitReport {
    /// The newest journal sequence number.
    pub seq: u64,
    /// Whether an operation runs.
    pub running: bool,
    /// Whether a call of it waits for a person's answer.
    #[serde(default)]
    pub waiting: bool,
    /// A title made from the first prompt; taken only where the record has none.
    pub title: Option<String>,
}
