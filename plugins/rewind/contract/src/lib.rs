//! The rewind service: checkpoints of the session's directory, and taking the agent's changes back.
//!
//! Only what the agent changed is ever written. That is known call by call: what a call names is recorded before
//! it runs and after it has ended, and everything where a call may change anything. `stage` puts the files
//! that the agent changed since a message back to what they were before it, and keeps what they are now;
//! `clear` undoes that byte for byte; `commit` makes it final. With [`Reach::FilesAndConversation`] the
//! conversation goes along: it stays where it is while staged, so that nothing is to be undone there, and goes
//! to the place before the message with `commit`, or with the next message that somebody sends. The tree keeps
//! what it leaves. What ignore files of git name, repositories' own folders and files over [`LARGEST_FILE`] are left alone.

use bezel_rpc::{Context, State, service};
use bezel_session_types::EntryId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files larger than this, in bytes, are left alone and named.
pub const LARGEST_FILE: u64 = 10 * 1024 * 1024;

/// The checkpoints of one session.
#[service("rewind", version = "1.0")]
pub trait Rewind {
    /// What can be gone back to, and what is staged.
    fn state(&self) -> State<RewindState>;

    /// The state, made anew: all that was recorded before is in it. Waits while files are being written.
    #[scope(read)]
    async fn refresh(&self, cx: &Context) -> Result<RewindState, RewindError>;

    /// What [`stage`](Rewind::stage) would do, with the differences. Changes nothing.
    #[scope(read)]
    async fn preview(&self, cx: &Context, message: EntryId) -> Result<Preview, RewindError>;

    /// Puts the files back to how they were before the turn of a message. Staging again goes elsewhere from
    /// there; what [`clear`](Rewind::clear) brings back stays what it was before the first. Where the
    /// conversation cannot go along, [`Staged::reach`] is [`Reach::Files`] and the state says why.
    #[scope(operate)]
    async fn stage(&self, cx: &Context, request: StageRequest) -> Result<Staged, RewindError>;

    /// Brings back what the files were before they were staged. Refused with
    /// [`RewindError::Edited`] when one was edited since, unless `force`.
    #[scope(operate)]
    async fn clear(&self, cx: &Context, force: bool) -> Result<Restored, RewindError>;

    /// Keeps the files as staged: they can no longer be cleared. The conversation goes to the place before the
    /// message where that was staged; first it, then the checkpoints, and what a crash cuts off between the
    /// two is finished when the session is next opened.
    #[scope(operate)]
    async fn commit(&self, cx: &Context) -> Result<Restored, RewindError>;
}

/// Where to go back to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageRequest {
    /// To before this message.
    pub message: EntryId,
    /// What goes back.
    #[serde(default)]
    pub reach: Reach,
    /// Also files that were edited after the agent's last change; without it they are left alone and named.
    #[serde(default)]
    pub force: bool,
}

/// What goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The files at once, and the conversation when that is kept.
    #[default]
    FilesAndConversation,
    /// The files alone: the conversation stays as it is.
    Files,
}

/// What can be gone back to, and what is staged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RewindState {
    /// Whether files can be rewound here.
    pub availability: Availability,
    /// Whether the checkpoints have been read, and what a crash left unfinished is finished. Before that the
    /// rest is empty.
    pub loaded: bool,
    /// The person's messages of the conversation, oldest first; the newest hundred.
    pub points: Vec<Point>,
    /// What is staged.
    pub staged: Option<Staged>,
    /// What could not be done: the newest checkpoint, whose turn's changes then stay, or letting the
    /// conversation go along.
    pub problem: Option<String>,
    /// How far files are put back or brought again, while that is done: also what a crash left unfinished.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// What the newest checkpoint does not hold and why; at most twenty.
    pub left_alone: Vec<LeftAlone>,
}

/// How far files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Files and directories that are done.
    pub done: u32,
    /// Of how many.
    pub total: u32,
}

/// Whether files can be rewound.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Availability {
    /// They can.
    #[default]
    Available,
    /// They cannot.
    Unavailable {
        /// Why, and what to do.
        reason: String,
    },
}

