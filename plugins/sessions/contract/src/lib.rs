//! The session directory and its management: services of the server.
//!
//! The directory is read, management changes and selects. Neither needs a session's process: what is read is read
//! from its file, what is changed is its record, and a process that runs follows the record. Both are safe for any presentation: owner
//! and directory stay in the server. [`SessionUpkeep`] looks after their files. [`SessionRecord`] is what a worker may do to its own record, and
//! [`SessionProcess`] what a worker lets presentations do to itself.
//!
//! # Whose environment a session runs in
//!
//! A worker runs with the environment and the configuration that it was started with. Whoever opens a
//! session later may come from another shell, or have changed the configuration meanwhile, above all
//! because the session said that a key is missing. So who opens a session asks its worker to
//! [`renew`](SessionProcess::renew) itself: the worker compares and ends where a new one would be another,
//! and the next `attach` starts that one. Only the worker knows what it has and what runs in it, so it
//! alone decides, and it never ends while something runs in it or, unless it is asked for outright, while
//! somebody else has the session open. Coming back after a lost connection is no opening. The server
//! keeps no environment, neither as it is nor as a digest.

mod children;
mod following;
mod listing;
mod look_up;
mod record;
mod upkeep;

use std::collections::BTreeMap;
use std::fmt;

use bezel_context::WorkspaceId;
use bezel_rpc::{Context, Events, State, service};
pub use bezel_session_types::PermissionMode;
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelRef, ModelView,
    SessionId, ThinkingLevel,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use children::{
    ChildEnd, ChildStart, ChildrenState, CreateChild, SessionChildren, SessionChildrenClient,
};
pub use following::{SessionCursor, SessionNews, SessionSnapshot};
pub use listing::{Archived, ListSessions, SessionPage};
pub use look_up::{PartError, by_part, list_all, title_when_listed, waiting};
pub use record::{CommitReport, SessionRecord, SessionRecordClient, WorkerRecord};
pub use upkeep::{ImportSession, Imported, SessionUpkeep, SessionUpkeepClient};

/// Which sessions there are, and what was said and done in them. Starts no worker and asks none.
#[service("session-directory", version = "1.3")]
pub trait SessionDirectory {
    /// The sessions within the caller's reach that are not archived, those that sessions began included.
    fn state(&self) -> State<DirectoryState>;

    /// What changes, for those who want to react and not to list.
    fn events(&self) -> Events<DirectoryEvent>;

    /// One session.
    #[scope(read)]
    async fn get(
        &self,
        cx: &Context,
        session_id: SessionId,
    ) -> Result<SessionSummary, SessionError>;

    /// A page of sessions, the newest change first.
    #[scope(read)]
    async fn list(&self, cx: &Context, query: ListSessions) -> Result<SessionPage, SessionError>;

    /// The newest `limit` messages (at most 500) of a session, oldest first.
    #[scope(read)]
    async fn messages(
        &self,
        cx: &Context,
        session_id: SessionId,
        limit: u32,
    ) -> Result<Vec<Message>, SessionError>;

    /// One entry of a session's tree, whether it is on the active path or not.
    #[scope(read)]
    async fn message(
        &self,
        cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> Result<Entry, SessionError>;

    /// What the model would be given of the conversation as it stands: its newest compaction's summary and what
    /// comes after, whole.
    #[scope(read)]
    async fn context(&self, cx: &Context, session_id: SessionId)
    -> Result<ModelView, SessionError>;

    /// Up to `limit` entries (at most 500) of the active path. To page back, ask again before the first entry; to
    /// follow, after the last one.
    #[scope(read)]
    async fn history(
        &self,
        cx: &Context,
        session_id: SessionId,
        range: HistoryRange,
        limit: u32,
    ) -> Result<HistoryPage, SessionError>;

    /// Up to `limit` facts (at most 1,000) of a session's journal after the cursor `after`: 0 at first, then what
    /// the page before said. Nothing is left out and nothing comes twice, whatever the session does meanwhile.
    #[scope(read)]
    async fn journal(
        &self,
        cx: &Context,
        session_id: SessionId,
        after: u64,
        limit: u32,
    ) -> Result<JournalPage, SessionError>;

    /// What followed a cursor of this method in a session's life: facts of its journal, up to `limit` (at most
    /// 1,000), and the record where it changed. Waits where nothing did yet, without the session's process; what is
    /// committed is told within a second. Without a cursor, or with one that is no place in this session's life, the
    /// session as it is now is the answer, at once; `0` is the place before everything.
    #[scope(read)]
    async fn follow(
        &self,
        cx: &Context,
        session_id: SessionId,
        after: Option<String>,
        limit: u32,
    ) -> Result<SessionNews, SessionError>;

    /// The workspace that an absolute path lies in; none where no session was ever begun there.
    #[scope(read)]
    async fn workspace(
        &self,
        cx: &Context,
        directory: String,
    ) -> Result<Option<WorkspaceSummary>, SessionError>;

    /// The session of `directory` (an absolute path) that changed last; none where it has none within the
    /// caller's reach. Neither an archived one nor one that a session began. What `--continue` opens.
    #[scope(read)]
    async fn newest_in(
        &self,
        cx: &Context,
        directory: String,
    ) -> Result<Option<SessionSummary>, SessionError>;
}

/// Changes sessions and selects one for the caller's connection.
#[service("session-management", version = "1.2")]
pub trait SessionManagement {
    /// A new session with a started worker.
    #[scope(operate)]
    async fn create(
        &self,
        cx: &Context,
        options: CreateSession,
    ) -> Result<SessionSummary, SessionError>;

