//! The permissions of one session: its mode, what a person approved, and what is asked.
//!
//! An [`Ask`] is a durable request: it waits for its [`Reply`] through clients that leave, workers that die and
//! servers that restart, and the first reply that is accepted counts.

mod guard;
mod limits;
mod wildcard;

use bezel_rpc::{Context, State, service};
pub use bezel_session_types::PermissionMode;
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::guard::{MayRead, ReadGuard};
pub use crate::limits::{AgentLimits, Limits};
pub use crate::wildcard::Wildcard;

/// The permissions of one session.
#[service("permissions", version = "1.1")]
pub trait Permissions {
    /// The mode and what was approved.
    fn state(&self) -> State<PermissionsState>;

    /// Changes what the agent may do unasked, from the next call on and durably.
    #[scope(operate)]
    async fn set_mode(&self, cx: &Context, mode: PermissionMode) -> Result<(), PermissionsError>;

    /// What waits for a reply, in the order of asking.
    fn asks(&self) -> State<Vec<PendingAsk>>;

    /// Replies to an ask. The first reply is accepted, and on the disk when this returns; whether the call
    /// waits in a process just then does not matter.
    #[scope(operate)]
    async fn reply(
        &self,
        cx: &Context,
        id: InvocationId,
        reply: Reply,
    ) -> Result<SubmitOutcome, ReplyError>;

    /// Takes back what was approved for the project or for this session. False where nobody had.
    #[scope(operate)]
    async fn revoke(&self, cx: &Context, rule: Rule) -> Result<bool, PermissionsError>;
}

/// The mode of a session and what was approved in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionsState {
    /// What the agent may do unasked.
    pub mode: PermissionMode,
    /// The most that the session's agent may do unasked, whatever the mode; none where nothing but the mode binds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PermissionMode>,
    /// What was approved for this session.
    pub session: Vec<Rule>,
    /// What was approved for the project, always.
    pub project: Vec<Rule>,
    /// What is wrong with the file that approvals are kept in, and what to do; none where nothing is.
    pub problem: Option<String>,
}

impl PermissionsState {
    /// The mode that holds: the session's own, or what its agent may do at most where that is less.
    pub fn effective(&self) -> PermissionMode {
        self.limit.map_or(self.mode, |limit| self.mode.min(limit))
    }
}

/// An ask that waits.
pub type PendingAsk = PendingRequest<Ask>;

/// Why a reply was not taken. The ask still waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ReplyError {
    /// Nothing more than this call can be approved.
    #[error(
        "only this one call can be approved: its like could be anything; answer `once` or `reject`"
    )]
    OnlyOnce,
    /// It does not fit.
    #[error("the reply was not taken: {message}")]
    Invalid {
        /// What is wrong with it.
        message: String,
    },
    /// The session could not be written.
    #[error("the reply was not taken: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}

/// Why permissions could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum PermissionsError {
    /// The server could not record the mode.
    #[error("the permission mode was not changed: {message}")]
    Record {
        /// What happened.
        message: String,
    },
    /// The file of approvals could not be read or written.
    #[error("{message}")]
    Approvals {
        /// What happened, to which file, and what to do.
        message: String,
    },
}

/// What is to happen with one kind of access. In an ordered list the last rule that matches counts, but a rule
/// that denies is final wherever it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `read`, `edit`, `shell`, `web`, `external_directory` or a tool's name; `*` and `?` are wildcards.
    pub action: String,
    /// What the action is done to, with wildcards: a path, a command, a URL. `*` is anything.
    pub resource: String,
    /// What is to happen.
    pub effect: Effect,
}

/// What is to happen with an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It may run unasked.
    Allow,
    /// A person is asked.
    Ask,
    /// It never runs.
    Deny,
}

/// A question whether a call may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The tool that is called.
    pub tool: String,
    /// The call's arguments, as it will run; long texts are cut.
    pub arguments: Value,
    /// What of it needs an answer, and why; at least one.
    pub asked: Vec<Asked>,
    /// What "session" and "always" would approve. Empty where only this one call can be.
    pub covers: Vec<Rule>,
}

/// One access that needs an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// What is done.
    pub action: String,
    /// What it is done to: a path, a command, a URL.
    pub resource: String,
    /// Why nobody decided it yet, as half a sentence: "it is outside of the project".
    pub reason: String,
}

/// An answer to an [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// This call may run.
    Once,
    /// This call, and what the ask covers in this session.
    Session,
    /// This call, and what the ask covers in every session of the project.
    Always,
    /// It may not run. Without a message the turn ends; with one the model reads it and goes on.
    Reject {
        /// For the model.
        #[serde(default)]
        message: Option<String>,
    },
}
