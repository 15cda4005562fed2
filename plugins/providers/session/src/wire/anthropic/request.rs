//! A Messages request.

use std::borrow::Cow;

use bezel_session_types::{
    AssistantContent, AssistantMessage, ImageContent, Message, ThinkingLevel, ToolResultMessage,
    UserContent,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::REDACTED;
use crate::thinking::Effort;
use crate::wire::{Outgoing, call_id, result_images, result_text};

/// The output limit where nobody names one: what the format demands, without reserving a model's largest.
const DEFAULT_MAX_TOKENS: u64 = 32_000;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    stream: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled { budget_tokens: u64 },
    Adaptive { display: &'static str },
    Disabled,
}

/// Which tools may be called; any where nothing is said.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice {
    None,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// A content block with the marker that ends a cached prefix.
#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// The request as JSON.
///
/// It marks four prefixes for the cache, as many as the format takes: the tools, the system prompt, and the
/// conversation up to the last message and to the user's message before that, which is where the cache of
/// the request before ended.
pub(crate) fn body(outgoing: &Outgoing<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let request = outgoing.request;
    let tools = outgoing.tools.json(&request.tools, |tools| {
        let tools = tools.iter().map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.parameters,
            cache_control: None,
        });
        let mut tools: Vec<_> = tools.collect();
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
        tools
    })?;
    let mut system: Vec<_> = text(Cow::Borrowed(&*request.system))
        .into_iter()
        .map(Block::new)
        .collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let mut messages = messages(outgoing);
    let said = messages
        .iter_mut()
        .rev()
        .filter(|turn| turn.role == Role::User);
    for last in said.take(2).filter_map(|turn| turn.content.last_mut()) {
        last.cache_control = Some(EPHEMERAL);
    }
    let largest = outgoing.max_output.unwrap_or(DEFAULT_MAX_TOKENS);
    let max_tokens = request
        .options
        .max_output
        .unwrap_or(DEFAULT_MAX_TOKENS.min(largest));
    let (thinking, effort) = thinking(outgoing, max_tokens);
    serde_json::to_vec(&Body {
        model: outgoing.model_id(),
        max_tokens,
        system,
        tools: tools.as_deref(),
        tool_choice: outgoing.forbids_tools().then_some(Choice::None),
        messages,
        thinking,
        output_config: effort.map(|effort| OutputConfig {
            effort: effort.as_str(),
        }),
        stream: true,
    })
}

/// Whether the model must be told that it may think between calls; where it decides itself it does.
pub(crate) fn thinks_between_calls(outgoing: &Outgoing<'_>) -> bool {
    outgoing.level() != ThinkingLevel::Off
        && outgoing.steering.efforts.is_empty()
        && outgoing.steering.budget.is_some()
}

fn thinking(outgoing: &Outgoing<'_>, max_tokens: u64) -> (Option<Thinking>, Option<Effort>) {
    let steering = &outgoing.steering;
    if outgoing.level() == ThinkingLevel::Off {
        return (steering.toggle.then_some(Thinking::Disabled), None);
    }
    if let Some(effort) = steering.effort(outgoing.level()) {
        return (
            Some(Thinking::Adaptive {
                display: "summarized",
            }),
            Some(effort),
        );
    }
    let Some([smallest, _]) = steering.budget else {
        return (None, None);
    };
    // The budget counts against the output limit and must leave room for an answer.
    let budget_tokens = steering
        .tokens(outgoing.level())
        .unwrap_or(smallest)
        .min(max_tokens / 4 * 3);
    (
        (budget_tokens >= smallest).then_some(Thinking::Enabled { budget_tokens }),
        None,
    )
}

fn messages<'a>(outgoing: &'a Outgoing<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut say = |role, content: Vec<Content<'a>>| {
        let blocks = content.into_iter().map(Block::new);
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => turns.push(Turn {
                role,
                content: blocks.collect(),
            }),
        }
    };
    for message in outgoing.messages() {
        match message {
            Message::User(user) => {
                let parts = user.content.iter().filter_map(|part| match part {
                    UserContent::Text { text: said } => text(said.as_str().into()),
                    UserContent::Image(image) => Some(picture(image)),
                });
                say(Role::User, parts.collect());
            }
            Message::Assistant(answer) => {
                say(Role::Assistant, assistant(answer, outgoing.is_own(answer)))
            }
            Message::ToolResult(result) => say(Role::User, vec![tool_result(result)]),
        }
    }
    turns.retain(|turn| !turn.content.is_empty());
    turns
}

fn assistant(answer: &AssistantMessage, own: bool) -> Vec<Content<'_>> {
    let parts = answer.content.iter().filter_map(|part| match part {
        AssistantContent::Text { text: said } => text(said.as_str().into()),
        AssistantContent::Thinking {
            text: thought,
            signature,
        } => {
            let signature = signature.as_deref().filter(|_| own)?;
            Some(match signature.strip_prefix(REDACTED) {
                Some(data) => Content::RedactedThinking { data },
                None => Content::Thinking {
                    thinking: thought,
                    signature,
                },
            })
        }
        AssistantContent::ToolCall(call) => Some(Content::ToolUse {
            id: call_id::fitting(&call.id, 64),
            name: &call.name,
            input: input(&call.arguments),
        }),
    });
    parts.collect()
}

/// The format takes an object alone.
fn input(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(serde_json::json!({ "invalid_json": other })),
    }
}

/// The format refuses text that holds nothing but space.
fn text(said: Cow<'_, str>) -> Option<Content<'_>> {
    (!said.trim().is_empty()).then_some(Content::Text { text: said })
}

fn tool_result(result: &ToolResultMessage) -> Content<'_> {
    let mut content: Vec<_> = text(result_text(result)).into_iter().collect();
    content.extend(result_images(result).map(picture));
    if content.is_empty() {
        content.push(Content::Text {
            text: "(no output)".into(),
        });
    }
    Content::ToolResult {
        tool_use_id: call_id::fitting(&result.call_id, 64),
        content,
        is_error: result.is_error,
    }
}

fn picture(image: &ImageContent) -> Content<'_> {
    Content::Image {
        source: Source {
            kind: "base64",
            media_type: &image.media_type,
            data: &image.data,
        },
    }
}

impl<'a> Block<'a> {
    fn new(content: Content<'a>) -> Self {
        Block {
            content,
            cache_control: None,
        }
    }
}
