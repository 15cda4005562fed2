//! Entries of a session's tree, as the database keeps them and as everybody reads them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EntryId, Message};

/// One entry: written once, never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its name.
    pub id: EntryId,
    /// What it continues; none at a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<EntryId>,
    /// Strictly growing within the session, with gaps. Order is by this, never by time.
    pub seq: u64,
    /// Milliseconds since 1970 by the writer's clock.
    pub created_at: i64,
    /// What it holds.
    #[serde(flatten)]
    pub body: EntryBody,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntryBody {
    /// A message of the conversation.
    Message {
        /// The message. Shared: the model's view of a conversation holds it as well.
        message: Arc<Message>,
    },
    /// From here on the model sees a summary in place of what was before.
    Compaction(Compaction),
    /// What happened on a branch that was left.
    BranchSummary(BranchSummary),
    /// A plugin's own fact. The model never sees it.
    Custom(CustomEntry),
}

/// A summary that stands for older entries. The tree keeps them; only the model's view changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// What the model reads in place of the older entries.
    pub summary: String,
    /// The first entry before this one that the model still sees; none when all is summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kept: Option<EntryId>,
    /// The size of the context before, in tokens, as far as known.
    pub tokens_before: u64,
    /// What caused it.
    pub reason: CompactionReason,
}

/// What caused a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionReason {
    /// Somebody asked for it.
    Manual,
    /// The context came close to the model's window.
    Threshold,
    /// The provider refused the request as too long.
    Overflow,
}

/// What happened on a branch that was left, for the model on the branch that goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BranchSummary {
    /// What the model reads.
    pub summary: String,
    /// The tip of the branch that was left.
    pub from: EntryId,
}

/// A plugin's own fact in the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomEntry {
    /// Whose and which: `plugin.name`.
    pub name: String,
    /// The fact.
    #[serde(default)]
    pub value: Value,
}

/// A harness's own remark in the tree, as a person reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'entry> {
    /// Whether it tells of a failure.
    pub failed: bool,
    /// What happened and what to do.
    pub message: &'entry str,
}

impl CustomEntry {
    /// The remark in it; none where it is a plugin's fact.
    pub fn note(&self) -> Option<Note<'_>> {
        let failed = match self.name.as_str() {
            "harness.failed" => true,
            "harness.resumed" => false,
            _ => return None,
        };
        let message = self.value.get("message")?.as_str()?;
        Some(Note { failed, message })
    }
}

impl Entry {
    /// The message, where it holds one.
    pub fn message(&self) -> Option<&Message> {
        match &self.body {
            EntryBody::Message { message } => Some(message),
            _ => None,
        }
    }
}

impl EntryBody {
    /// The kind as the database and the wire spell it.
    pub fn kind(&self) -> &'static str {
        match self {
            EntryBody::Message { .. } => "message",
            EntryBody::Compaction(_) => "compaction",
            EntryBody::BranchSummary(_) => "branch_summary",
            EntryBody::Custom(_) => "custom",
        }
    }
}

impl From<Message> for EntryBody {
    fn from(message: Message) -> Self {
        EntryBody::Message {
            message: Arc::new(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserMessage;

    #[test]
    fn an_entry_reads_back_and_names_its_kind_once() {
        let entry = Entry {
            id: EntryId::new("e1"),
            parent: None,
            seq: 3,
            created_at: 9,
            body: Message::User(UserMessage::text("hello")).into(),
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(text.matches("\"kind\"").count(), 1, "{text}");
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