/// One message to go back to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The message's entry.
    pub message: EntryId,
    /// The beginning of its text.
    pub text: String,
    /// When it was said, milliseconds since 1970.
    pub at: i64,
    /// How many files its turn changed.
    pub files: u32,
    /// How many files differ through the agent from what they were before it.
    pub files_since: u32,
    /// Why what its turn changed is not known, where it is not.
    pub problem: Option<String>,
}

/// What staging a message does, before it is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// How many files would be written.
    pub total: u32,
    /// Which, by path; the first thousand.
    pub files: Vec<FileChange>,
    /// What would be left alone though the agent changed it.
    pub left_alone: Vec<LeftAlone>,
    /// Turns since the message whose changes are not known, and why.
    pub gaps: Vec<String>,
}

/// What was put back and can be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Staged {
    /// Back to before this message.
    pub message: EntryId,
    /// The beginning of its text.
    pub text: String,
    /// Its whole text, to be said again; empty in [`RewindState`].
    pub said: String,
    /// What goes back.
    pub reach: Reach,
    /// How many files differ from what they were.
    pub total: u32,
    /// Which, by path: the first thousand; in [`RewindState`] the first hundred, without differences.
    pub files: Vec<FileChange>,
    /// What was left alone though the agent changed it.
    pub left_alone: Vec<LeftAlone>,
    /// What `force` took away from where it would be brought back to, and where it is now; empty in
    /// [`RewindState`].
    #[serde(default)]
    pub set_aside: Vec<SetAside>,
    /// Turns since the message whose changes are not known, and why.
    pub gaps: Vec<String>,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// How many files it concerned.
    pub files: u32,
    /// Whether the conversation has gone to another place.
    pub conversation: bool,
    /// What could not be written, and why.
    pub left_alone: Vec<LeftAlone>,
    /// What `force` has overwritten, or what could not be brought back, and where it is now.
    #[serde(default)]
    pub set_aside: Vec<SetAside>,
}

/// A file's content that is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// Relative to the session's directory.
    pub path: String,
    /// The copy, absolute. It goes with the session.
    pub copy: String,
}

/// How one file differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Relative to the session's directory; what is no UTF-8 is shown as `�`.
    pub path: String,
    /// What happens to it.
    pub kind: ChangeKind,
    /// How it is known that the agent changed it.
    #[serde(default)]
    pub origin: Origin,
    /// Lines that come.
    pub added: u32,
    /// Lines that go.
    pub removed: u32,
    /// A unified difference from now to then; empty for what is no text, too long, or not asked for.
    pub patch: String,
}

/// How it is known that the agent changed a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Its calls named the file.
    #[default]
    Named,
    /// It changed while a command ran: what somebody else changed just then cannot be told apart.
    Command,
    /// It changed around a crash, while a call ran.
    Crash,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It comes back.
    Created,
    /// It goes.
    Removed,
    /// It gets other content.
    Changed,
    /// It gets other permissions.
    Mode,
    /// It becomes something else: a file, a link, a directory.
    Replaced,
}

/// Something that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftAlone {
    /// Relative to the session's directory.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum RewindError {
    /// Files cannot be rewound here.
    #[error("files cannot be rewound: {reason}")]
    Unavailable {
        /// Why, and what to do.
        reason: String,
    },
    /// The session runs.
    #[error("the session is busy: wait until it is done, or interrupt it")]
    Busy,
    /// The conversation has no such message.
    #[error("the conversation has no message {message} to go back to")]
    UnknownMessage {
        /// Which.
        message: EntryId,
    },
    /// Nothing is staged.
    #[error("nothing is rewound: there is nothing to undo or to keep")]
    NothingStaged,
    /// Files were edited after they were put back. Nothing was done.
    #[error("edited since they were put back: {}. Keep them, or undo with force", .paths.join(", "))]
    Edited {
        /// Which.
        paths: Vec<String>,
    },
    /// It could not be done; what was begun is finished at the next start.
    #[error("{message}")]
    Failed {
        /// What was attempted, on what, and what to do.
        message: String,
    },
}
