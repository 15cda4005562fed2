//! Pieces of a session as they are read without its process.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Entry, EntryId, Message, ModelRef, RequestOptions, ToolDefinition};

/// What the model would be given of a conversation: the messages alone. System prompt, tools and what hooks
/// change are the session's process's to say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelView {
    /// Where the conversation stands; none in an empty session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<EntryId>,
    /// The compaction whose summary is the first message; none where nothing is summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<EntryId>,
    /// Oldest first. Every tool call has its result, right after the answer that made it.
    pub messages: Vec<Arc<Message>>,
}

/// What the model would be sent now, whole, as the process of the session makes it: the messages of a [`ModelView`],
/// with system prompt and tools, after the hooks that change requests. Nothing of how a provider is reached is in
/// it: no key, no header, no address.
///
/// Messages that wait are not in it, nor what enters with a run's first request: they are in the tree, and so in
/// here, once they are delivered. Where a request would be preceded by a compaction, this is what it would be
/// without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextRequest {
    /// The entry that a run would go on from; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<EntryId>,
    /// Which model.
    pub model: ModelRef,
    /// The system prompt as it would be sent.
    pub system: Arc<str>,
    /// What the system prompt was put together from, in order, before any hook changed it. Empty where the engine
    /// does not keep its parts apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<PromptSection>,
    /// The tools that it would be offered.
    pub tools: Arc<[ToolDefinition]>,
    /// The conversation, oldest first.
    pub messages: Arc<[Arc<Message>]>,
    /// How it would be asked to answer.
    pub options: RequestOptions,
    /// The hooks that failed on it and were passed over, as a request would pass over them: whose, which, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

/// A part of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptSection {
    /// Its name, by which others replace it.
    pub name: String,
    /// The plugin that wrote it.
    pub plugin: String,
    /// What it says.
    pub text: String,
}

/// Which stretch of a session's active path to read: the newest entries, where neither end is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HistoryRange {
    /// Only what comes before this entry of the path, the nearest first to be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<EntryId>,
    /// Only what comes after this entry of the path, the nearest first to be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<EntryId>,
}

/// A stretch of the active path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPage {
    /// Oldest first. May be fewer than were asked for where they are large; at least one where there is one.
    pub entries: Vec<Entry>,
    /// Whether the path goes on in the direction that was asked for: after the last entry where `after` was
    /// named, otherwise before the first.
    pub more: bool,
}

/// A durable fact of a session's life. The kinds are stable; their facts only grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalFact {
    /// Its place: strictly growing within the session, with gaps.
    pub seq: u64,
    /// Milliseconds since 1970 by the writer's clock.
    pub created_at: i64,
    /// What happened. `entry_added` tells of each entry of the tree: of a message that was delivered, an answer, the
    /// result of a call, a compaction. `tool_started` and `tool_ended` tell of a call that runs, `run_started` and
    /// `run_ended` of an operation; there are `prompt_admitted`, `abort_requested`, `request_registered`,
    /// `request_answered`, `compaction_started`, `navigated`, `label_set` and more.
    pub kind: String,
    /// The facts, ids for the most part, and never what was said: `entry` names an entry that
    /// `session-directory.message` gives, `invocation` a call, whose result is the entry of the same id.
    pub body: Value,
}

/// Facts in order, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalPage {
    /// In order. Empty where nothing follows yet, and where there is a gap.
    pub events: Vec<JournalFact>,
    /// The cursor that goes on after this page; also the right one to ask again with where nothing follows yet.
    pub next: u64,
    /// The cursor is no place in this session's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<JournalGap>,
}

/// What followed the cursor cannot be said, for the session is not that far: it came back from a copy, or the cursor
/// is another session's. Take the session as it is now (`history`, `context`), then go on at
/// [`JournalPage::next`]: what follows that cursor was written after the state that is described here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalGap {
    /// The newest sequence number of the session: [`JournalPage::next`] is the same.
    pub snapshot: u64,
    /// Where the conversation stood there; none in an empty session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<EntryId>,
}
