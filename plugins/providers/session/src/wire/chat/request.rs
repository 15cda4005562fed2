//! A chat completions request.

use std::borrow::Cow;

use bezel_session_types::{
    AssistantContent, AssistantMessage, Message, ThinkingLevel, UserContent, UserMessage,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{IN_CONTENT, REASONING, REASONING_CONTENT};
use crate::kind::{Dialect, ReasoningField};
use crate::thinking::Effort;
use crate::wire::{
    Outgoing, argument_text, call_id, data_url, raw_array, result_images, result_text,
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(flatten)]
    reasoning: Reasoning,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// How this server is asked to reason.
#[derive(Serialize, Default)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_format: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ReasoningObject {
    Effort(&'static str),
    Enabled(bool),
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<Content<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
    Thinking { thinking: Vec<Part<'a>> },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// The request as JSON.
pub(crate) fn body(
    outgoing: &Outgoing<'_>,
    dialect: Dialect,
) -> Result<Vec<u8>, serde_json::Error> {
    let options = &outgoing.request.options;
    let modern = outgoing.official && dialect.cache_key;
    let tools = outgoing.tools.json(&outgoing.request.tools, |tools| {
        let tools = tools.iter().map(|tool| Tool {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        });
        tools.collect::<Vec<_>>()
    })?;
    serde_json::to_vec(&Body {
        model: outgoing.model_id(),
        messages: messages(outgoing, dialect),
        tools: tools.as_deref(),
        tool_choice: outgoing.forbids_tools().then_some("none"),
        stream: true,
        stream_options: dialect.asks_for_usage.then_some(StreamOptions {
            include_usage: true,
        }),
        max_tokens: options.max_output.filter(|_| !modern),
        max_completion_tokens: options.max_output.filter(|_| modern),
        prompt_cache_key: options.cache_key.as_deref().filter(|_| dialect.cache_key),
        reasoning: reasoning(outgoing, dialect.reasoning),
    })
}

fn reasoning(outgoing: &Outgoing<'_>, field: ReasoningField) -> Reasoning {
    let steering = &outgoing.steering;
    let mut reasoning = Reasoning::default();
    if !steering.reasons() {
        return reasoning;
    }
    let on = outgoing.level() != ThinkingLevel::Off;
    // Off is said by the toggle where there is one.
    let effort = steering
        .effort(outgoing.level())
        .filter(|_| on || !steering.toggle)
        .map(Effort::as_str);
    match field {
        ReasoningField::Effort => reasoning.reasoning_effort = effort,
        ReasoningField::ParsedEffort => {
            reasoning.reasoning_effort = effort;
            reasoning.reasoning_format = Some("parsed");
        }
        ReasoningField::ThinkingType => {
            reasoning.reasoning_effort = effort;
            if steering.toggle {
                reasoning.thinking = Some(Thinking {
                    kind: if on { "enabled" } else { "disabled" },
                });
            }
        }
        ReasoningField::Object => {
            reasoning.reasoning = match effort {
                Some(effort) if on => Some(ReasoningObject::Effort(effort)),
                _ => Some(ReasoningObject::Enabled(on)),
            };
        }
        ReasoningField::EnableThinking => reasoning.enable_thinking = Some(on),
    }
    reasoning
}

fn messages<'a>(outgoing: &'a Outgoing<'_>, dialect: Dialect) -> Vec<ChatMessage<'a>> {
    let mut messages = Vec::with_capacity(outgoing.request.messages.len() + 1);
    if !outgoing.request.system.is_empty() {
        messages.push(ChatMessage::System {
            content: &outgoing.request.system,
        });
    }
    // A tool's message holds text alone: its pictures follow the results as the user's.
    let mut pictures = Vec::new();
    for message in outgoing.messages() {
        if !matches!(message, Message::ToolResult(_)) {
            show(&mut messages, &mut pictures);
        }
        match message {
            Message::User(user) => messages.push(ChatMessage::User {
                content: user_content(user),
            }),
            Message::Assistant(answer) => {
                messages.push(assistant(answer, outgoing.is_own(answer), dialect))
            }
            Message::ToolResult(result) => {
                pictures.extend(result_images(result).map(|image| Part::ImageUrl {
                    image_url: ImageUrl {
                        url: data_url(image),
                    },
                }));
                let text = result_text(result);
                let empty = if pictures.is_empty() {
                    "(no output)"
                } else {
                    "(see the picture)"
                };
                messages.push(ChatMessage::Tool {
                    tool_call_id: id(&result.call_id, dialect),
                    content: if text.is_empty() { empty.into() } else { text },
                });
            }
        }
    }
    show(&mut messages, &mut pictures);
    messages
}

fn show<'a>(messages: &mut Vec<ChatMessage<'a>>, pictures: &mut Vec<Part<'a>>) {
    if !pictures.is_empty() {
        messages.push(ChatMessage::User {
            content: Content::Parts(std::mem::take(pictures)),
        });
    }
}

fn user_content(user: &UserMessage) -> Content<'_> {
    if let [UserContent::Text { text }] = user.content.as_slice() {
        return Content::Text(text.into());
    }
    let parts = user.content.iter().map(|part| match part {
        UserContent::Text { text } => Part::Text { text },
        UserContent::Image(image) => Part::ImageUrl {
            image_url: ImageUrl {
                url: data_url(image),
            },
        },
    });
    Content::Parts(parts.collect())
}

fn assistant(answer: &AssistantMessage, own: bool, dialect: Dialect) -> ChatMessage<'_> {
    let mut texts = Vec::new();
    let mut thoughts = Vec::new();
    let (mut reasoning_content, mut reasoning, mut reasoning_details) =
        (None::<String>, None::<String>, None);
    let mut tool_calls = Vec::new();
    for part in &answer.content {
        match part {
            AssistantContent::Text { text } if text.is_empty() => {}
            AssistantContent::Text { text } => texts.push(text.as_str()),
            AssistantContent::Thinking { text, signature } => match signature
                .as_deref()
                .filter(|_| own)
            {
                Some(REASONING_CONTENT) => reasoning_content.get_or_insert_default().push_str(text),
                Some(REASONING) => reasoning.get_or_insert_default().push_str(text),
                Some(IN_CONTENT) => thoughts.push(Part::Thinking {
                    thinking: vec![Part::Text { text }],
                }),
                Some(details) => reasoning_details = raw_array(details).or(reasoning_details),
                None => {}
            },
            AssistantContent::ToolCall(call) => tool_calls.push(Call {
                id: id(&call.id, dialect),
                kind: "function",
                function: CalledFunction {
                    name: &call.name,
                    arguments: argument_text(&call.arguments),
                },
            }),
        }
    }
    let content = if !thoughts.is_empty() {
        thoughts.extend(texts.into_iter().map(|text| Part::Text { text }));
        Some(Content::Parts(thoughts))
    } else if texts.is_empty() && !tool_calls.is_empty() {
        None
    } else {
        Some(Content::Text(if let [text] = texts[..] {
            text.into()
        } else {
            texts.concat().into()
        }))
    };
    ChatMessage::Assistant {
        content,
        reasoning_content,
        reasoning,
        reasoning_details,
        tool_calls,
    }
}

fn id(id: &str, dialect: Dialect) -> Cow<'_, str> {
    if dialect.short_call_ids {
        call_id::nine_letters(id)
    } else {
        call_id::fitting(id, 40)
    }
}