    /// Ends the session's worker and deletes its data.
    #[scope(operate)]
    async fn remove(&self, cx: &Context, session_id: SessionId) -> Result<(), SessionError>;

    /// Gives the session another title.
    #[scope(operate)]
    async fn rename(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> Result<SessionSummary, SessionError>;

    /// Has the session run another agent from the next prompt on; without one, the configured agent. Whether there
    /// is such an agent, its worker says when it runs it.
    #[scope(operate)]
    async fn switch_agent(
        &self,
        cx: &Context,
        session_id: SessionId,
        agent: Option<String>,
    ) -> Result<SessionSummary, SessionError>;

    /// Has the session use another model from the next request on. Not checked here: `select` of the session's own
    /// `models` service does that, and the next request says what is wrong.
    #[scope(operate)]
    async fn switch_model(
        &self,
        cx: &Context,
        session_id: SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<SessionSummary, SessionError>;

    /// Puts the session and all that it began away, so that lists leave them out, or takes it back, with what it
    /// began and what it is a part of. Refused while something runs in it; `attach` and whatever begins to run
    /// take it back.
    #[scope(operate)]
    async fn archive(
        &self,
        cx: &Context,
        session_id: SessionId,
        archived: bool,
    ) -> Result<SessionSummary, SessionError>;

    /// Selects the session for this connection, and starts its worker where it does not run. One that is archived
    /// is taken back: who opens it works with it again.
    #[scope(operate)]
    async fn attach(
        &self,
        cx: &Context,
        session_id: SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), SessionError>;

    /// Selects no session for this connection.
    #[scope(operate)]
    async fn detach(&self, cx: &Context) -> Result<(), SessionError>;
}

/// Where a worker puts a new session that it makes of its own: a fork. The server knows which session asks
/// from the credential. Nothing is a session before it is placed; what is never placed is cleared away.
#[service("session-copies", version = "1.0")]
pub trait SessionCopies {
    /// A place for the new session's database.
    #[scope(operate)]
    async fn begin(&self, cx: &Context) -> Result<CopyPlace, SessionError>;

    /// Makes a session of what was written there, with the directory, model and mode of the one that asks.
    /// Without a title it gets that one's, with a remark.
    #[scope(operate)]
    async fn place(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: Option<String>,
    ) -> Result<SessionSummary, SessionError>;

    /// Clears away what was written there.
    #[scope(operate)]
    async fn abandon(&self, cx: &Context, session_id: SessionId) -> Result<(), SessionError>;
}

/// A place for a new session's database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyPlace {
    /// The id that the session will have.
    pub session_id: SessionId,
    /// Absolute path of the file to write; it is not there yet.
    pub database: String,
}

/// Copying a session. A service of the session itself: whoever attaches it starts its worker, which writes
/// the copy.
#[service("session-fork", version = "1.0")]
pub trait SessionFork {
    /// A new session with the tree of this one, or one path of it. What runs here goes on; the new one is
    /// idle and has used nothing.
    #[scope(operate)]
    async fn fork(&self, cx: &Context, request: ForkRequest) -> Result<SessionSummary, ForkError>;
}

/// What a fork takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkRequest {
    /// The entry that the new session begins at; without one, where this session stands.
    #[serde(default)]
    pub at: Option<EntryId>,
    /// The whole tree instead of the path to that entry.
    #[serde(default)]
    pub whole_tree: bool,
    /// For people; without one the new session gets this one's, with a remark.
    #[serde(default)]
    pub title: Option<String>,
}

/// Why a session was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ForkError {
    /// There is nothing to copy, or no such entry.
    #[error("{message}")]
    Refused {
        /// What is wrong and what to do.
        message: String,
    },
    /// The engine of this session cannot do it.
    #[error("{message}")]
    Unsupported {
        /// Which engine, and what it lacks.
        message: String,
    },
    /// The copy could not be written or placed.
    #[error("the session was not forked: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}

/// The process of one session. A service of the session itself.
#[service("session-process", version = "1.0")]
pub trait SessionProcess {
    /// Ends the process where one that starts now would be another, and says what becomes of it. After
    /// [`Renewal::Ending`] the attachment degrades and `attach` starts the next one.
    #[scope(operate)]
    async fn renew(&self, cx: &Context, request: RenewRequest) -> Result<Renewal, RenewError>;
}

/// When a process is to give way to a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenewRequest {
    /// Variables of the shell that asks. One that it does not have is no reason for another process.
    pub environment: Option<LaunchEnvironment>,
    /// A person asked for it: also where nothing differs and others have the session open.
    #[serde(default)]
    pub always: bool,
}

