//! What the model sees of the tree.

use std::sync::Arc;

use bezel_session_types::{
    AssistantContent, Entry, EntryBody, EntryId, Message, ResultContent, UserContent,
};
pub(crate) use bezel_session_types::{assemble, complete, project};
use bezel_store::{ReadError, Store, view};
use serde_json::Value;

/// Reads the entries that matter to the model: the path to `tip`, from its last compaction's first
/// kept entry on. Commits take place between two pages of it.
pub(crate) fn load_view(store: &Store, tip: &EntryId) -> Result<Vec<Arc<Entry>>, ReadError> {
    view(tip, |tip, limit| {
        store.read(|queries| queries.path(tip, limit))
    })
}

/// Drops what a compaction at the end of `view` put a summary in place of.
pub(crate) fn trim_view(view: &mut Vec<Arc<Entry>>) {
    let Some(EntryBody::Compaction(compaction)) = view.last().map(|entry| &entry.body) else {
        return;
    };
    let first = compaction.first_kept.as_ref();
    let kept = first.and_then(|first| view.iter().position(|entry| entry.id == *first));
    view.drain(..kept.unwrap_or(view.len() - 1));
}

/// Tokens of a message, roughly: four bytes each, a picture counted as a typical one.
pub(crate) fn estimate(message: &Message) -> u64 {
    const IMAGE: usize = 4_800;
    let bytes: usize = match message {
        Message::User(user) => user
            .content
            .iter()
            .map(|part| match part {
                UserContent::Text { text } => text.len(),
                UserContent::Image(_) => IMAGE,
            })
            .sum(),
        Message::Assistant(answer) => answer
            .content
            .iter()
            .map(|part| match part {
                AssistantContent::Text { text } | AssistantContent::Thinking { text, .. } => {
                    text.len()
                }
                AssistantContent::ToolCall(call) => call.name.len() + value_size(&call.arguments),
            })
            .sum(),
        Message::ToolResult(result) => result
            .content
            .iter()
            .map(|part| match part {
                ResultContent::Text { text } => text.len(),
                ResultContent::Image(_) => IMAGE,
            })
            .sum(),
    };
    bytes as u64 / 4 + 4
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| value_size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(key, value)| key.len() + value_size(value) + 4)
                .sum::<usize>()
                + 2
        }
    }
}
