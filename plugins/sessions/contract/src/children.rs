//! The sessions that a session began as parts of its own work.

use std::fmt;

use bezel_rpc::{Context, State, service};
use bezel_session_types::{ModelRef, PermissionMode, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{SessionError, SessionSummary};

/// The children of sessions, for the process that they live in: a session, its children and theirs are one
/// tree, and a tree has one worker process. The server knows which session asks from the credential, and
/// answers for sessions of another tree as for ones that do not exist.
///
/// The worker of a tree hosts a child where it wants one itself, or where the server wants it because somebody
/// opens it: both begin with [`claim`](SessionChildren::claim), and the child then has a connection of its own.
#[service("session-children", version = "1.0")]
pub trait SessionChildren {
    /// What the server wants of the tree that asks.
    fn state(&self) -> State<ChildrenState>;

    /// A new session that is a part of one of the tree. Nothing hosts it yet. Asked for again under the same
    /// id, the session that is there is returned.
    #[scope(operate)]
    async fn create(
        &self,
        cx: &Context,
        options: CreateChild,
    ) -> Result<SessionSummary, SessionError>;

    /// All sessions of the tree, parents before their children.
    #[scope(operate)]
    async fn tree(&self, cx: &Context) -> Result<Vec<SessionSummary>, SessionError>;

    /// Takes a child up to host it: what its host is to be told. Claimed again before it is connected, the
    /// answer is the same.
    #[scope(operate)]
    async fn claim(&self, cx: &Context, session_id: SessionId) -> Result<ChildStart, SessionError>;

    /// A child that was claimed is hosted no more.
    #[scope(operate)]
    async fn released(
        &self,
        cx: &Context,
        session_id: SessionId,
        end: ChildEnd,
    ) -> Result<(), SessionError>;

    /// Which children are hosted now, said after each new connection: others that were claimed before it are
    /// released.
    #[scope(operate)]
    async fn hosted(&self, cx: &Context, children: Vec<SessionId>) -> Result<(), SessionError>;
}

/// What the server wants of a tree's worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChildrenState {
    /// Children that somebody waits for and nobody has claimed.
    pub wanted: Vec<SessionId>,
    /// Children that are to be released.
    pub unwanted: Vec<SessionId>,
}

/// A part of a session's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreateChild {
    /// The session of the tree that it is a part of.
    pub parent_id: SessionId,
    /// The id that it gets, a version 7 UUID of 32 lower-case hexadecimal digits: safe where an answer was
    /// lost. Without one the server makes one.
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// For people; without one the first prompt gives it.
    #[serde(default)]
    pub title: Option<String>,
    /// The agent that it runs; without one that of its parent.
    #[serde(default)]
    pub agent: Option<String>,
    /// The model to begin with; without one that of its parent.
    #[serde(default)]
    pub model: Option<ModelRef>,
    /// Where it works, an absolute path; without one where its parent does.
    #[serde(default)]
    pub directory: Option<String>,
    /// What it may do unasked; without one what its parent may.
    #[serde(default)]
    pub permission_mode: Option<PermissionMode>,
}

/// What the host of a child is told, from the server to the worker's own host: it holds the child's credential,
/// and its debug form says nothing.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChildStart(pub Value);

impl fmt::Debug for ChildStart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChildStart(hidden)")
    }
}

/// How a child came to be hosted no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChildEnd {
    /// Whether it ended by itself and in order, or because the server wanted it.
    pub orderly: bool,
    /// For people, as the rest of a sentence: `was not used any more`, `could not be started: …`.
    pub description: String,
}
