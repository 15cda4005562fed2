//! Pieces of a session as they are read without its process.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Entry, EntryId, Message};

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

/// Which stretch of a session's active path to read: the newest entries, where neither end is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What happened: `run_started`, `run_ended` and so on.
    pub kind: String,
    /// The facts, ids for the most part.
    pub body: Value,
}

/// Facts in order, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalPage {
    /// In order. Empty where nothing follows yet, and where there is a gap.
    pub events: Vec<JournalFact>,
    /// The cursor that goes on after this page; also the right one to ask again with where nothing follows yet.
    pub next: u64,
    /// The journal cannot say all that followed the cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<JournalGap>,
}

/// Something followed the cursor that the journal does not hold: a fork and an imported session begin with
/// entries that no fact tells of, and a session that came back from a copy may be behind the cursor. Take the
/// session as it is now (`history`, `context`), then go on at [`JournalPage::next`]: what follows that cursor
/// was written after the state that is described here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalGap {
    /// The newest sequence number of the session: [`JournalPage::next`] is the same.
    pub snapshot: u64,
    /// Where the conversation stood there; none in an empty session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<EntryId>,
}
