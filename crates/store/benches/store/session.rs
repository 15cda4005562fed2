//! Sessions to measure with: as many entries of as many bytes as asked for, in the shape of a conversation.

use std::path::Path;

use bezel_session_types::{
    AssistantContent, AssistantMessage, EntryBody, EntryId, InvocationId, LaneName, Message,
    OperationId, ResultContent, StopReason, ToolCall, ToolResultMessage, Usage, UserMessage,
};
use bezel_store::{Store, Transaction, UsageRow};
use serde_json::{Value, json};

use crate::Result;

/// Makes a session of `count` entries of about `bytes` bytes each: prompts, answers with a call, results. Every
/// thousandth answer is followed by another branch, which is left again.
pub(crate) fn make(path: &Path, count: usize, bytes: usize) -> Result<Store> {
    let store = Store::open(path)?;
    let mut parent: Option<EntryId> = None;
    let mut left = count;
    while left > 0 {
        let mut transaction = Transaction::new();
        for _ in 0..left.min(300) {
            let index = count - left;
            let id = entry(index);
            let next = if index % 3_000 == 2_999 {
                entry(index - 5)
            } else {
                id.clone()
            };
            transaction.append_at(
                id,
                parent.replace(next),
                1_700_000_000_000,
                body(index, bytes),
            );
            left -= 1;
        }
        transaction.set_tip(&LaneName::main(), parent.as_ref());
        transaction.usage(usage());
        store.commit(transaction)?;
    }
    Ok(store)
}

/// The id of an entry by its number.
pub(crate) fn entry(index: usize) -> EntryId {
    EntryId::new(format!("{index:032x}"))
}

pub(crate) fn usage() -> UsageRow {
    UsageRow {
        lane: LaneName::main(),
        operation_id: OperationId::new("o"),
        purpose: "answer",
        model: bezel_session_types::ModelRef {
            provider: "bench".into(),
            model_id: "model".into(),
        },
        usage: Usage {
            input: 1_000,
            output: 100,
            ..Usage::default()
        },
        cost: None,
    }
}

/// What the entry with this number holds.
pub(crate) fn body(index: usize, bytes: usize) -> EntryBody {
    let text: String = "The quick brown fox jumps over the lazy dog. "
        .chars()
        .cycle()
        .take(bytes.saturating_sub(200))
        .collect();
    let message = match index % 3 {
        0 => Message::User(UserMessage::text(text)),
        1 => Message::Assistant(AssistantMessage {
            content: vec![
                AssistantContent::Text { text },
                AssistantContent::ToolCall(ToolCall {
                    id: format!("call-{index}"),
                    name: "read".into(),
                    arguments: json!({ "path": "src/main.rs" }),
                    signature: None,
                }),
            ],
            model: usage().model,
            usage: usage().usage,
            stop_reason: StopReason::ToolUse,
            error: None,
        }),
        _ => Message::ToolResult(ToolResultMessage {
            call_id: format!("call-{}", index - 1),
            invocation_id: InvocationId::new(entry(index).as_str()),
            tool: "read".into(),
            content: vec![ResultContent::text(text)],
            structured: None,
            details: Value::Null,
            is_error: false,
        }),
    };
    message.into()
}
