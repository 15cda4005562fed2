//! Reads an Ollama `/api/chat` request.

use serde_json::Value;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, join, list, text};

pub(super) fn read(body: &Value) -> ModelCall {
    let mut call = ModelCall {
        thinking: body["think"].clone(),
        max_output: body["options"]["num_predict"].as_u64(),
        tools: list(&body["tools"])
            .iter()
            .map(|tool| tool_of(&tool["function"]))
            .collect(),
        ..ModelCall::default()
    };
    for message in list(&body["messages"]) {
        let said = text(&message["content"]);
        match message["role"].as_str() {
            Some("system") => call.system = join([call.system.clone(), said]).trim().into(),
            Some("assistant") => {
                let parts = assistant(message, said);
                call.say(SeenRole::Assistant, parts);
            }
            Some("tool") => {
                let name = message["tool_name"]
                    .as_str()
                    .or(message["tool_call_id"].as_str())
                    .unwrap_or_default();
                let result = SeenPart::ToolResult {
                    call: name.into(),
                    text: said,
                    images: Vec::new(),
                    is_error: false,
                };
                call.say(SeenRole::User, vec![result]);
            }
            _ => {
                let mut parts = vec![SeenPart::Text(said)];
                let images = list(&message["images"]).iter();
                parts.extend(images.map(|data| SeenPart::Image {
                    media_type: String::new(),
                    data: text(data),
                }));
                call.say(SeenRole::User, parts);
            }
        }
    }
    call
}

fn assistant(message: &Value, said: String) -> Vec<SeenPart> {
    let mut parts = Vec::new();
    if let Some(thinking) = message["thinking"].as_str() {
        parts.push(SeenPart::Thinking {
            text: thinking.into(),
            signature: None,
        });
    }
    if !said.is_empty() {
        parts.push(SeenPart::Text(said));
    }
    for called in list(&message["tool_calls"]) {
        parts.push(SeenPart::ToolCall {
            id: text(&called["id"]),
            name: text(&called["function"]["name"]),
            arguments: called["function"]["arguments"].clone(),
            signature: None,
        });
    }
    parts
}

fn tool_of(function: &Value) -> CalledTool {
    CalledTool {
        name: text(&function["name"]),
        description: text(&function["description"]),
        parameters: function["parameters"].clone(),
    }
}
