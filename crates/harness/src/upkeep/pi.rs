//! pi's sessions: JSON lines of version 2 and 3. A header line, then entries that name their parents; the
//! conversation goes on at the last line.

use std::collections::HashMap;
use std::io::{self, BufRead};

use bezel_session_types::{
    AssistantContent, AssistantMessage, Message, ResultContent, ToolCall, UserContent, UserMessage,
};
use serde_json::Value;

use super::draft::{Draft, NodeBody, result};
use super::lines::{Line, Lines, count, flag, image, list, model, stop_reason, text, time, usage};

/// The newest version that is read here.
pub(super) const NEWEST: u64 = 3;

/// Whether a line is the header of such a file, and of which version.
pub(super) fn version(header: &Value) -> Option<u64> {
    let is_header = text(header, "type") == "session" && header.get("id").is_some();
    is_header.then(|| header.get("version").and_then(Value::as_u64).unwrap_or(1))
}

pub(super) fn read(lines: &mut Lines<impl BufRead>) -> io::Result<Draft> {
    let mut reading = Reading::default();
    while let Some(line) = lines.next()? {
        match line {
            Line::Object(entry) => reading.entry(&entry),
            Line::Unreadable => reading.draft.leave_out("unreadable line"),
        }
    }
    let Reading {
        mut draft, last, ..
    } = reading;
    draft.tip = last;
    Ok(draft)
}

#[derive(Default)]
struct Reading {
    draft: Draft,
    /// The node that stands for each entry: its own, or the one before where it has none.
    nodes: HashMap<String, Option<usize>>,
    last: Option<usize>,
}

impl Reading {
    fn entry(&mut self, entry: &Value) {
        let kind = text(entry, "type");
        let parent = match entry.get("parentId").and_then(Value::as_str) {
            // Version 1 had no parents; one that is not there lost its line.
            Some(parent) => self.nodes.get(parent).copied().unwrap_or(self.last),
            None if entry.get("parentId").is_some() => None,
            None => self.last,
        };
        let body = match kind {
            "session" => {
                self.draft.origin = Some(text(entry, "id").to_owned());
                self.draft.directory = Some(text(entry, "cwd").into());
                return;
            }
            "message" => entry.get("message").and_then(|said| self.message(said)),
            "custom_message" => custom_message(entry),
            "compaction" => {
                let first_kept = self.nodes.get(text(entry, "firstKeptEntryId"));
                Some(NodeBody::Compaction {
                    summary: text(entry, "summary").to_owned(),
                    first_kept: first_kept.copied().flatten(),
                    tokens_before: count(entry, "tokensBefore"),
                })
            }
            "branch_summary" => {
                let from = self.nodes.get(text(entry, "fromId")).copied().flatten();
                // A branch that begins at the root has no tip to name: the first entry stands for it.
                from.or(parent).map(|from| NodeBody::BranchSummary {
                    summary: text(entry, "summary").to_owned(),
                    from,
                })
            }
            "custom" => Some(NodeBody::Custom {
                name: format!("pi.{}", text(entry, "customType")),
                value: entry.get("data").cloned().unwrap_or_default(),
            }),
            "label" => {
                self.label(entry);
                None
            }
            "session_info" => {
                self.draft.title = text(entry, "name").to_owned();
                None
            }
            "model_change" | "thinking_level_change" | "usage" => None,
            other => {
                self.draft.leave_out(format!("entry `{other}`"));
                None
            }
        };
        let node = match body {
            Some(body) => Some(self.draft.add(parent, time(entry), body)),
            None => parent,
        };
        if let Some(id) = entry.get("id").and_then(Value::as_str) {
            self.nodes.insert(id.to_owned(), node);
        }
        self.last = node;
    }

    fn label(&mut self, entry: &Value) {
        let target = self.nodes.get(text(entry, "targetId")).copied().flatten();
        let Some(target) = target else { return };
        self.draft.labels.retain(|(node, _)| *node != target);
        match text(entry, "label") {
            "" => {}
            label => self.draft.labels.push((target, label.to_owned())),
        }
    }

