//! Codex' sessions: a rollout, lines of a time, a type and a payload. What the model got and gave stands in
//! `response_item` lines one by one, without parents; the events beside them repeat it for its own screen.

use std::collections::HashMap;
use std::io::{self, BufRead};

use bezel_session_types::{
    AssistantContent, AssistantMessage, ImageContent, Message, ResultContent, ToolCall,
    UserContent, UserMessage,
};
use serde_json::{Value, json};

use super::draft::{Draft, NodeBody, result};
use super::lines::{Line, Lines, count, image, list, model, stop_reason, text, time, usage};

/// Whether a line is one of such a file.
pub(super) fn is_line(line: &Value) -> bool {
    let known = matches!(
        text(line, "type"),
        "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted"
    );
    known && line.get("payload").is_some_and(Value::is_object)
}

pub(super) fn read(lines: &mut Lines<impl BufRead>) -> io::Result<Draft> {
    let mut reading = Reading::default();
    while let Some(line) = lines.next()? {
        match line {
            Line::Object(line) => reading.line(&line),
            Line::Unreadable => reading.draft.leave_out("unreadable line"),
        }
    }
    reading.close_answer();
    let Reading {
        mut draft, last, ..
    } = reading;
    draft.tip = last;
    Ok(draft)
}

#[derive(Default)]
struct Reading {
    draft: Draft,
    last: Option<usize>,
    provider: String,
    model: String,
    /// Parts of the answer that comes in, and when the first came.
    answer: Vec<AssistantContent>,
    answered_at: Option<i64>,
    /// Of each call's id: its tool.
    tools: HashMap<String, String>,
    /// What came before each of the person's messages on the path.
    turns: Vec<Option<usize>>,
}

impl Reading {
    fn line(&mut self, line: &Value) {
        let at = time(line);
        let Some(payload) = line.get("payload") else {
            self.draft.leave_out("line without a payload");
            return;
        };
        match text(line, "type") {
            "session_meta" => {
                // A session that was forked begins with its own and goes on with the other's.
                let id = text(payload, "id");
                self.draft.origin.get_or_insert_with(|| id.to_owned());
                let directory = text(payload, "cwd");
                self.draft.directory.get_or_insert_with(|| directory.into());
                self.provider = match text(payload, "model_provider") {
                    "" => "openai".to_owned(),
                    provider => provider.to_owned(),
                };
            }
            "turn_context" => self.model = text(payload, "model").to_owned(),
            "compacted" => self.compacted(payload, at),
            "response_item" => self.item(payload, at),
            "event_msg" => self.event(payload),
            other => self.draft.leave_out(format!("line `{other}`")),
        }
    }

    fn event(&mut self, event: &Value) {
        match text(event, "type") {
            "token_count" => self.spent(event),
            "thread_rolled_back" => {
                self.close_answer();
                for _ in 0..count(event, "num_turns").min(self.turns.len() as u64) {
                    self.last = self.turns.pop().flatten();
                }
            }
            // The others repeat what `response_item` lines hold.
            _ => {}
        }
    }

    /// The count comes after what it counts.
    fn spent(&mut self, event: &Value) {
        self.close_answer();
        let total = event.pointer("/info/last_token_usage");
        let (Some(total), Some(last)) = (total, self.last) else {
            return;
        };
        let mut spent = usage(
            total,
            ["input_tokens", "output_tokens", "cached_input_tokens", ""],
        );
        spent.input = spent.input.saturating_sub(spent.cache_read);
        spent.reasoning = count(total, "reasoning_output_tokens");
        let back = std::iter::successors(Some(last), |node| self.draft.nodes[*node].parent);
        let is_answer = |node: &usize| {
            let body = &self.draft.nodes[*node].body;
            matches!(body, NodeBody::Message(Message::Assistant(_)))
        };
        let answer = back.take(64).find(is_answer);
        if let Some(node) = answer
            && let NodeBody::Message(Message::Assistant(answer)) = &mut self.draft.nodes[node].body
        {
            answer.usage = spent;
        }
    }

    fn compacted(&mut self, compacted: &Value, at: Option<i64>) {
        self.close_answer();
        let mut summary = text(compacted, "message").to_owned();
        if summary.is_empty() {
            let kept = list(compacted, "replacement_history").iter();
            let kept = kept.filter(|item| text(item, "type") == "message");
            let texts = kept.flat_map(|item| list(item, "content"));
            let texts: Vec<&str> = texts.map(|part| text(part, "text")).collect();
            summary = texts.join("\n\n");
        }
        let body = NodeBody::Compaction {
            summary,
            first_kept: None,
            tokens_before: 0,
        };
        self.add(at, body);
    }

