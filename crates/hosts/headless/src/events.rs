//! What `bezel run --json` writes: one object a line, versioned, published as a JSON Schema.
//!
//! Every line has `v` (the version, 1) and `type`. Within a version fields and types are only added;
//! a reader passes over what it does not know. The last line is always `end`.

use bezel_session_types::{OperationId, SessionId, ThinkingLevel};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The version of the lines.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunLine {
    /// The version of this schema.
    pub v: u32,
    /// What happened.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent {
    /// The session that answers. Always first, unless no session could be had.
    Session {
        /// Its id, for `--session`.
        session_id: SessionId,
        /// Whether it was made for this run.
        created: bool,
        /// The model, as `provider::model`; none where nothing is configured.
        model: Option<String>,
        /// How much the model reasons.
        thinking: ThinkingLevel,
    },
    /// The prompt is on disk.
    Prompt {
        /// The operation that answers it.
        operation_id: OperationId,
    },
    /// A piece of the answer. The pieces of one item and part, joined in order, are its text.
    TextDelta {
        /// The answer's id.
        item: String,
        /// Which part of the answer, from 0.
        part: usize,
        /// What was added.
        text: String,
        /// True when the part begins anew, and what came of it before is void.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarted: bool,
    },
    /// A part of the answer is complete.
    Text {
        /// The answer's id.
        item: String,
        /// Which part of the answer, from 0.
        part: usize,
        /// Its whole text, Markdown.
        text: String,
    },
    /// A part of the model's reasoning is complete.
    Thinking {
        /// The answer's id.
        item: String,
        /// Which part of the answer, from 0.
        part: usize,
        /// Its whole text.
        text: String,
    },
    /// A message entered the conversation that this run did not send.
    Message {
        /// Its id.
        item: String,
        /// Its text.
        text: String,
        /// Whether a plugin wrote it.
        synthetic: bool,
    },
    /// A tool call's arguments are complete.
    ToolStart {
        /// The call's id.
        item: String,
        /// The tool's name.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A tool call ended.
    ToolEnd {
        /// The call's id.
        item: String,
        /// The tool's name.
        tool: String,
        /// How.
        status: ToolEndStatus,
        /// What it said; long output keeps its head and tail.
        output: String,
        /// Whether `output` leaves something out.
        clipped: bool,
        /// What the tool says for renderers; null when nothing.
        details: Value,
        /// The result as data, as the tool's schema has it. Absent where the tool gave none, where the call failed,
        /// and where it was too long to be kept: the file that the output names then has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
    },
    /// The session asks a person, and the run waits for the answer. `bezel session answer` gives it, from
    /// anywhere; its outcome is in the call's `tool_end`.
    Question {
        /// The id of the call that asks, which an answer may name.
        item: String,
        /// The session, which an answer names.
        session_id: SessionId,
        /// The question, Markdown.
        question: String,
        /// What can be chosen, in order; something else can always be written.
        options: Vec<QuestionChoice>,
    },
    /// A call waits for a person's permission, and the run waits with it.
    Permission {
        /// The id of the call that waits.
        item: String,
        /// The session, where it is answered.
        session_id: SessionId,
        /// The tool's name.
        tool: String,
        /// What is asked for, and why.
        asked: Vec<PermissionAsked>,
        /// Whether the run declines it itself, because nobody else can reach the session.
        declined: bool,
    },
    /// What came before was summarised for the model.
    Compaction {
        /// Its id.
        item: String,
        /// The summary, Markdown.
        summary: String,
    },
    /// A model request failed and is tried again.
    Retry {
        /// Which try comes next, from 2.
        attempt: u32,
        /// When, RFC 3339.
        at: String,
        /// What went wrong.
        reason: String,
    },
    /// What the session has used so far, earlier runs included.
    Usage {
        /// Fresh input tokens.
        input: u64,
        /// Output tokens, reasoning included.
        output: u64,
        /// Input tokens read from the provider's cache.
        cache_read: u64,
        /// Input tokens written to the provider's cache.
        cache_write: u64,
        /// The part of `output` spent on reasoning, where told.
        reasoning: u64,
        /// US dollars; none where a price is not known.
        cost: Option<f64>,
        /// Tokens that the last request took of the window.
        context_tokens: u64,
        /// The model's window; 0 when unknown.
        context_window: u64,
        /// Model requests made.
        requests: u64,
    },
    /// Something that a person should know and that did not end the run.
    Warning {
        /// What.
        message: String,
        /// Whether an answer broke off with it: then it may turn out to be what ended the run.
        #[serde(skip)]
        of_answer: bool,
    },
    /// The run is over. Always last.
    End {
        /// How.
        status: EndStatus,
        /// The exit status of `bezel run`.
        exit_status: u8,
        /// The last answer's text, where there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// What went wrong and what to do, where something did.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// One thing that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuestionChoice {
    /// What it is called.
    pub label: String,
    /// What follows from it; none where the label says it.
    pub description: Option<String>,
}

/// One thing that a call needs permission for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PermissionAsked {
    /// What is done: `edit`, `shell` and so on.
    pub action: String,
    /// What it is done to: a path, a command, a URL.
    pub resource: String,
    /// Why it is asked for.
    pub reason: String,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEndStatus {
    /// It succeeded.
    Done,
    /// It failed; the model was told.
    Failed,
    /// It was interrupted.
    Interrupted,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// The agent did all it had to; exit status 0.
    Done,
    /// The turn failed; exit status 1.
    Failed,
    /// The run was asked for wrongly, for example with the id of no session; exit status 2.
    Usage,
    /// There is no model or no key; exit status 3.
    NoModel,
    /// Somebody interrupted it; exit status 130.
    Interrupted,
}

impl EndStatus {
    /// The exit status that stands for it.
    pub fn exit_status(self) -> u8 {
        match self {
            EndStatus::Done => 0,
            EndStatus::Failed => 1,
            EndStatus::Usage => 2,
            EndStatus::NoModel => 3,
            EndStatus::Interrupted => 130,
        }
    }
}

/// The JSON Schema of one line.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<RunLine>()
        .to_value();
    // The order of its keys must not depend on what else is in the build.
    schema.sort_all_objects();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_the_one_that_is_written() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/run-events.schema.json"
        );
        let current = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        if std::env::var_os("BEZEL_BLESS").is_some() {
            std::fs::write(file, &current).unwrap();
        }
        let published = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            published == current,
            "docs/run-events.schema.json is out of date: run this test with BEZEL_BLESS=1"
        );
    }

    #[test]
    fn a_line_names_its_version_and_type_beside_its_fields() {
        let event = RunEvent::TextDelta {
            item: "i".into(),
            part: 0,
            text: "hi".into(),
            restarted: false,
        };
        let line = serde_json::to_string(&RunLine { v: VERSION, event }).unwrap();
        assert_eq!(
            line,
            r#"{"v":1,"type":"text_delta","item":"i","part":0,"text":"hi"}"#
        );
    }
}
