//! Claude Code's sessions: JSON lines that name what they follow. One answer is spread over several lines,
//! a part each; results of calls that were made together follow the line of their own call.

use std::collections::HashMap;
use std::io::{self, BufRead};

use bezel_session_types::{
    AssistantContent, AssistantMessage, Message, ResultContent, StopReason, ToolCall, UserContent,
    UserMessage,
};
use serde_json::Value;

use super::draft::{Draft, NodeBody, result};
use super::lines::{Line, Lines, flag, image, list, model, stop_reason, text, time, usage};

/// Lines that hold nothing of the conversation.
const ASIDE: &[&str] = &[
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "last-prompt",
    "mode",
    "permission-mode",
];

/// Whether a line is one of such a file.
pub(super) fn is_line(line: &Value) -> bool {
    let of_session = line.get("sessionId").is_some() && line.get("payload").is_none();
    match text(line, "type") {
        "user" | "assistant" | "system" => line.get("uuid").is_some() && of_session,
        "summary" => line.get("leafUuid").is_some(),
        "file-history-snapshot" => line.get("snapshot").is_some(),
        kind => of_session && (ASIDE.contains(&kind) || line.get("uuid").is_some()),
    }
}

pub(super) fn read(lines: &mut Lines<impl BufRead>) -> io::Result<Draft> {
    let mut reading = Reading::default();
    while let Some(line) = lines.next()? {
        match line {
            Line::Object(line) => reading.line(&line),
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
    /// The node that stands for each line: its own, or the one before where it has none.
    nodes: HashMap<String, Option<usize>>,
    /// The answer with each of the provider's message ids.
    answers: HashMap<String, usize>,
    /// Of each call's id: its answer and its tool.
    calls: HashMap<String, (usize, String)>,
    /// Of each answer with calls: the last of its results so far, or itself.
    ends: HashMap<usize, usize>,
    /// Of each result: its answer.
    results: HashMap<usize, usize>,
    last: Option<usize>,
}

impl Reading {
    fn line(&mut self, line: &Value) {
        if let Some(session) = line.get("sessionId").and_then(Value::as_str) {
            self.draft.origin.get_or_insert_with(|| session.to_owned());
        }
        if let Some(directory) = line.get("cwd").and_then(Value::as_str) {
            self.draft.directory.get_or_insert_with(|| directory.into());
        }
        match text(line, "type") {
            "summary" => self.draft.title = text(line, "summary").to_owned(),
            "ai-title" => self.draft.title = text(line, "aiTitle").to_owned(),
            "custom-title" => self.draft.title = text(line, "customTitle").to_owned(),
            _ if flag(line, "isSidechain") => self.draft.leave_out("line of a subagent"),
            "user" | "assistant" => self.said(line),
            kind if ASIDE.contains(&kind) => self.pass(line),
            kind => {
                self.draft.leave_out(format!("line `{kind}`"));
                self.pass(line);
            }
        }
    }

    /// What follows this line follows what it follows itself.
    fn pass(&mut self, line: &Value) {
        let follows = self.follows(line);
        if let Some(id) = line.get("uuid").and_then(Value::as_str) {
            self.nodes.insert(id.to_owned(), follows);
        }
    }

    fn follows(&self, line: &Value) -> Option<usize> {
        let named = |member| line.get(member).and_then(Value::as_str);
        // A compaction begins a new chain and says here what it stands for.
        let parent = named("parentUuid").or_else(|| named("logicalParentUuid"))?;
        match self.nodes.get(parent) {
            Some(node) => node.map(|node| self.end_of(node)),
            // Its line was lost.
            None => self.last,
        }
    }

    /// Whatever follows one of an answer's results follows all of them.
    fn end_of(&self, node: usize) -> usize {
        let answer = self.results.get(&node);
        answer
            .and_then(|answer| self.ends.get(answer))
            .copied()
            .unwrap_or(node)
    }

    fn said(&mut self, line: &Value) {
        let Some(message) = line.get("message") else {
            self.draft.leave_out("line without a message");
            return self.pass(line);
        };
        let follows = self.follows(line);
        let node = match text(line, "type") {
            "assistant" => self.answer(line, message, follows),
            _ if flag(line, "isCompactSummary") => {
                let summary = plain_text(message);
                let body = NodeBody::Compaction {
                    summary,
                    first_kept: None,
                    tokens_before: 0,
                };
                Some(self.draft.add(follows, time(line), body))
            }
            _ => self.user(line, message, follows),
        };
        if let Some(id) = line.get("uuid").and_then(Value::as_str) {
            self.nodes.insert(id.to_owned(), node);
        }
        self.last = node.map(|node| self.end_of(node)).or(self.last);
    }

    fn answer(&mut self, line: &Value, said: &Value, follows: Option<usize>) -> Option<usize> {
        let parts = self.answer_parts(said);
        let id = text(said, "id");
        let known = self.answers.get(id).copied().filter(|known| {
            let before = follows.and_then(|node| self.results.get(&node).copied().or(Some(node)));
            before == Some(*known)
        });
        let node = match known {
            Some(known) => {
                if let NodeBody::Message(Message::Assistant(answer)) =
                    &mut self.draft.nodes[known].body
                {
                    answer.content.extend(parts);
                    settle(answer, said);
                }
                known
            }
            None => {
                let failed = flag(line, "isApiErrorMessage");
                let mut answer = AssistantMessage {
                    content: parts,
                    model: model("anthropic", text(said, "model")),
                    usage: usage(&Value::Null, [""; 4]),
                    stop_reason: StopReason::Stop,
                    error: None,
                };
                settle(&mut answer, said);
                if failed {
                    answer.stop_reason = StopReason::Error;
                    answer.error = Some(answer.to_text());
                }
                let body = NodeBody::Message(Message::Assistant(answer));
                let node = self.draft.add(follows, time(line), body);
                if !id.is_empty() {
                    self.answers.insert(id.to_owned(), node);
                }
                node
            }
        };
        if let NodeBody::Message(Message::Assistant(answer)) = &self.draft.nodes[node].body {
            for call in answer.tool_calls() {
                self.calls
                    .insert(call.id.clone(), (node, call.name.clone()));
                self.ends.entry(node).or_insert(node);
            }
        }
        Some(node)
    }

    fn answer_parts(&mut self, said: &Value) -> Vec<AssistantContent> {
        if let Some(text) = said.get("content").and_then(Value::as_str) {
            return vec![AssistantContent::Text { text: text.into() }];
        }
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
                "tool_use" => content.push(AssistantContent::ToolCall(ToolCall {
                    id: text(part, "id").into(),
                    name: text(part, "name").into(),
                    arguments: part.get("input").cloned().unwrap_or_default(),
                    signature: None,
                })),
                other => self.draft.leave_out(format!("part `{other}`")),
            }
        }
        content
    }

    /// A line of the person's holds what was said, or results, or both. The results come first.
    fn user(&mut self, line: &Value, said: &Value, follows: Option<usize>) -> Option<usize> {
        let mut last = follows;
        let mut content = Vec::new();
        if let Some(text) = said.get("content").and_then(Value::as_str) {
            content.push(UserContent::Text { text: text.into() });
        }
        for part in list(said, "content") {
            match text(part, "type") {
                "text" => content.push(UserContent::Text {
                    text: text(part, "text").into(),
                }),
                "image" => content.extend(self.picture(part).map(UserContent::Image)),
                "tool_result" => last = self.result(line, part, last),
                other => self.draft.leave_out(format!("part `{other}`")),
            }
        }
        if content.is_empty() {
            return last;
        }
        let synthetic = flag(line, "isMeta") || flag(line, "isVisibleInTranscriptOnly");
        let body = NodeBody::Message(Message::User(UserMessage { content, synthetic }));
        Some(self.draft.add(last, time(line), body))
    }

    fn result(&mut self, line: &Value, part: &Value, follows: Option<usize>) -> Option<usize> {
        let call = text(part, "tool_use_id");
        let Some((answer, tool)) = self.calls.get(call).cloned() else {
            self.draft.leave_out("result without a call");
            return follows;
        };
        let mut content = Vec::new();
        if let Some(text) = part.get("content").and_then(Value::as_str) {
            content.push(ResultContent::text(text));
        }
        for piece in list(part, "content") {
            match text(piece, "type") {
                "text" => content.push(ResultContent::text(text(piece, "text"))),
                "image" => content.extend(self.picture(piece).map(ResultContent::Image)),
                other => self.draft.leave_out(format!("part `{other}` of a result")),
            }
        }
        let parent = self.ends.get(&answer).copied();
        let body = result(call.into(), tool, content, flag(part, "is_error"));
        let node = self.draft.add(parent.or(follows), time(line), body);
        self.ends.insert(answer, node);
        self.results.insert(node, answer);
        Some(node)
    }

    fn picture(&mut self, part: &Value) -> Option<bezel_session_types::ImageContent> {
        let source = part.get("source").cloned().unwrap_or_default();
        let picture = image(text(&source, "media_type"), text(&source, "data"));
        if picture.is_none() {
            self.draft.leave_out("picture");
        }
        picture
    }
}

/// What a later line of the same answer says of the whole.
fn settle(answer: &mut AssistantMessage, said: &Value) {
    let spent = said.get("usage").cloned().unwrap_or_default();
    answer.usage = usage(
        &spent,
        [
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ],
    );
    let calls = answer.tool_calls().next().is_some();
    answer.stop_reason = stop_reason(text(said, "stop_reason"), calls);
}

fn plain_text(said: &Value) -> String {
    if let Some(text) = said.get("content").and_then(Value::as_str) {
        return text.to_owned();
    }
    let parts = list(said, "content").iter().map(|part| text(part, "text"));
    parts.collect::<Vec<_>>().join("\n")
}
