//! Reads an OpenAI chat completions request.

use serde_json::Value;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, arguments, data_url, join, list, text};

pub(super) fn read(body: &Value) -> ModelCall {
    let mut call = ModelCall {
        thinking: if body["reasoning"].is_null() {
            body["reasoning_effort"].clone()
        } else {
            body["reasoning"].clone()
        },
        max_output: body["max_completion_tokens"]
            .as_u64()
            .or(body["max_tokens"].as_u64()),
        cache_key: body["prompt_cache_key"].as_str().map(Into::into),
        tools: list(&body["tools"])
            .iter()
            .map(|tool| function(&tool["function"]))
            .collect(),
        forbids_tools: body["tool_choice"] == "none",
        ..ModelCall::default()
    };
    for message in list(&body["messages"]) {
        match message["role"].as_str() {
            Some("system" | "developer") => {
                call.system = join([call.system.clone(), plain(&message["content"])])
                    .trim()
                    .into()
            }
            Some("assistant") => {
                let parts = assistant(message);
                call.say(SeenRole::Assistant, parts);
            }
            Some("tool") => {
                let result = SeenPart::ToolResult {
                    call: text(&message["tool_call_id"]),
                    text: plain(&message["content"]),
                    images: Vec::new(),
                    is_error: false,
                };
                call.say(SeenRole::User, vec![result]);
            }
            _ => call.say(SeenRole::User, content(&message["content"])),
        }
    }
    call
}

fn assistant(message: &Value) -> Vec<SeenPart> {
    let mut parts = Vec::new();
    for detail in list(&message["reasoning_details"]) {
        let signature = detail["signature"].as_str().map(Into::into);
        parts.push(SeenPart::Thinking {
            text: text(&detail["text"]),
            signature,
        });
    }
    for field in ["reasoning_content", "reasoning"] {
        if let (Some(reasoning), true) = (message[field].as_str(), parts.is_empty()) {
            parts.push(SeenPart::Thinking {
                text: reasoning.into(),
                signature: Some(field.into()),
            });
        }
    }
    parts.extend(content(&message["content"]));
    for called in list(&message["tool_calls"]) {
        parts.push(SeenPart::ToolCall {
            id: text(&called["id"]),
            name: text(&called["function"]["name"]),
            arguments: arguments(&called["function"]["arguments"]),
            signature: None,
        });
    }
    parts
}

fn function(function: &Value) -> CalledTool {
    CalledTool {
        name: text(&function["name"]),
        description: text(&function["description"]),
        parameters: function["parameters"].clone(),
    }
}

fn content(content: &Value) -> Vec<SeenPart> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![SeenPart::Text(text.clone())],
        _ => list(content).iter().filter_map(part).collect(),
    }
}

fn part(part: &Value) -> Option<SeenPart> {
    match part["type"].as_str()? {
        "image_url" => {
            let (media_type, data) = data_url(part["image_url"]["url"].as_str()?)?;
            Some(SeenPart::Image { media_type, data })
        }
        _ => Some(SeenPart::Text(text(&part["text"]))),
    }
}

fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        _ => join(list(content).iter().map(|part| text(&part["text"]))),
    }
}
