//! The four wire formats that are spoken here and not through genai: see
//! `docs/design/0002-models-over-genai.md`. Each has what goes out in `request` and what comes in in
//! `decode`.

pub(crate) mod anthropic;
pub(crate) mod call_id;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod responses;
mod tools;

#[cfg(test)]
mod request_tests;

use std::borrow::Cow;

use bezel_session_types::{
    AssistantMessage, ImageContent, Message, ModelRequest, ResultContent, ThinkingLevel,
    ToolChoice, ToolResultMessage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::thinking::Steering;

pub(crate) use tools::WrittenTools;

/// A request on its way out.
pub(crate) struct Outgoing<'a> {
    pub(crate) request: &'a ModelRequest,
    /// What the model can be told about its reasoning.
    pub(crate) steering: Steering,
    /// Output limit of the model, where known.
    pub(crate) max_output: Option<u64>,
    /// Whether it goes to the kind's own endpoint.
    pub(crate) official: bool,
    /// What was written of the tools for the request before.
    pub(crate) tools: &'a WrittenTools,
}

impl Outgoing<'_> {
    pub(crate) fn model_id(&self) -> &str {
        &self.request.model.model_id
    }

    pub(crate) fn level(&self) -> ThinkingLevel {
        self.request.options.thinking
    }

    /// Whether the model has to be told to call none of the tools that it is told of.
    pub(crate) fn forbids_tools(&self) -> bool {
        self.request.options.tool_choice == ToolChoice::None && !self.request.tools.is_empty()
    }

    /// Whether the same model wrote `message`: only then does its provider take its reasoning back.
    pub(crate) fn is_own(&self, message: &AssistantMessage) -> bool {
        message.model == self.request.model
    }

    /// The conversation without answers that hold nothing.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.request
            .messages
            .iter()
            .map(|message| &**message)
            .filter(|message| match message {
                Message::Assistant(assistant) => !assistant.content.is_empty(),
                _ => true,
            })
    }
}

/// A JSON string, borrowed from the event where it has no escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A JSON array that has been written before, and is sent as it stands.
pub(crate) fn raw_array(text: &str) -> Option<&RawValue> {
    if !text.starts_with('[') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The text of a tool result, its parts joined.
pub(crate) fn result_text(result: &ToolResultMessage) -> Cow<'_, str> {
    let mut texts = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(first), Some(second)) => Cow::Owned(
            [first, second]
                .into_iter()
                .chain(texts)
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    }
}

/// The pictures of a tool result.
pub(crate) fn result_images(result: &ToolResultMessage) -> impl Iterator<Item = &ImageContent> {
    result.content.iter().filter_map(|part| match part {
        ResultContent::Text { .. } => None,
        ResultContent::Image(image) => Some(image),
    })
}

/// A picture as a `data:` URL.
pub(crate) fn data_url(image: &ImageContent) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// Arguments as the text that OpenAI's formats want: always JSON, because servers parse it.
pub(crate) fn argument_text(arguments: &Value) -> String {
    match arguments {
        Value::String(broken) => serde_json::json!({ "invalid_json": broken }).to_string(),
        other => other.to_string(),
    }
}