/// What becomes of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It stays: another one would be the same.
    Current,
    /// It ends.
    Ending,
}

/// Why a process did not give way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum RenewError {
    /// Something would be lost.
    #[error("the session's process goes on as it was started: {reason}")]
    Busy {
        /// What, and what to do.
        reason: String,
    },
}

/// The sessions within the caller's reach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryState {
    /// Grows with every change.
    pub revision: u64,
    /// Newest first.
    pub sessions: Vec<SessionSummary>,
}

impl DirectoryState {
    /// The title of a session; `None` where it has none, or is not listed.
    pub fn title_of(&self, session: &SessionId) -> Option<&str> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|known| known.session_id == *session)?;
        Some(found.title.as_str()).filter(|title| !title.is_empty())
    }
}

/// A session as a presentation sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: SessionId,
    /// For people; empty while it has none.
    pub title: String,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// The workspace's display name.
    pub workspace_name: String,
    /// What it does.
    pub status: SessionStatus,
    /// The session that began it, for a part of its own work; none for one that a person began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The agent that it runs; none while the configured one serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The chosen model.
    pub model: Option<ModelRef>,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub updated_at: String,
    /// When it was put away, RFC 3339: lists leave it out unless they are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<String>,
}

/// A registered project root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceSummary {
    /// Its id.
    pub workspace_id: WorkspaceId,
    /// Its display name.
    pub name: String,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Its worker starts.
    Starting,
    /// Something runs in it.
    Active,
    /// Something runs in it and waits for a person's answer.
    Waiting,
    /// Its worker waits.
    Idle,
    /// It has no worker.
    Closed,
    /// Its worker died or does not answer.
    Unreachable,
}

/// What changed in the directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DirectoryEvent {
    /// A session was created.
    Created {
        /// As it is now.
        session: SessionSummary,
    },
    /// A session changed.
    Changed {
        /// As it is now.
        session: SessionSummary,
    },
    /// A session was deleted.
    Deleted {
        /// Which.
        session_id: SessionId,
    },
}

/// How a new session begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreateSession {
    /// The id that it gets, a version 7 UUID of 32 lower-case hexadecimal digits. Asked for again under the
    /// same id, the session that is there is returned: safe where an answer was lost. Without one the server
    /// makes an id.
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// For people; without one the first prompt gives it.
    pub title: Option<String>,
    /// The session that this one is a part of: it lives in that one's process and goes with it.
    #[serde(default)]
    pub parent_id: Option<SessionId>,
    /// The agent that it runs; without one a child runs its parent's, others the configured one.
    #[serde(default)]
    pub agent: Option<String>,
    /// Absolute path of the directory to work in; it must lie inside what the caller may reach. Empty for a
    /// child that works where its parent does.
    pub directory: String,
    /// Variables of the shell that asks.
    pub environment: Option<LaunchEnvironment>,
    /// The model to begin with, instead of the configured one.
    pub model: Option<ModelRef>,
    /// What the agent may do unasked.
    #[serde(default)]
    pub permission_mode: PermissionMode,
}

/// Variables of the shell that started a session. The server passes them on and keeps no copy.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LaunchEnvironment(pub BTreeMap<String, String>);

impl fmt::Debug for LaunchEnvironment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LaunchEnvironment({} variables)", self.0.len())
    }
}

/// Why a session command failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum SessionError {
    /// There is no such session within the caller's reach.
    #[error(
        "session {session_id} does not exist or is not yours; `bezel session list` shows what is"
    )]
    NotAuthorized {
        /// Which.
        session_id: SessionId,
    },
    /// The session has no such entry.
    #[error("session {session_id} has no entry {entry_id}; its history says which there are")]
    UnknownEntry {
        /// Which session.
        session_id: SessionId,
        /// As it was given.
        entry_id: EntryId,
    },
    /// The directory cannot be worked in.
    #[error("cannot work in {directory}: {reason}")]
    Directory {
        /// As it was given.
        directory: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The worker did not start or did not end.
    #[error("the worker of session {session_id} {reason}")]
    Worker {
        /// Which session.
        session_id: SessionId,
        /// What happened, as the rest of the sentence, and what to do.
        reason: String,
    },
    /// An argument makes no sense.
    #[error("{message}")]
    Invalid {
        /// What is wrong and what to do.
        message: String,
    },
    /// The server's records could not be read or written.
    #[error("the server's records are not available: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
