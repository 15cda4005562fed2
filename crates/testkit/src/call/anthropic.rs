//! Reads an Anthropic Messages request.

use serde_json::Value;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, join, list, text};

pub(super) fn read(body: &Value) -> ModelCall {
    let mut call = ModelCall {
        system: body["system"].as_str().map_or_else(
            || {
                join(
                    list(&body["system"])
                        .iter()
                        .map(|block| text(&block["text"])),
                )
            },
            Into::into,
        ),
        thinking: body["thinking"].clone(),
        max_output: body["max_tokens"].as_u64(),
        tools: list(&body["tools"]).iter().map(tool).collect(),
        forbids_tools: body["tool_choice"]["type"] == "none",
        ..ModelCall::default()
    };
    let marked = |blocks: &Value| {
        list(blocks)
            .iter()
            .any(|block| block["cache_control"].is_object())
    };
    if marked(&body["tools"]) {
        call.cache_markers.push("tools".into());
    }
    if marked(&body["system"]) {
        call.cache_markers.push("system".into());
    }
    for (index, message) in list(&body["messages"]).iter().enumerate() {
        if marked(&message["content"]) {
            call.cache_markers.push(format!("messages[{index}]"));
        }
        let assistant = message["role"] == "assistant";
        let role = if assistant {
            SeenRole::Assistant
        } else {
            SeenRole::User
        };
        let parts = match &message["content"] {
            Value::String(text) => vec![SeenPart::Text(text.clone())],
            blocks => list(blocks).iter().filter_map(block).collect(),
        };
        call.say(role, parts);
    }
    call
}

fn block(block: &Value) -> Option<SeenPart> {
    match block["type"].as_str()? {
        "text" => Some(SeenPart::Text(text(&block["text"]))),
        "image" => image(block).map(|(media_type, data)| SeenPart::Image { media_type, data }),
        "thinking" => Some(SeenPart::Thinking {
            text: text(&block["thinking"]),
            signature: block["signature"].as_str().map(Into::into),
        }),
        "redacted_thinking" => Some(SeenPart::Thinking {
            text: String::new(),
            signature: block["data"].as_str().map(Into::into),
        }),
        "tool_use" => Some(SeenPart::ToolCall {
            id: text(&block["id"]),
            name: text(&block["name"]),
            arguments: block["input"].clone(),
            signature: None,
        }),
        "tool_result" => Some(result(block)),
        _ => None,
    }
}

fn result(block: &Value) -> SeenPart {
    let parts = list(&block["content"]);
    let texts = parts
        .iter()
        .filter(|part| part["type"] == "text")
        .map(|part| text(&part["text"]));
    SeenPart::ToolResult {
        call: text(&block["tool_use_id"]),
        text: block["content"]
            .as_str()
            .map_or_else(|| join(texts), Into::into),
        images: parts.iter().filter_map(image).collect(),
        is_error: block["is_error"] == true,
    }
}

fn image(block: &Value) -> Option<(String, String)> {
    let source = &block["source"];
    Some((
        source["media_type"].as_str()?.into(),
        source["data"].as_str()?.into(),
    ))
}

fn tool(tool: &Value) -> CalledTool {
    CalledTool {
        name: text(&tool["name"]),
        description: text(&tool["description"]),
        parameters: tool["input_schema"].clone(),
    }
}
