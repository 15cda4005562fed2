//! A Responses request.

use std::borrow::Cow;

use bezel_session_types::{
    AssistantContent, AssistantMessage, Message, ThinkingLevel, ToolResultMessage, UserContent,
    UserMessage,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::thinking::Effort;
use crate::wire::{Outgoing, argument_text, call_id, data_url, result_images, result_text};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Reasoning {
        summary: Vec<Part<'a>>,
        encrypted_content: &'a str,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String },
    OutputText { text: &'a str },
    SummaryText { text: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

/// The request as JSON.
pub(crate) fn body(outgoing: &Outgoing<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let request = outgoing.request;
    let tools = outgoing.tools.json(&request.tools, |tools| {
        let tools = tools.iter().map(|tool| Tool {
            kind: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
            strict: false,
        });
        tools.collect::<Vec<_>>()
    })?;
    let effort = outgoing
        .steering
        .effort(outgoing.level())
        .map(Effort::as_str);
    let thinks = outgoing.level() != ThinkingLevel::Off;
    serde_json::to_vec(&Body {
        model: outgoing.model_id(),
        instructions: &request.system,
        input: input(outgoing),
        tools: tools.as_deref(),
        tool_choice: outgoing.forbids_tools().then_some("none"),
        // Models that do not reason refuse to include what they do not have.
        include: if outgoing.steering.reasons() {
            &["reasoning.encrypted_content"]
        } else {
            &[]
        },
        reasoning: effort.map(|effort| Reasoning {
            effort,
            summary: thinks.then_some("auto"),
        }),
        max_output_tokens: request.options.max_output,
        prompt_cache_key: request.options.cache_key.as_deref(),
        store: false,
        stream: true,
    })
}

fn input<'a>(outgoing: &'a Outgoing<'_>) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(outgoing.request.messages.len());
    for message in outgoing.messages() {
        match message {
            Message::User(user) => items.push(Item::Message {
                role: "user",
                content: user_parts(user),
            }),
            Message::Assistant(answer) => assistant(&mut items, answer, outgoing.is_own(answer)),
            Message::ToolResult(result) => items.push(Item::FunctionCallOutput {
                call_id: call_id::fitting(&result.call_id, 64),
                output: output(result),
            }),
        }
    }
    items
}

fn user_parts(user: &UserMessage) -> Vec<Part<'_>> {
    let parts = user.content.iter().map(|part| match part {
        UserContent::Text { text } => Part::InputText { text: text.into() },
        UserContent::Image(image) => Part::InputImage {
            image_url: data_url(image),
        },
    });
    parts.collect()
}

fn assistant<'a>(items: &mut Vec<Item<'a>>, answer: &'a AssistantMessage, own: bool) {
    for part in &answer.content {
        match part {
            AssistantContent::Text { text } if text.is_empty() => {}
            AssistantContent::Text { text } => {
                items.push(Item::Message {
                    role: "assistant",
                    content: vec![Part::OutputText { text }],
                });
            }
            AssistantContent::Thinking { text, signature } => {
                if let Some(encrypted_content) = signature.as_deref().filter(|_| own) {
                    let summary = if text.is_empty() {
                        Vec::new()
                    } else {
                        vec![Part::SummaryText { text }]
                    };
                    items.push(Item::Reasoning {
                        summary,
                        encrypted_content,
                    });
                }
            }
            AssistantContent::ToolCall(call) => items.push(Item::FunctionCall {
                call_id: call_id::fitting(&call.id, 64),
                name: &call.name,
                arguments: argument_text(&call.arguments),
            }),
        }
    }
}

fn output(result: &ToolResultMessage) -> Output<'_> {
    let text = result_text(result);
    let mut images = result_images(result)
        .map(|image| Part::InputImage {
            image_url: data_url(image),
        })
        .peekable();
    if images.peek().is_none() {
        return Output::Text(text);
    }
    let text = (!text.is_empty()).then_some(Part::InputText { text });
    Output::Parts(text.into_iter().chain(images).collect())
}