    fn message(&mut self, said: &Value) -> Option<NodeBody> {
        let message = match text(said, "role") {
            "user" => Message::User(UserMessage {
                content: self.user_content(said, "content")?,
                synthetic: false,
            }),
            "assistant" => Message::Assistant(self.answer(said)),
            "toolResult" => {
                let content = self.result_content(said);
                let (call, tool) = (text(said, "toolCallId"), text(said, "toolName"));
                return Some(result(
                    call.into(),
                    tool.into(),
                    content,
                    flag(said, "isError"),
                ));
            }
            // A command that the person ran beside the conversation.
            "bashExecution" => {
                if flag(said, "excludeFromContext") {
                    self.draft.leave_out("command outside of the conversation");
                    return None;
                }
                let ran = format!(
                    "Ran `{}`:\n```\n{}\n```",
                    text(said, "command"),
                    text(said, "output")
                );
                synthetic(ran)
            }
            "custom" | "hookMessage" => Message::User(UserMessage {
                content: self.user_content(said, "content")?,
                synthetic: true,
            }),
            other => {
                self.draft.leave_out(format!("message of `{other}`"));
                return None;
            }
        };
        Some(NodeBody::Message(message))
    }

    fn user_content(&mut self, said: &Value, member: &str) -> Option<Vec<UserContent>> {
        if let Some(text) = said.get(member).and_then(Value::as_str) {
            return Some(vec![UserContent::Text { text: text.into() }]);
        }
        let mut content = Vec::new();
        for part in list(said, member) {
            match text(part, "type") {
                "text" => content.push(UserContent::Text {
                    text: text(part, "text").into(),
                }),
                "image" => match image(text(part, "mimeType"), text(part, "data")) {
                    Some(image) => content.push(UserContent::Image(image)),
                    None => self.draft.leave_out("picture"),
                },
                other => self.draft.leave_out(format!("part `{other}`")),
            }
        }
        (!content.is_empty()).then_some(content)
    }

    fn result_content(&mut self, said: &Value) -> Vec<ResultContent> {
        let content = self.user_content(said, "content").unwrap_or_default();
        let parts = content.into_iter().map(|part| match part {
            UserContent::Text { text } => ResultContent::Text { text },
            UserContent::Image(image) => ResultContent::Image(image),
        });
        parts.collect()
    }

    fn answer(&mut self, said: &Value) -> AssistantMessage {
        let mut content = Vec::new();
        for part in list(said, "content") {
            match text(part, "type") {
                "text" => content.push(AssistantContent::Text {
                    text: text(part, "text").into(),
                }),
                // Signatures are for the one model that gave them: another one refuses them.
                "thinking" => content.push(AssistantContent::Thinking {
                    text: text(part, "thinking").into(),
                    signature: None,
                }),
                "toolCall" => content.push(AssistantContent::ToolCall(ToolCall {
                    id: text(part, "id").into(),
                    name: text(part, "name").into(),
                    arguments: part.get("arguments").cloned().unwrap_or_default(),
                    signature: None,
                })),
                other => self.draft.leave_out(format!("part `{other}`")),
            }
        }
        let calls = content
            .iter()
            .any(|part| matches!(part, AssistantContent::ToolCall(_)));
        let spent = said.get("usage").cloned().unwrap_or_default();
        AssistantMessage {
            content,
            model: model(text(said, "provider"), text(said, "model")),
            usage: usage(&spent, ["input", "output", "cacheRead", "cacheWrite"]),
            stop_reason: stop_reason(text(said, "stopReason"), calls),
            error: said
                .get("errorMessage")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }
}

fn custom_message(entry: &Value) -> Option<NodeBody> {
    let content = entry.get("content")?;
    let said = match content.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let parts = content.as_array()?.iter();
            parts
                .map(|part| text(part, "text"))
                .collect::<Vec<_>>()
                .join("\n")
        }
    };
    Some(NodeBody::Message(synthetic(said)))
}

fn synthetic(text: String) -> Message {
    Message::User(UserMessage {
        content: vec![UserContent::Text { text }],
        synthetic: true,
    })
}
