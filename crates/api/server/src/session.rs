//! A session as the server knows it: its record, and what its worker does.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use bezel_context::WorkspaceId;
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A session's record beside what its worker does. Owner and directory never leave the server's side:
/// a facet that publishes sessions makes its own summary of them.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedSession {
    /// Its id.
    pub session_id: SessionId,
    /// For people; empty while it has none.
    pub title: String,
    /// The registered project root that its directory lies in.
    pub workspace_id: WorkspaceId,
    /// The root's own name, without the path to it.
    pub workspace_name: String,
    /// Whose it is.
    pub owner: String,
    /// Where it works; absolute.
    pub directory: PathBuf,
    /// The session that began it, for a part of its own work; none for one that a person began.
    pub parent_id: Option<SessionId>,
    /// The agent that it runs; none while the configured one serves.
    pub agent: Option<String>,
    /// The chosen model; none while the configured one serves.
    pub model: Option<ModelRef>,
    /// How much the model reasons; none while the configured level serves.
    pub thinking_level: Option<ThinkingLevel>,
    /// What the agent may do unasked.
    pub permission_mode: PermissionMode,
    /// What its worker does.
    pub status: SessionStatus,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something of it last changed. Moves at most every few seconds while it runs.
    pub updated_at: Timestamp,
    /// When it was put away: lists leave it out unless they are asked. None for one that was not.
    pub archived_at: Option<Timestamp>,
}

/// What a session's worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It starts.
    Starting,
    /// It is connected and something runs in it.
    Active,
    /// It is connected, and what runs in it waits for a person's answer.
    Waiting,
    /// It is connected and waits.
    Idle,
    /// There is none.
    Closed,
    /// It died or does not answer.
    Unreachable,
}

/// Variables of the shell that started a session. They go to the worker; the server keeps no copy, and
/// its debug form names none.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaunchEnvironment(pub BTreeMap<String, String>);

impl fmt::Debug for LaunchEnvironment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LaunchEnvironment({} variables)", self.0.len())
    }
}

/// How a new session begins.
#[derive(Debug, Clone)]
pub struct CreateManaged {
    /// The id that it gets; where its owner has such a session already, that one is returned. Without one
    /// it gets a new id.
    pub session_id: Option<SessionId>,
    /// Whose it will be: the owner of the principal that asks.
    pub owner: String,
    /// For people; without one the first commit that brings a title gives it.
    pub title: Option<String>,
    /// Absolute path of an existing directory. A child's may be empty: it works where its parent does.
    pub directory: PathBuf,
    /// The session that it is a part of; of the same owner, and within reach of who asks.
    pub parent_id: Option<SessionId>,
    /// The agent that it runs.
    pub agent: Option<String>,
    /// The model to begin with.
    pub model: Option<ModelRef>,
    /// What the agent may do unasked; without one what its parent may, and [`PermissionMode::default`] where
    /// there is none.
    pub permission_mode: Option<PermissionMode>,
    /// Variables of the shell that asks.
    pub environment: Option<LaunchEnvironment>,
}

/// A registered project root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Opaque; the same root has the same id in every life of the server.
    pub workspace_id: WorkspaceId,
    /// The root's own name, without the path to it.
    pub name: String,
}

/// What a worker tells of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The newest journal sequence number.
    pub seq: u64,
    /// Whether an operation runs.
    pub running: bool,
    /// Whether a call of it waits for a person's answer.
    pub waiting: bool,
    /// Taken only where the record has none.
    pub title: Option<String>,
}

/// What changed in the fleet.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionChange {
    /// A session was created or adopted.
    Created(ManagedSession),
    /// Its record or its worker changed.
    Changed(ManagedSession),
    /// It was deleted; this is what it was.
    Deleted(ManagedSession),
}

impl SessionChange {
    /// The session, as it is or was.
    pub fn session(&self) -> &ManagedSession {
        match self {
            SessionChange::Created(session)
            | SessionChange::Changed(session)
            | SessionChange::Deleted(session) => session,
        }
    }
}
