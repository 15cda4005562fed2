//! What a model provider is to the harness.

use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, ModelRef, StopReason, ThinkingLevel, ToolCall, Usage};

/// Something that answers model requests. One per configured provider.
pub trait Provider: Send + Sync {
    /// Sends `request` and streams the answer. Dropping the stream, or ending `cx`, closes the request.
    /// It makes one attempt: retrying is the caller's.
    fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>>;
}

/// The events of one answer, ending with [`ModelEvent::End`] or an error.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ProviderError>>;

/// One request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Which model.
    pub model: ModelRef,
    /// The system prompt; may be empty.
    pub system: Arc<str>,
    /// The conversation. Every tool call in it has its result.
    pub messages: Arc<[Arc<Message>]>,
    /// The tools that may be called.
    pub tools: Arc<[ToolDefinition]>,
    /// How to answer.
    pub options: RequestOptions,
}

/// How to answer a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestOptions {
    /// How much to reason.
    pub thinking: ThinkingLevel,
    /// Output limit in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Stable key of the conversation, for providers that route by it to a warm cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<Arc<str>>,
    /// Whether tools may be called.
    #[serde(default)]
    pub tool_choice: ToolChoice,
}

/// Whether an answer may call tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It is to answer in text. It is told of the tools all the same, so that what a provider keeps of the request
    /// serves again; a call that it makes nonetheless is not run.
    None,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDefinition {
    /// The name to call it by.
    pub name: Arc<str>,
    /// What it does and when to use it.
    pub description: Arc<str>,
    /// JSON Schema of its arguments, an object.
    pub parameters: Arc<Value>,
}

/// One event of an answer. Parts come in order; a part ends when another begins.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More answer text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// The signature of the reasoning part that just ended.
    ThinkingSignature(String),
    /// A tool call has begun: its place among the calls of this answer, and its name. For display.
    ToolCallStart {
        /// Place among this answer's calls, from 0.
        index: usize,
        /// The provider's id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments, as raw JSON text. For display.
    ToolCallDelta {
        /// Place among this answer's calls.
        index: usize,
        /// Raw JSON text.
        arguments: String,
    },
    /// A complete tool call. Only these count.
    ToolCall(ToolCall),
    /// The answer ended.
    End {
        /// Why.
        stop_reason: StopReason,
        /// What it cost.
        usage: Usage,
    },
}

/// A model request that failed, and whether it is worth another try.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What kind of failure.
    pub kind: ProviderErrorKind,
    /// For a person: what was attempted, on what, and what to do.
    pub message: String,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// Kinds of failed model requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// No key, or a wrong one.
    Authentication,
    /// The model does not exist there.
    UnknownModel,
    /// The request was refused as wrong.
    InvalidRequest,
    /// The conversation does not fit the model.
    ContextOverflow,
    /// Too many requests.
    RateLimited,
    /// The provider is down or overloaded.
    Overloaded,
    /// The endpoint could not be reached.
    Unreachable,
    /// The stream broke off.
    Interrupted,
    /// The stream was not what the protocol says.
    Malformed,
    /// The caller ended the request.
    Cancelled,
}

impl ProviderErrorKind {
    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            ProviderErrorKind::RateLimited
                | ProviderErrorKind::Overloaded
                | ProviderErrorKind::Unreachable
                | ProviderErrorKind::Interrupted
                | ProviderErrorKind::Malformed
        )
    }
}
