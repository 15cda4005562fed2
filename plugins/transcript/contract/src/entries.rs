//! Items from entries that are in the tree already, for whoever reads them: the session's worker, and those who read
//! a session that has none.

use bezel_session_types::{
    AssistantContent, AssistantMessage, Entry, EntryBody, EntryId, Message, ResultContent,
    ToolResultMessage, UserContent, UserMessage,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Item, ItemBody, Part, ToolItem, ToolStatus};

/// Bytes of a tool's text that an item holds: this much of the head and as much of the tail.
const CLIP: usize = 4 * 1024;

/// Items of a run of entries, oldest first. A call without a result shows as interrupted.
pub fn items(entries: &[Entry]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    // Provider ids of calls whose result has not come yet, with the place of their item.
    let mut open: Vec<(String, usize)> = Vec::new();
    for entry in entries {
        let at = time(entry.created_at);
        match &entry.body {
            EntryBody::Message { message } => match &**message {
                Message::User(message) => {
                    items.push(Item {
                        id: entry.id.to_string(),
                        at,
                        body: user(message),
                    });
                }
                Message::Assistant(message) => {
                    open.clear();
                    let body = answer(message);
                    items.push(Item {
                        id: entry.id.to_string(),
                        at: at.clone(),
                        body,
                    });
                    for (place, call) in message.tool_calls().enumerate() {
                        open.push((call.id.clone(), items.len()));
                        let tool = ToolItem {
                            tool: call.name.clone(),
                            arguments: call.arguments.clone(),
                            arguments_text: String::new(),
                            status: ToolStatus::Interrupted,
                            output: String::new(),
                            clipped: false,
                            details: Value::Null,
                            structured: None,
                            ended_at: None,
                        };
                        let id = call_id(&entry.id, place);
                        items.push(Item {
                            id,
                            at: at.clone(),
                            body: ItemBody::Tool(tool),
                        });
                    }
                }
                Message::ToolResult(result) => {
                    let place = open.iter().find(|(call, _)| *call == result.call_id);
                    let Some((_, index)) = place else { continue };
                    let item = &mut items[*index];
                    item.id = result.invocation_id.to_string();
                    if let ItemBody::Tool(tool) = &mut item.body {
                        settle(tool, result, at);
                    }
                }
            },
            EntryBody::Compaction(compaction) => {
                let body = ItemBody::Compaction {
                    summary: compaction.summary.clone(),
                };
                items.push(Item {
                    id: entry.id.to_string(),
                    at,
                    body,
                });
            }
            EntryBody::BranchSummary(branch) => {
                let summary = branch.summary.clone();
                items.push(Item {
                    id: entry.id.to_string(),
                    at,
                    body: ItemBody::Branch { summary },
                });
            }
            EntryBody::Custom(custom) => {
                if let Some(note) = custom.note() {
                    let text = note.message.to_owned();
                    let failed = note.failed;
                    items.push(Item {
                        id: entry.id.to_string(),
                        at,
                        body: ItemBody::Note { text, failed },
                    });
                }
            }
        }
    }
    items
}

/// Milliseconds since 1970 as RFC 3339.
pub fn time(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_string()
}

/// The id of a call's item before the call has one of its own.
pub fn call_id(answer: &EntryId, place: usize) -> String {
    format!("{answer}:{place}")
}

/// A message of a person or a plugin.
pub fn user(message: &UserMessage) -> ItemBody {
    let images = message
        .content
        .iter()
        .filter(|part| matches!(part, UserContent::Image(_)))
        .count();
    ItemBody::User {
        text: message.to_text(),
        images: u32::try_from(images).unwrap_or(u32::MAX),
        synthetic: message.synthetic,
    }
}

/// An answer that is in the tree.
pub fn answer(message: &AssistantMessage) -> ItemBody {
    let parts = message.content.iter().filter_map(|part| match part {
        AssistantContent::Text { text } => Some(Part::Text { text: text.clone() }),
        AssistantContent::Thinking { text, .. } if text.is_empty() => None,
        AssistantContent::Thinking { text, .. } => Some(Part::Thinking { text: text.clone() }),
        AssistantContent::ToolCall(_) => None,
    });
    ItemBody::Assistant {
        model: message.model.clone(),
        parts: parts.collect(),
        done: true,
        error: message.error.clone(),
        usage: Some(message.usage),
    }
}

/// Puts a result into its item.
pub fn settle(tool: &mut ToolItem, result: &ToolResultMessage, at: String) {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|part| match part {
            ResultContent::Text { text } => Some(text.as_str()),
            ResultContent::Image(_) => None,
        })
        .collect();
    (tool.output, tool.clipped) = clip(&texts.join("\n"));
    tool.status = if result.is_error {
        ToolStatus::Failed
    } else {
        ToolStatus::Done
    };
    tool.details = result.details.clone();
    tool.structured = result.structured.clone();
    tool.arguments_text.clear();
    tool.ended_at = Some(at);
}

/// The text, or its head and tail with a mark between, and whether something was left out.
fn clip(text: &str) -> (String, bool) {
    if text.len() <= 2 * CLIP {
        return (text.to_owned(), false);
    }
    let head = text.floor_char_boundary(CLIP);
    let tail = text.ceil_char_boundary(text.len() - CLIP);
    (
        format!(
            "{}\n… {} bytes left out …\n{}",
            &text[..head],
            tail - head,
            &text[tail..]
        ),
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_head_and_tail_on_character_boundaries() {
        let text = "é".repeat(3 * CLIP);
        let (clipped, left_out) = clip(&text);
        assert!(
            left_out && clipped.len() < 2 * CLIP + 64,
            "{}",
            clipped.len()
        );
        assert!(
            clipped.starts_with('é')
                && clipped.ends_with('é')
                && clipped.contains("bytes left out")
        );
        assert_eq!(clip("short"), ("short".to_owned(), false));
    }
}
