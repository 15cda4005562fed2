//! A `generateContent` request.

use std::borrow::Cow;
use std::collections::HashMap;

use bezel_session_types::{
    AssistantContent, AssistantMessage, ImageContent, Message, ThinkingLevel, ToolResultMessage,
    UserContent,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::thinking::Effort;
use crate::wire::{Outgoing, result_images, result_text};

/// What Google's documentation names for calls that another model made, where a signature is demanded.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Turn<'a>>,
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Turn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineImage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineImage<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    name: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: FunctionCalling,
}

#[derive(Serialize)]
struct FunctionCalling {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
}

/// The request as JSON.
pub(crate) fn body(outgoing: &Outgoing<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let request = outgoing.request;
    let tools = outgoing.tools.json(&request.tools, |tools| {
        let declarations = tools.iter().map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: &tool.parameters,
        });
        [Tools {
            function_declarations: declarations.collect(),
        }]
    })?;
    serde_json::to_vec(&Body {
        system_instruction: (!request.system.is_empty()).then(|| Turn {
            role: None,
            parts: vec![Part {
                text: Some(&request.system),
                ..Part::default()
            }],
        }),
        contents: contents(outgoing),
        tools: tools.as_deref(),
        tool_config: outgoing.forbids_tools().then_some(ToolConfig {
            function_calling_config: FunctionCalling { mode: "NONE" },
        }),
        generation_config: GenerationConfig {
            max_output_tokens: request.options.max_output,
            thinking_config: thinking(outgoing),
        },
    })
}

fn thinking(outgoing: &Outgoing<'_>) -> Option<ThinkingConfig> {
    let steering = &outgoing.steering;
    if !steering.reasons() {
        return None;
    }
    let off = outgoing.level() == ThinkingLevel::Off;
    let budget = if off && steering.toggle && steering.budget.is_some() {
        Some(0)
    } else {
        steering.tokens(outgoing.level())
    };
    Some(ThinkingConfig {
        include_thoughts: !off,
        thinking_level: steering.effort(outgoing.level()).map(Effort::as_str),
        thinking_budget: budget,
    })
}

fn contents<'a>(outgoing: &'a Outgoing<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut say = |role, parts: Vec<Part<'a>>| match turns.last_mut() {
        Some(last) if last.role == Some(role) => last.parts.extend(parts),
        _ => turns.push(Turn {
            role: Some(role),
            parts,
        }),
    };
    // The format has no ids of its own: a result belongs to a call by name and order.
    let mut names = HashMap::new();
    let signs = demands_signatures(outgoing.model_id());
    for message in outgoing.messages() {
        match message {
            Message::User(user) => {
                let parts = user.content.iter().map(|part| match part {
                    UserContent::Text { text } => Part {
                        text: Some(text),
                        ..Part::default()
                    },
                    UserContent::Image(image) => picture(image),
                });
                say("user", parts.collect());
            }
            Message::Assistant(answer) => {
                names.extend(
                    answer
                        .tool_calls()
                        .map(|call| (call.id.as_str(), call.name.as_str())),
                );
                say("model", assistant(answer, outgoing.is_own(answer), signs));
            }
            Message::ToolResult(result) => {
                let name = names
                    .get(result.call_id.as_str())
                    .copied()
                    .unwrap_or(&result.tool);
                let mut parts = vec![response(result, name)];
                parts.extend(result_images(result).map(picture));
                say("user", parts);
            }
        }
    }
    turns.retain(|turn| !turn.parts.is_empty());
    turns
}

fn assistant(answer: &AssistantMessage, own: bool, signs: bool) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut signed = false;
    for part in &answer.content {
        match part {
            AssistantContent::Text { text } if text.is_empty() => {}
            AssistantContent::Text { text } => parts.push(Part {
                text: Some(text),
                ..Part::default()
            }),
            AssistantContent::Thinking { text, signature } => {
                let Some(signature) = signature.as_deref().filter(|_| own) else {
                    continue;
                };
                match parts.last_mut() {
                    Some(last) if text.is_empty() && last.text.is_some() && !last.thought => {
                        last.thought_signature = Some(signature);
                    }
                    _ => parts.push(Part {
                        text: Some(text),
                        thought: !text.is_empty(),
                        thought_signature: Some(signature),
                        ..Part::default()
                    }),
                }
            }
            AssistantContent::ToolCall(call) => {
                let own_signature = call.signature.as_deref().filter(|_| own);
                // The first call of an answer carries the signature of all.
                let missing = (signs && !signed).then_some(NO_SIGNATURE);
                signed = true;
                parts.push(Part {
                    function_call: Some(FunctionCall {
                        name: &call.name,
                        args: args(&call.arguments),
                    }),
                    thought_signature: own_signature.or(missing),
                    ..Part::default()
                });
            }
        }
    }
    parts
}

/// Gemini 3 and later refuse a call whose signature is missing.
fn demands_signatures(model_id: &str) -> bool {
    let version = model_id
        .strip_prefix("gemini-")
        .and_then(|rest| rest.split(['.', '-']).next()?.parse::<u32>().ok());
    version.is_some_and(|version| version >= 3)
}

/// The format takes an object alone.
fn args(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        other => Cow::Owned(serde_json::json!({ "invalid_json": other })),
    }
}

fn response<'a>(result: &'a ToolResultMessage, name: &'a str) -> Part<'a> {
    let text = result_text(result);
    let response = if result.is_error {
        Response::Error(text)
    } else {
        Response::Output(text)
    };
    Part {
        function_response: Some(FunctionResponse { name, response }),
        ..Part::default()
    }
}

fn picture(image: &ImageContent) -> Part<'_> {
    Part {
        inline_data: Some(InlineImage {
            mime_type: &image.media_type,
            data: &image.data,
        }),
        ..Part::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_demand_signatures_are_known_by_their_version() {
        for (model, demands) in [
            ("gemini-2.5-pro", false),
            ("gemini-3-flash-preview", true),
            ("gemini-3.1-pro-preview", true),
            ("gemini-10", true),
            ("gemini-flash-latest", false),
            ("gemma-4-31b-it", false),
        ] {
            assert_eq!(demands_signatures(model), demands, "{model}");
        }
    }
}
