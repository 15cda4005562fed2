//! Messages as the tree keeps them and as a model sees them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InvocationId, ModelRef, Usage};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From the person, or from a plugin on its behalf.
    User(UserMessage),
    /// From the model.
    Assistant(AssistantMessage),
    /// What a tool call came to.
    ToolResult(ToolResultMessage),
}

/// What a person or plugin said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Parts in order; at least one.
    pub content: Vec<UserContent>,
    /// True when a plugin and not a person wrote it (a finished background task, a reminder).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
}

/// One part of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UserContent {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(ImageContent),
}

/// A picture, inline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContent {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Base64 of the file, standard alphabet, padded.
    pub data: String,
}

/// What the model answered in one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    /// Parts in the order in which the model gave them.
    pub content: Vec<AssistantContent>,
    /// Which model it was.
    pub model: ModelRef,
    /// What it cost.
    pub usage: Usage,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// What went wrong: for `error` and `aborted`, and where calls were left out that the answer was not to make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantContent {
    /// Text for the person.
    Text {
        /// Markdown.
        text: String,
    },
    /// The model's reasoning.
    Thinking {
        /// The reasoning, or a summary of it, as far as the provider shows it.
        text: String,
        /// What the provider wants back unchanged with this part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A request to run a tool.
    ToolCall(ToolCall),
}

/// A request to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The provider's id, unique within one answer.
    pub id: String,
    /// The tool's name as the model gave it.
    pub name: String,
    /// The arguments; a JSON string holds text that was not valid JSON, as the model wrote it.
    pub arguments: Value,
    /// What the provider wants back unchanged with this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// What a tool call came to. There is exactly one for every call in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResultMessage {
    /// The provider's id of the call.
    pub call_id: String,
    /// Bezel's id of the call.
    pub invocation_id: InvocationId,
    /// The tool's name.
    pub tool: String,
    /// What the model reads.
    pub content: Vec<ResultContent>,
    /// The result as data, for programs and renderers; it matches the schema that the tool declares. Absent where
    /// the tool gave none, where the call failed, and where it was too long: the whole is then in the file that
    /// the content names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// For renderers; the model never sees it. `null` when there is none.
    #[serde(default)]
    pub details: Value,
    /// True when the call failed.
    #[serde(default)]
    pub is_error: bool,
}

/// One part of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultContent {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(ImageContent),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said all.
    Stop,
    /// It asks for tools.
    ToolUse,
    /// It reached its output limit.
    Length,
    /// The provider refused or filtered.
    Refusal,
    /// The request failed.
    Error,
    /// Somebody interrupted it.
    Aborted,
}

impl ImageContent {
    /// Bytes that a picture for a model may have, decoded: what providers take.
    pub const MAX_BYTES: usize = 5 * 1024 * 1024;

    /// The media type of a picture's file by its first bytes; `None` for what no model takes.
    pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
            [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
            [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, rest @ ..] if rest.starts_with(b"WEBP") => {
                Some("image/webp")
            }
            _ => None,
        }
    }
}

impl UserMessage {
    /// A message of one text part, from a person.
    pub fn text(text: impl Into<String>) -> Self {
        UserMessage {
            content: vec![UserContent::Text { text: text.into() }],
            synthetic: false,
        }
    }

    /// The text parts, joined by newlines.
    pub fn to_text(&self) -> String {
        let parts = self.content.iter().filter_map(|part| match part {
            UserContent::Text { text } => Some(text.as_str()),
            UserContent::Image(_) => None,
        });
        parts.collect::<Vec<_>>().join("\n")
    }
}

impl AssistantMessage {
    /// The text parts, joined.
    pub fn to_text(&self) -> String {
        let parts = self.content.iter().filter_map(|part| match part {
            AssistantContent::Text { text } => Some(text.as_str()),
            _ => None,
        });
        parts.collect()
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            AssistantContent::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

impl ResultContent {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        ResultContent::Text { text: text.into() }
    }
}
