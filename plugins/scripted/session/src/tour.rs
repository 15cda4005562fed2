//! What the tour says next: a pure function of the conversation.

use std::path::Path;

use bezel_session_types::{
    AssistantContent, Message, ModelRequest, ToolDefinition, ToolResultMessage,
};
use serde_json::{Value, json};

use crate::reply;
use crate::words;

/// One part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Markdown for the person.
    Text(String),
    /// A call of one of the session's tools.
    Call {
        /// The tool.
        name: &'static str,
        /// Its arguments.
        arguments: Value,
    },
}

/// A call of this turn and what it came to.
struct Done<'a> {
    name: &'a str,
    result: &'a ToolResultMessage,
}

/// Whom the tour is played for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audience {
    /// Whether somebody can say something to it.
    pub answers: bool,
    /// Whether `bezel` can be started by its name.
    pub installed: bool,
}

impl Default for Audience {
    fn default() -> Self {
        Audience {
            answers: true,
            installed: true,
        }
    }
}

/// The turn so far, for whoever decides what comes next.
pub(crate) struct Turn<'a> {
    tools: &'a [ToolDefinition],
    /// Absolute, or relative to the session's directory.
    scratch: &'a Path,
    pub(crate) audience: Audience,
    /// What the person said last.
    pub(crate) prompt: String,
    done: Vec<Done<'a>>,
    /// Whether an earlier turn was answered.
    pub(crate) later: bool,
}

/// The next answer to `request`. Files are made in `scratch`, which is absolute or relative to the session's
/// directory.
pub fn answer(request: &ModelRequest, scratch: &Path, audience: Audience) -> Vec<Part> {
    let turn = Turn::read(request, scratch, audience);
    if turn.later && turn.done.is_empty() && !reply::asks_for_tour(&turn.prompt) {
        return vec![Part::Text(reply::reply(&turn))];
    }
    turn.tour()
}

impl<'a> Turn<'a> {
    fn read(request: &'a ModelRequest, scratch: &'a Path, audience: Audience) -> Self {
        let messages: Vec<&Message> = request.messages.iter().map(|shared| &**shared).collect();
        let asked = messages
            .iter()
            .rposition(|message| matches!(message, Message::User(_)));
        let (before, since) = messages.split_at(asked.unwrap_or_default());
        let prompt = match since.first() {
            Some(Message::User(user)) => user.to_text(),
            _ => String::new(),
        };
        let mut turn = Turn {
            tools: &request.tools,
            scratch,
            audience,
            prompt,
            done: Vec::new(),
            later: false,
        };
        turn.later = before
            .iter()
            .any(|message| matches!(message, Message::Assistant(_)));
        let calls = since.iter().filter_map(|message| match message {
            Message::Assistant(assistant) => Some(&assistant.content),
            _ => None,
        });
        for part in calls.flatten() {
            let AssistantContent::ToolCall(call) = part else {
                continue;
            };
            let results = since.iter().filter_map(|message| match message {
                Message::ToolResult(result) if result.call_id == call.id => Some(result),
                _ => None,
            });
            turn.done.extend(results.map(|result| Done {
                name: &call.name,
                result,
            }));
        }
        turn
    }

    /// The calls of a tool in this turn, those that failed left out.
    fn worked(&self, tool: &str) -> usize {
        self.done
            .iter()
            .filter(|done| done.name == tool && !done.result.is_error)
            .count()
    }

    fn tried(&self, tool: &str) -> usize {
        self.done.iter().filter(|done| done.name == tool).count()
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.iter().any(|known| &*known.name == tool)
    }

    /// What the last call of a tool printed, its first lines.
    pub(crate) fn output(&self, tool: &str) -> Option<String> {
        let done = self.done.iter().rev().find(|done| done.name == tool)?;
        let texts = done.result.content.iter().filter_map(|part| match part {
            bezel_session_types::ResultContent::Text { text } => Some(text.as_str()),
            bezel_session_types::ResultContent::Image(_) => None,
        });
        let lines: Vec<_> = texts
            .flat_map(str::lines)
            .filter(|line| !line.trim().is_empty())
            .take(6)
            .collect();
        Some(lines.join("\n"))
    }

    fn tour(&self) -> Vec<Part> {
        if !self.has("write") || !self.has("bash") {
            return vec![Part::Text(words::without_tools(self.audience))];
        }
        if self.done.is_empty() {
            return self.step(words::GREETING, [self.todo(0), Some(self.write())]);
        }
        if self.worked("write") == 0 {
            let said = self.output("write").unwrap_or_default();
            return match (self.tried("write"), self.tried("read")) {
                _ if said.contains("plan mode") => {
                    vec![Part::Text(words::plan_mode(&said, self.audience))]
                }
                // A file of an earlier tour: nothing is overwritten unread.
                (1, 0) if self.has("read") && said.contains("not read it") => {
                    self.step(words::FOUND_A_FILE, [Some(self.read_file())])
                }
                (1, 1) => self.step(words::WRITE_AGAIN, [Some(self.write())]),
                _ => vec![Part::Text(words::trouble(&said, self.audience))],
            };
        }
        if self.tried("bash") == 0 {
            let read = self.has("read").then(|| self.read_file());
            return self.step(words::READ_AND_RUN, [read, Some(self.run())]);
        }
        if self.has("edit") && self.tried("edit") == 0 {
            return self.step(words::CHANGE_IT, [Some(self.edit())]);
        }
        if self.worked("edit") > 0 && self.tried("bash") == 1 {
            return self.step(words::RUN_AGAIN, [Some(self.run()), self.todo(3)]);
        }
        let printed = self.output("bash").unwrap_or_default();
        vec![Part::Text(words::summary(
            &self.file(),
            &printed,
            self.worked("edit") > 0,
            self.audience,
        ))]
    }

    fn step<const N: usize>(&self, text: &str, calls: [Option<Part>; N]) -> Vec<Part> {
        std::iter::once(Part::Text(text.into()))
            .chain(calls.into_iter().flatten())
            .collect()
    }

    fn file(&self) -> String {
        self.scratch.join("greet.sh").display().to_string()
    }

    fn write(&self) -> Part {
        Part::Call {
            name: "write",
            arguments: json!({ "path": self.file(), "content": words::PROGRAM }),
        }
    }

    fn read_file(&self) -> Part {
        Part::Call {
            name: "read",
            arguments: json!({ "path": self.file() }),
        }
    }

    fn edit(&self) -> Part {
        let edit = json!({ "old_text": words::OLD_LINE, "new_text": words::NEW_LINE });
        Part::Call {
            name: "edit",
            arguments: json!({ "path": self.file(), "edits": [edit] }),
        }
    }

    fn run(&self) -> Part {
        let directory = self.scratch.display().to_string();
        let command = format!("cd {} && sh greet.sh Ada", shell_words::quote(&directory));
        Part::Call {
            name: "bash",
            arguments: json!({ "command": command, "description": "Run the greeting" }),
        }
    }

    /// The list of steps, the first `completed` of them done.
    fn todo(&self, completed: usize) -> Option<Part> {
        let items = words::STEPS.iter().enumerate().map(|(index, content)| {
            let status = match index {
                _ if index < completed => "completed",
                _ if index == completed => "in_progress",
                _ => "pending",
            };
            json!({ "content": content, "status": status })
        });
        let arguments = json!({ "items": items.collect::<Vec<_>>() });
        self.has("todo").then_some(Part::Call {
            name: "todo",
            arguments,
        })
    }
}
