//! The tree of a conversation: which branches there are, and going from one to another.
//!
//! Entries are written once. Going to another place moves the conversation there; what is left stays in the
//! tree and can be gone back to.

use bezel_rpc::{Context, State, service};
use bezel_session_types::{EntryId, OperationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tree of one session, and where its main lane stands.
#[service("tree", version = "1.0")]
pub trait Tree {
    /// Where the conversation stands.
    fn state(&self) -> State<TreeState>;

    /// Up to `limit` nodes (at most 2,000) of all branches that were written before the one with sequence
    /// number `before` (or the newest), in the order of their being written. A parent that is not among
    /// them is in an earlier page.
    #[scope(read)]
    async fn outline(
        &self,
        cx: &Context,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Outline, TreeError>;

    /// The whole text of what a person said.
    #[scope(read)]
    async fn text(&self, cx: &Context, entry: EntryId) -> Result<String, TreeError>;

    /// Goes to another place. The operation has ended when `chat` says so; nothing has moved before.
    #[scope(operate)]
    async fn navigate(
        &self,
        cx: &Context,
        request: NavigateRequest,
    ) -> Result<OperationId, TreeError>;

    /// Labels an entry, or takes its label away.
    #[scope(operate)]
    async fn label(
        &self,
        cx: &Context,
        entry: EntryId,
        label: Option<String>,
    ) -> Result<(), TreeError>;
}

/// Where the conversation stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeState {
    /// The newest entry of the path that the conversation is on; none before the first.
    pub tip: Option<EntryId>,
    /// Grows whenever the tree or a label changes.
    pub revision: u64,
}

/// Nodes of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outline {
    /// In the order of their being written.
    pub nodes: Vec<Node>,
    /// Whether there are earlier ones.
    pub has_older: bool,
}

/// One entry, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// The entry.
    pub id: EntryId,
    /// What it continues; none at a root.
    pub parent: Option<EntryId>,
    /// Order of being written.
    pub seq: u64,
    /// When, RFC 3339.
    pub at: String,
    /// What it is.
    pub kind: NodeKind,
    /// The beginning of what it says, on one line.
    pub text: String,
    /// Its label.
    pub label: Option<String>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A person said it.
    User,
    /// A plugin said it on a person's behalf.
    Synthetic,
    /// The model said it.
    Assistant,
    /// What a tool call came to.
    Tool,
    /// A summary in place of what was before.
    Compaction,
    /// A summary of a branch that was left.
    Branch,
    /// A plugin's fact, or a remark.
    Other,
}

/// Where to go, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NavigateRequest {
    /// Where.
    pub to: Destination,
    /// Asks for a summary of the branch that is left, with instructions for it, perhaps empty.
    #[serde(default)]
    pub summary: Option<String>,
    /// A label for the summary, or for the place where none is made.
    #[serde(default)]
    pub label: Option<String>,
}

/// A place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "place", rename_all = "snake_case")]
pub enum Destination {
    /// This entry becomes the newest of the conversation.
    At {
        /// Which.
        entry: EntryId,
    },
    /// What this entry continues does: to say it again in other words.
    Before {
        /// Which.
        entry: EntryId,
    },
}

/// Why something was not done in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum TreeError {
    /// Something runs in the session.
    #[error("{message}")]
    Busy {
        /// What, and what to do.
        message: String,
    },
    /// There is no such entry.
    #[error("this session has no entry {entry}")]
    UnknownEntry {
        /// Which.
        entry: EntryId,
    },
    /// It makes no sense: it is there already, or the place takes no summary.
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
    /// The session could not be read or written.
    #[error("{message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
