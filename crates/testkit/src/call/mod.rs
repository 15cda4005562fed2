//! A model request as a fake saw it, the same whichever wire format it came in.

mod anthropic;
mod gemini;
mod in_process;
mod ollama;
mod openai_chat;
mod openai_responses;

use serde_json::Value;

/// The wire formats that the fake server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// OpenAI chat completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `streamGenerateContent`.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
}

impl WireFormat {
    /// The four formats that every promise about models is tested over.
    pub const MAIN: [WireFormat; 4] = [
        WireFormat::OpenAiChat,
        WireFormat::OpenAiResponses,
        WireFormat::Anthropic,
        WireFormat::Gemini,
    ];
}

/// A model request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelCall {
    /// The format it came in; none for a request in this process.
    pub format: Option<WireFormat>,
    /// The model that was asked for.
    pub model: String,
    /// Whether a streamed answer was asked for.
    pub stream: bool,
    /// The system prompt, its blocks joined.
    pub system: String,
    /// The conversation.
    pub messages: Vec<SeenMessage>,
    /// The tools.
    pub tools: Vec<CalledTool>,
    /// Whether the model is told to call none of them.
    pub forbids_tools: bool,
    /// How much to reason, as the format says it; `null` when nothing is said.
    pub thinking: Value,
    /// The output limit.
    pub max_output: Option<u64>,
    /// The key that routes to a warm cache.
    pub cache_key: Option<String>,
    /// Where a cache marker stands: `system`, `tools`, `messages[2]`.
    pub cache_markers: Vec<String>,
}

/// A message as a fake saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenMessage {
    /// Who says it.
    pub role: SeenRole,
    /// What it holds.
    pub parts: Vec<SeenPart>,
}

/// Who says a message. Tool results count as the user's, as most formats have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenRole {
    /// The person, or a tool.
    User,
    /// The model.
    Assistant,
}

/// A part of a message as a fake saw it.
#[derive(Debug, Clone, PartialEq)]
pub enum SeenPart {
    /// Text.
    Text(String),
    /// A picture.
    Image {
        /// Its media type.
        media_type: String,
        /// Its base64.
        data: String,
    },
    /// Reasoning that came back.
    Thinking {
        /// The reasoning.
        text: String,
        /// What the model had asked to have back.
        signature: Option<String>,
    },
    /// A tool call that came back.
    ToolCall {
        /// The id; empty where the format has none.
        id: String,
        /// The tool.
        name: String,
        /// The arguments; a string where they are not JSON.
        arguments: Value,
        /// What the model had asked to have back.
        signature: Option<String>,
    },
    /// The result of a call.
    ToolResult {
        /// The call's id; the tool's name where the format has no ids.
        call: String,
        /// The text.
        text: String,
        /// Pictures as media type and base64.
        images: Vec<(String, String)>,
        /// Whether it is marked as failed; `false` where the format cannot say.
        is_error: bool,
    },
}

/// A tool as a fake saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct CalledTool {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its schema.
    pub parameters: Value,
}

impl ModelCall {
    /// Reads a request body; `model` is what the path says.
    pub(crate) fn read(
        format: WireFormat,
        model: Option<&str>,
        stream: bool,
        body: &Value,
    ) -> ModelCall {
        let mut call = match format {
            WireFormat::OpenAiChat => openai_chat::read(body),
            WireFormat::OpenAiResponses => openai_responses::read(body),
            WireFormat::Anthropic => anthropic::read(body),
            WireFormat::Gemini => gemini::read(body),
            WireFormat::Ollama => ollama::read(body),
        };
        call.format = Some(format);
        call.stream = stream;
        call.model = model.map_or_else(|| text(&body["model"]), Into::into);
        call
    }

    /// The last text that the user said, or empty.
    pub fn last_user_text(&self) -> &str {
        let texts = self
            .messages
            .iter()
            .rev()
            .filter(|message| message.role == SeenRole::User);
        let mut parts = texts.flat_map(|message| message.parts.iter().rev());
        parts
            .find_map(|part| match part {
                SeenPart::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// The results of tool calls at the end of the conversation.
    pub fn last_results(&self) -> Vec<&SeenPart> {
        let last = self
            .messages
            .iter()
            .rev()
            .take_while(|message| message.role == SeenRole::User);
        let mut results: Vec<_> = last
            .flat_map(|message| message.parts.iter().rev())
            .filter(|part| matches!(part, SeenPart::ToolResult { .. }))
            .collect();
        results.reverse();
        results
    }

    /// Every part of the conversation, in order.
    pub fn parts(&self) -> impl Iterator<Item = &SeenPart> {
        self.messages.iter().flat_map(|message| &message.parts)
    }

    /// Adds parts to the last message if it has the same role, else as a new one.
    fn say(&mut self, role: SeenRole, parts: Vec<SeenPart>) {
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => self.messages.push(SeenMessage { role, parts }),
        }
    }
}

/// A JSON string, or empty.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

/// A JSON array, or none of it.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Joins pieces of text with newlines.
fn join(pieces: impl IntoIterator<Item = String>) -> String {
    pieces.into_iter().collect::<Vec<_>>().join("\n")
}

/// Arguments that a format carries as text.
fn arguments(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

/// Splits `data:image/png;base64,…`.
fn data_url(url: &str) -> Option<(String, String)> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some((media_type.into(), data.into()))
}
