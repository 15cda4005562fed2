//! Reads an OpenAI Responses request.

use serde_json::Value;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, arguments, data_url, join, list, text};

pub(super) fn read(body: &Value) -> ModelCall {
    let mut call = ModelCall {
        system: text(&body["instructions"]),
        thinking: body["reasoning"]["effort"].clone(),
        max_output: body["max_output_tokens"].as_u64(),
        cache_key: body["prompt_cache_key"].as_str().map(Into::into),
        tools: list(&body["tools"]).iter().map(tool).collect(),
        forbids_tools: body["tool_choice"] == "none",
        ..ModelCall::default()
    };
    if let Some(input) = body["input"].as_str() {
        call.say(SeenRole::User, vec![SeenPart::Text(input.into())]);
    }
    for item in list(&body["input"]) {
        match item["type"].as_str().unwrap_or("message") {
            "message" => message(&mut call, item),
            "reasoning" => {
                let text = join(
                    list(&item["summary"])
                        .iter()
                        .map(|part| text(&part["text"])),
                );
                let signature = item["encrypted_content"].as_str().map(Into::into);
                call.say(
                    SeenRole::Assistant,
                    vec![SeenPart::Thinking { text, signature }],
                );
            }
            "function_call" => {
                let called = SeenPart::ToolCall {
                    id: text(&item["call_id"]),
                    name: text(&item["name"]),
                    arguments: arguments(&item["arguments"]),
                    signature: None,
                };
                call.say(SeenRole::Assistant, vec![called]);
            }
            "function_call_output" => call.say(SeenRole::User, vec![output(item)]),
            _ => {}
        }
    }
    call
}

fn message(call: &mut ModelCall, item: &Value) {
    let parts: Vec<_> = match &item["content"] {
        Value::String(text) => vec![SeenPart::Text(text.clone())],
        content => list(content).iter().filter_map(part).collect(),
    };
    match item["role"].as_str() {
        Some("system" | "developer") => {
            let texts = parts.into_iter().filter_map(|part| match part {
                SeenPart::Text(text) => Some(text),
                _ => None,
            });
            call.system = join([call.system.clone(), join(texts)]).trim().into();
        }
        Some("assistant") => call.say(SeenRole::Assistant, parts),
        _ => call.say(SeenRole::User, parts),
    }
}

fn part(part: &Value) -> Option<SeenPart> {
    match part["type"].as_str()? {
        "input_image" => {
            let (media_type, data) = data_url(part["image_url"].as_str()?)?;
            Some(SeenPart::Image { media_type, data })
        }
        _ => Some(SeenPart::Text(text(&part["text"]))),
    }
}

fn output(item: &Value) -> SeenPart {
    let parts: Vec<_> = list(&item["output"]).iter().filter_map(part).collect();
    let texts = parts.iter().filter_map(|part| match part {
        SeenPart::Text(text) => Some(text.clone()),
        _ => None,
    });
    let images = parts.iter().filter_map(|part| match part {
        SeenPart::Image { media_type, data } => Some((media_type.clone(), data.clone())),
        _ => None,
    });
    SeenPart::ToolResult {
        call: text(&item["call_id"]),
        text: item["output"]
            .as_str()
            .map_or_else(|| join(texts), Into::into),
        images: images.collect(),
        is_error: false,
    }
}

fn tool(tool: &Value) -> CalledTool {
    CalledTool {
        name: text(&tool["name"]),
        description: text(&tool["description"]),
        parameters: tool["parameters"].clone(),
    }
}
