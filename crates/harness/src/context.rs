//! What the model sees of the tree.

use std::collections::HashSet;
use std::sync::Arc;

use bezel_session_types::{
    AssistantContent, AssistantMessage, Entry, EntryBody, EntryId, InvocationId, Message,
    ResultContent, StopReason, ToolResultMessage, UserContent, UserMessage,
};
use bezel_store::{ReadError, Store};
use serde_json::Value;

/// Entries read at a time.
const PAGE: usize = 256;

/// Reads the entries that matter to the model: the path to `tip`, from its last compaction's first
/// kept entry on.
pub(crate) fn load_view(store: &Store, tip: &EntryId) -> Result<Vec<Arc<Entry>>, ReadError> {
    let mut newest_first: Vec<Arc<Entry>> = Vec::new();
    let mut kept: Option<Option<EntryId>> = None;
    let mut from = Some(tip.clone());
    while let Some(tip) = from {
        let page = store.read(|queries| queries.path(&tip, PAGE))?;
        from = page.entries.first().and_then(|entry| entry.parent.clone());
        for entry in page.entries.into_iter().rev() {
            let id = entry.id.clone();
            if let (None, EntryBody::Compaction(compaction)) = (&kept, &entry.body) {
                kept = Some(compaction.first_kept.clone());
            }
            newest_first.push(Arc::new(entry));
            match &kept {
                Some(None) => return Ok(oldest_first(newest_first)),
                Some(Some(first)) if *first == id => return Ok(oldest_first(newest_first)),
                _ => {}
            }
        }
    }
    Ok(oldest_first(newest_first))
}

fn oldest_first(mut entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    entries.reverse();
    entries
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

/// The conversation of a view. Every call in it has its result, right after it.
pub(crate) fn assemble(view: &[Arc<Entry>]) -> Vec<Arc<Message>> {
    let compacted = view
        .iter()
        .rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    let mut messages = Vec::with_capacity(view.len());
    if let Some(EntryBody::Compaction(compaction)) = compacted.map(|at| &view[at].body) {
        messages.push(synthetic(format!(
            "The conversation before this point was summarised:\n\n<summary>\n{}\n</summary>",
            compaction.summary
        )));
    }
    messages.extend(view.iter().filter_map(|entry| project(entry)));
    complete(messages)
}

/// How the model sees one entry; not at all where it is for people alone.
pub(crate) fn project(entry: &Entry) -> Option<Arc<Message>> {
    match &entry.body {
        EntryBody::Message { message } => match &**message {
            Message::Assistant(answer) => project_answer(message, answer),
            _ => Some(Arc::clone(message)),
        },
        EntryBody::BranchSummary(branch) => Some(synthetic(format!(
            "Another branch of this conversation was left; what happened there:\n\n<summary>\n{}\n</summary>",
            branch.summary
        ))),
        // The summary of a compaction stands before everything else.
        EntryBody::Compaction(_) | EntryBody::Custom(_) => None,
    }
}

fn project_answer(message: &Arc<Message>, answer: &AssistantMessage) -> Option<Arc<Message>> {
    match answer.stop_reason {
        StopReason::Error => None,
        StopReason::Aborted => {
            let mut answer = answer.clone();
            // What the person saw; reasoning that was cut off carries no signature to send back.
            answer.content.retain(
                |part| matches!(part, AssistantContent::Text { text } if !text.trim().is_empty()),
            );
            (!answer.content.is_empty()).then(|| Arc::new(Message::Assistant(answer)))
        }
        _ => (!answer.content.is_empty()).then(|| Arc::clone(message)),
    }
}

/// Gives every call exactly one result, right after the answer that made it, and drops results
/// without a call.
pub(crate) fn complete(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let mut completed = Vec::with_capacity(messages.len());
    let mut open: Vec<(String, String)> = Vec::new();
    for message in messages {
        match &*message {
            Message::ToolResult(result) => {
                if let Some(at) = open.iter().position(|(id, _)| *id == result.call_id) {
                    open.remove(at);
                    completed.push(message);
                }
            }
            other => {
                completed.extend(open.drain(..).map(without_result));
                if let Message::Assistant(answer) = other {
                    let mut seen = HashSet::new();
                    let calls = answer
                        .tool_calls()
                        .filter(|call| seen.insert(call.id.as_str()));
                    open.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
                }
                completed.push(message);
            }
        }
    }
    completed.extend(open.into_iter().map(without_result));
    completed
}

fn without_result((call_id, tool): (String, String)) -> Arc<Message> {
    Arc::new(Message::ToolResult(ToolResultMessage {
        invocation_id: InvocationId::new(call_id.as_str()),
        call_id,
        tool,
        content: vec![ResultContent::text("The result of this call is not known.")],
        details: Value::Null,
        is_error: true,
    }))
}

fn synthetic(text: String) -> Arc<Message> {
    Arc::new(Message::User(UserMessage {
        content: vec![UserContent::Text { text }],
        synthetic: true,
    }))
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
