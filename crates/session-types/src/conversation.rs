//! A path of entries as the model reads it. One place for whoever asks a model and for whoever shows what
//! it would be given.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    AssistantContent, AssistantMessage, Entry, EntryBody, InvocationId, Message, ResultContent,
    StopReason, ToolResultMessage, UserContent, UserMessage,
};

/// The conversation of a view. Every call in it has its result, right after it.
pub fn assemble(view: &[Arc<Entry>]) -> Vec<Arc<Message>> {
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
pub fn project(entry: &Entry) -> Option<Arc<Message>> {
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
pub fn complete(messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
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
        structured: None,
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
