//! A provider per format, and what an answer comes to.

use std::sync::Arc;

use bezel_context::Context;
use bezel_providers_session::{KeySource, ModelConfig, ProviderConfig, ProviderKind, provider};
use bezel_session_types::{
    AssistantContent, AssistantMessage, Message, ModelEvent, ModelRequest, Provider, ProviderError,
    RequestOptions, StopReason, ToolCall, ToolDefinition, ToolResultMessage, Usage, UserMessage,
};
use bezel_testkit::{FakeModelServer, Script, WireFormat};
use futures::StreamExt;
use serde_json::json;

pub const KEY: &str = "secret-key";

pub fn kind(format: WireFormat) -> ProviderKind {
    match format {
        WireFormat::OpenAiChat => ProviderKind::OpenAi,
        WireFormat::OpenAiResponses => ProviderKind::OpenAiResponses,
        WireFormat::Anthropic => ProviderKind::Anthropic,
        WireFormat::Gemini => ProviderKind::Gemini,
        WireFormat::Ollama => ProviderKind::Ollama,
    }
}

/// A configuration whose model `m` reasons, at `base_url`.
pub fn config(format: WireFormat, base_url: &str) -> ProviderConfig {
    let mut config = ProviderConfig::of_kind("fake", kind(format));
    config.base_url = Some(base_url.into());
    config.api_key_env = Some("FAKE_KEY".into());
    config.models.push(ModelConfig {
        id: "m".into(),
        reasoning: Some(true),
        ..ModelConfig::default()
    });
    config
}

pub fn keys() -> KeySource {
    KeySource::new([("FAKE_KEY", KEY)])
}

pub async fn serve(
    script: impl Into<Script>,
    format: WireFormat,
) -> (FakeModelServer, Arc<dyn Provider>) {
    let server = FakeModelServer::start(script).await.unwrap();
    let config = config(format, &server.base_url(format));
    (server, provider(config, keys()).unwrap())
}

pub fn request(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    let parameters = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = |name: &str| ToolDefinition {
        name: name.into(),
        description: format!("runs {name}").into(),
        parameters: Arc::new(parameters.clone()),
    };
    ModelRequest {
        model: "fake::m".parse().unwrap(),
        system: "be brief".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: [tool("read"), tool("bash")].into(),
        options: RequestOptions::default(),
    }
}

pub fn user(text: &str) -> Message {
    Message::User(UserMessage::text(text))
}

/// An answer put together from its events, as the harness does it.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    pub content: Vec<AssistantContent>,
    pub end: Option<(StopReason, Usage)>,
    pub announced: Vec<(usize, String)>,
    pub argument_text: Vec<String>,
}

impl Answer {
    pub fn text(&self) -> String {
        self.message().to_text()
    }

    pub fn calls(&self) -> Vec<ToolCall> {
        self.message().tool_calls().cloned().collect()
    }

    pub fn thinking(&self) -> Vec<(String, Option<String>)> {
        let parts = self.content.iter().filter_map(|part| match part {
            AssistantContent::Thinking { text, signature } => {
                Some((text.clone(), signature.clone()))
            }
            _ => None,
        });
        parts.collect()
    }

    pub fn stop_reason(&self) -> StopReason {
        self.end.unwrap().0
    }

    pub fn usage(&self) -> Usage {
        self.end.unwrap().1
    }

    pub fn message(&self) -> AssistantMessage {
        AssistantMessage {
            content: self.content.clone(),
            model: "fake::m".parse().unwrap(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error: None,
        }
    }

    fn take(&mut self, event: ModelEvent) {
        assert!(self.end.is_none(), "{event:?} after the end");
        match event {
            ModelEvent::Text(piece) => match self.content.last_mut() {
                Some(AssistantContent::Text { text }) => text.push_str(&piece),
                _ => self.content.push(AssistantContent::Text { text: piece }),
            },
            ModelEvent::Thinking(piece) => match self.content.last_mut() {
                Some(AssistantContent::Thinking {
                    text,
                    signature: None,
                }) => text.push_str(&piece),
                _ => self.content.push(AssistantContent::Thinking {
                    text: piece,
                    signature: None,
                }),
            },
            ModelEvent::ThinkingSignature(value) => match self.content.last_mut() {
                Some(AssistantContent::Thinking { signature, .. }) => *signature = Some(value),
                other => panic!("a signature after {other:?}"),
            },
            ModelEvent::ToolCallStart { index, name, .. } => {
                assert_eq!(index, self.announced.len(), "calls are announced in order");
                self.announced.push((index, name));
                self.argument_text.push(String::new());
            }
            ModelEvent::ToolCallDelta { index, arguments } => {
                self.argument_text[index].push_str(&arguments)
            }
            ModelEvent::ToolCall(call) => self.content.push(AssistantContent::ToolCall(call)),
            ModelEvent::End { stop_reason, usage } => self.end = Some((stop_reason, usage)),
        }
    }
}

/// The whole answer.
pub async fn ask(
    provider: &Arc<dyn Provider>,
    request: ModelRequest,
) -> Result<Answer, ProviderError> {
    let (answer, outcome) = ask_in_part(provider, request).await;
    outcome.map(|()| answer)
}

/// What of the answer came, and whether it ended well.
pub async fn ask_in_part(
    provider: &Arc<dyn Provider>,
    request: ModelRequest,
) -> (Answer, Result<(), ProviderError>) {
    let mut answer = Answer::default();
    let mut stream = match provider.stream(&Context::background(), request).await {
        Ok(stream) => stream,
        Err(error) => return (answer, Err(error)),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => answer.take(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (answer, Err(error));
            }
        }
    }
    assert!(
        answer.end.is_some(),
        "an answer ends with its end or an error"
    );
    (answer, Ok(()))
}

pub fn result(call: &ToolCall, text: &str) -> ToolResultMessage {
    ToolResultMessage {
        call_id: call.id.clone(),
        invocation_id: bezel_session_types::InvocationId::generate(),
        tool: call.name.clone(),
        content: vec![bezel_session_types::ResultContent::text(text)],
        structured: None,
        details: serde_json::Value::Null,
        is_error: false,
    }
}

/// The address of a port that nobody listens on.
pub fn nobody() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
