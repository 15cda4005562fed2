//! A request in genai's words.

use std::time::Duration;

use bezel_session_types::{
    AssistantContent, AssistantMessage, ImageContent, Message, ModelRequest, ThinkingLevel,
    ToolChoice, UserContent,
};
use genai::Headers;
use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatOptions, ChatRequest, ContentPart, MessageContent,
    ReasoningEffort, Tool, ToolCall, ToolResponse,
};

use crate::config::ProviderConfig;
use crate::wire::{result_images, result_text};

pub(super) fn write(
    config: &ProviderConfig,
    request: &ModelRequest,
    idle_timeout: Duration,
) -> (ChatRequest, ChatOptions) {
    let tools = request.tools.iter().map(|tool| {
        Tool::new(tool.name.to_string())
            .with_description(tool.description.to_string())
            .with_schema(tool.parameters.as_ref().clone())
    });
    let mut chat = ChatRequest::from_messages(messages(request)).with_tools(tools);
    if !request.system.is_empty() {
        chat = chat.with_system(request.system.to_string());
    }
    if request.tools.is_empty() {
        chat.tools = None;
    }
    let options = &request.options;
    // Said even when off: genai reads an effort out of a model's name else.
    let effort = match options.thinking {
        ThinkingLevel::Off => ReasoningEffort::Zero,
        ThinkingLevel::Low => ReasoningEffort::Low,
        ThinkingLevel::Medium => ReasoningEffort::Medium,
        ThinkingLevel::High => ReasoningEffort::High,
    };
    let mut chat_options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_reasoning_content(true)
        .with_capture_tool_calls(true)
        .with_reasoning_effort(effort)
        .with_stream_header_timeout(idle_timeout)
        .with_stream_read_timeout(idle_timeout);
    if options.tool_choice == ToolChoice::None && !request.tools.is_empty() {
        chat_options = chat_options.with_tool_choice(genai::chat::ToolChoice::None);
    }
    if request.model.model_id.contains("claude") {
        chat_options = chat_options.with_cache_control(CacheControl::Ephemeral);
    }
    if let Some(limit) = options.max_output {
        chat_options = chat_options.with_max_tokens(u32::try_from(limit).unwrap_or(u32::MAX));
    }
    if !config.headers.is_empty() {
        let headers = config
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        chat_options = chat_options.with_extra_headers(Headers::from(headers.collect::<Vec<_>>()));
    }
    (chat, chat_options)
}

fn messages(request: &ModelRequest) -> Vec<ChatMessage> {
    let mut messages = Vec::with_capacity(request.messages.len());
    // A tool's response holds text alone: its pictures follow the results as the user's.
    let mut pictures = Vec::new();
    for message in request.messages.iter().map(|message| &**message) {
        if !matches!(message, Message::ToolResult(_)) {
            show(&mut messages, &mut pictures);
        }
        match message {
            Message::User(user) => {
                let parts = user.content.iter().map(|part| match part {
                    UserContent::Text { text } => ContentPart::from_text(text),
                    UserContent::Image(image) => picture(image),
                });
                messages.push(ChatMessage::user(MessageContent::from_parts(
                    parts.collect::<Vec<_>>(),
                )));
            }
            Message::Assistant(answer) => {
                let parts = assistant(answer, answer.model == request.model);
                if !parts.is_empty() {
                    messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
            }
            Message::ToolResult(result) => {
                pictures.extend(result_images(result).map(picture));
                let response = ToolResponse::new(&result.call_id, result_text(result))
                    .with_fn_name(&result.tool);
                messages.push(ChatMessage::from(response));
            }
        }
    }
    show(&mut messages, &mut pictures);
    messages
}

fn show(messages: &mut Vec<ChatMessage>, pictures: &mut Vec<ContentPart>) {
    if !pictures.is_empty() {
        messages.push(ChatMessage::user(MessageContent::from_parts(
            std::mem::take(pictures),
        )));
    }
}

fn picture(image: &ImageContent) -> ContentPart {
    ContentPart::Binary(Binary::from_base64(
        &image.media_type,
        image.data.as_str(),
        None,
    ))
}

fn assistant(answer: &AssistantMessage, own: bool) -> Vec<ContentPart> {
    let mut parts = Vec::new();
    for part in &answer.content {
        match part {
            AssistantContent::Text { text } if text.is_empty() => {}
            AssistantContent::Text { text } => parts.push(ContentPart::from_text(text)),
            AssistantContent::Thinking { text, signature } => {
                if let (Some(signature), true) = (signature, own) {
                    parts.push(ContentPart::ThoughtSignature(signature.clone()));
                    parts.push(ContentPart::ReasoningContent(text.clone()));
                }
            }
            AssistantContent::ToolCall(call) => parts.push(ContentPart::ToolCall(ToolCall {
                call_id: call.id.clone(),
                fn_name: call.name.clone(),
                fn_arguments: call.arguments.clone(),
                thought_signatures: call
                    .signature
                    .clone()
                    .filter(|_| own)
                    .map(|signature| vec![signature]),
            })),
        }
    }
    parts
}
