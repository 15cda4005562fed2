//! The transcript as a presentation sees it: the newest items as state, older ones by page.
//!
//! The worker projects its tree into items; presentations render them. While an answer streams, its
//! text grows by appends to the item's part, so that a replica costs what was added.

pub mod entries;

use bezel_rpc::{Context, State, service};
use bezel_session_types::{ModelRef, OperationId, ToolResultMessage, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The conversation of one session's main lane.
#[service("transcript", version = "1.3")]
pub trait Transcript {
    /// The newest items, oldest first.
    fn state(&self) -> State<TranscriptState>;

    /// Up to `limit` items (at most 200) before the item `before`, oldest first.
    #[scope(read)]
    async fn page(
        &self,
        cx: &Context,
        before: String,
        limit: u32,
    ) -> Result<TranscriptPage, TranscriptError>;

    /// Up to `limit` items (at most 200) after the item `after`, oldest first, and with them all results of the
    /// answer that they end in. Items of what runs just now are in the state alone.
    #[scope(read)]
    async fn page_after(
        &self,
        cx: &Context,
        after: String,
        limit: u32,
    ) -> Result<TranscriptContinuation, TranscriptError>;

    /// The whole result of a tool call whose item is clipped.
    #[scope(read)]
    async fn result(
        &self,
        cx: &Context,
        item: String,
    ) -> Result<ToolResultMessage, TranscriptError>;
}

/// The newest items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptState {
    /// Oldest first; a few hundred at most.
    pub items: Vec<Item>,
    /// Whether there are older ones.
    pub has_older: bool,
    /// The newest operation that has ended and whose items are all here.
    #[serde(default)]
    pub settled: Option<OperationId>,
}

/// Older items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptPage {
    /// Oldest first.
    pub items: Vec<Item>,
    /// Whether there are older ones still.
    pub has_older: bool,
}

/// Newer items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptContinuation {
    /// Oldest first.
    pub items: Vec<Item>,
    /// Whether there are newer ones still.
    pub has_newer: bool,
}

/// One thing that a person sees in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Stable: the entry's id, or what it will be. A remark, which no entry stands for, has an id of its own.
    pub id: String,
    /// When it began, RFC 3339.
    pub at: String,
    /// What it is.
    #[serde(flatten)]
    pub body: ItemBody,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemBody {
    /// Somebody said something.
    User {
        /// The text parts.
        text: String,
        /// How many pictures came with it.
        images: u32,
        /// Whether a plugin wrote it.
        synthetic: bool,
    },
    /// The model said something. Its tool calls are items of their own.
    Assistant {
        /// Which model.
        model: ModelRef,
        /// Text and reasoning, in order.
        parts: Vec<Part>,
        /// Whether it is complete.
        done: bool,
        /// What went wrong or that it was interrupted.
        error: Option<String>,
        /// What it cost, once done.
        usage: Option<Usage>,
    },
    /// A tool call.
    Tool(ToolItem),
    /// Everything before it was summarised for the model.
    Compaction {
        /// The summary, Markdown.
        summary: String,
    },
    /// Another branch of the conversation was left, and this is what happened there.
    Branch {
        /// The summary, Markdown.
        summary: String,
    },
    /// What a person should know of and nobody said: a run that goes on after a crash, or could not; a plugin that
    /// failed, as a remark that is not kept.
    Note {
        /// The text.
        text: String,
        /// Whether it tells of a failure.
        failed: bool,
    },
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// For the person, Markdown.
    Text {
        /// The text so far.
        text: String,
    },
    /// Reasoning.
    Thinking {
        /// The text so far.
        text: String,
    },
}

/// A tool call as a person sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolItem {
    /// The tool's name.
    pub tool: String,
    /// The arguments; `null` until they are complete.
    pub arguments: Value,
    /// The raw text of the arguments while they stream; empty afterwards.
    pub arguments_text: String,
    /// How far it is.
    pub status: ToolStatus,
    /// Output so far, or the result's text; long text keeps its head and tail.
    pub output: String,
    /// Whether `output` leaves something out that [`Transcript::result`] has.
    pub clipped: bool,
    /// What the tool says for renderers, while it runs or of its result; `null` when nothing.
    pub details: Value,
    /// The result as data that matches the tool's schema. Absent where the tool gave none, where the call failed, and
    /// where it was too long to be kept: the file that the output names then has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// When it ended, RFC 3339.
    pub ended_at: Option<String>,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The model still writes the call.
    Streaming,
    /// It waits for its turn or for clearance.
    Pending,
    /// It runs.
    Running,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// It was interrupted.
    Interrupted,
}

/// Why a transcript could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum TranscriptError {
    /// There is no such item.
    #[error("this session has no item {item}")]
    UnknownItem {
        /// Which.
        item: String,
    },
    /// The session's database could not be read.
    #[error("the session could not be read: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