    fn item(&mut self, item: &Value, at: Option<i64>) {
        match text(item, "type") {
            "message" => match text(item, "role") {
                "user" => self.user(item, at),
                "assistant" => {
                    for part in list(item, "content") {
                        match text(part, "type") {
                            "output_text" | "text" => {
                                let text = text(part, "text").into();
                                self.part(at, AssistantContent::Text { text });
                            }
                            other => self.draft.leave_out(format!("part `{other}`")),
                        }
                    }
                }
                other => self.draft.leave_out(format!("message of `{other}`")),
            },
            "reasoning" => {
                let summary = list(item, "summary").iter().chain(list(item, "content"));
                let texts: Vec<&str> = summary.map(|part| text(part, "text")).collect();
                let text = texts.join("\n\n");
                // What is encrypted is for its own provider alone.
                match text.trim().is_empty() {
                    true => self.draft.leave_out("encrypted reasoning"),
                    false => self.part(
                        at,
                        AssistantContent::Thinking {
                            text,
                            signature: None,
                        },
                    ),
                }
            }
            "function_call" => {
                let written = text(item, "arguments");
                let arguments = serde_json::from_str(written).unwrap_or_else(|_| json!(written));
                self.call(item, at, text(item, "name"), arguments);
            }
            "custom_tool_call" => {
                let input = json!({ "input": text(item, "input") });
                self.call(item, at, text(item, "name"), input);
            }
            "local_shell_call" => {
                let action = item.get("action").cloned().unwrap_or_default();
                let command = action.get("command").cloned().unwrap_or_default();
                self.call(item, at, "local_shell", json!({ "command": command }));
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                self.output(item, at);
            }
            other => self.draft.leave_out(format!("item `{other}`")),
        }
    }

    fn user(&mut self, item: &Value, at: Option<i64>) {
        self.close_answer();
        let mut content = Vec::new();
        for part in list(item, "content") {
            match text(part, "type") {
                "input_text" | "text" => content.push(UserContent::Text {
                    text: text(part, "text").into(),
                }),
                "input_image" => match data_url(text(part, "image_url")) {
                    Some(image) => content.push(UserContent::Image(image)),
                    None => self.draft.leave_out("picture"),
                },
                other => self.draft.leave_out(format!("part `{other}`")),
            }
        }
        let Some(first) = content.first() else { return };
        let synthetic = match first {
            UserContent::Text { text } => is_context(text),
            UserContent::Image(_) => false,
        };
        if !synthetic {
            self.turns.push(self.last);
        }
        let message = Message::User(UserMessage { content, synthetic });
        self.add(at, NodeBody::Message(message));
    }

    fn call(&mut self, item: &Value, at: Option<i64>, name: &str, arguments: Value) {
        let id = match text(item, "call_id") {
            "" => text(item, "id"),
            id => id,
        };
        self.tools.insert(id.to_owned(), name.to_owned());
        self.part(
            at,
            AssistantContent::ToolCall(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments,
                signature: None,
            }),
        );
    }

    fn output(&mut self, item: &Value, at: Option<i64>) {
        self.close_answer();
        let call = text(item, "call_id");
        let tool = self.tools.get(call).cloned().unwrap_or_default();
        let (content, is_error) = self.output_content(item.get("output").unwrap_or(&Value::Null));
        self.add(at, result(call.to_owned(), tool, content, is_error));
    }

    /// Plain text, parts, or text around which older versions wrote an exit status.
    fn output_content(&mut self, output: &Value) -> (Vec<ResultContent>, bool) {
        if let Some(written) = output.as_str() {
            let wrapped: Option<Value> = serde_json::from_str(written).ok();
            let wrapped = wrapped.filter(|value| value.get("metadata").is_some());
            if let Some(inner) = wrapped.as_ref().and_then(|value| value.get("output")) {
                let status = wrapped
                    .as_ref()
                    .and_then(|value| value.pointer("/metadata/exit_code"));
                let failed = status
                    .and_then(Value::as_i64)
                    .is_some_and(|status| status != 0);
                return (self.output_content(inner).0, failed);
            }
            return (vec![ResultContent::text(written)], false);
        }
        if output.is_object() {
            let failed = output.get("success").and_then(Value::as_bool) == Some(false);
            let inner = output.get("content").unwrap_or(&Value::Null);
            return (self.output_content(inner).0, failed);
        }
        let mut content = Vec::new();
        for part in output.as_array().map_or(&[][..], Vec::as_slice) {
            match text(part, "type") {
                "input_text" | "output_text" | "text" => {
                    content.push(ResultContent::text(text(part, "text")));
                }
                "input_image" => match data_url(text(part, "image_url")) {
                    Some(image) => content.push(ResultContent::Image(image)),
                    None => self.draft.leave_out("picture"),
                },
                other => self.draft.leave_out(format!("part `{other}` of a result")),
            }
        }
        (content, false)
    }

    fn part(&mut self, at: Option<i64>, part: AssistantContent) {
        self.answered_at = self.answered_at.or(at);
        self.answer.push(part);
    }

    fn close_answer(&mut self) {
        let content = std::mem::take(&mut self.answer);
        let at = self.answered_at.take();
        if content.is_empty() {
            return;
        }
        let calls = content
            .iter()
            .any(|part| matches!(part, AssistantContent::ToolCall(_)));
        let answer = AssistantMessage {
            content,
            model: model(&self.provider, &self.model),
            usage: usage(&Value::Null, [""; 4]),
            stop_reason: stop_reason("", calls),
            error: None,
        };
        self.add(at, NodeBody::Message(Message::Assistant(answer)));
    }

    fn add(&mut self, at: Option<i64>, body: NodeBody) {
        self.last = Some(self.draft.add(self.last, at, body));
    }
}

/// What Codex itself puts before the first prompt, as if the person had said it.
fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    let begins = [
        "<environment_context>",
        "<user_instructions>",
        "<turn_aborted>",
        "<skill>",
        "# AGENTS.md instructions",
    ];
    begins.iter().any(|begin| text.starts_with(begin))
}

/// A picture that stands in its own address.
fn data_url(address: &str) -> Option<ImageContent> {
    let (media_type, data) = address.strip_prefix("data:")?.split_once(";base64,")?;
    image(media_type, data)
}
