//! Reads a Gemini `generateContent` request.

use serde_json::Value;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, join, list, text};

pub(super) fn read(body: &Value) -> ModelCall {
    let config = &body["generationConfig"];
    let mut call = ModelCall {
        system: join(
            list(&body["systemInstruction"]["parts"])
                .iter()
                .map(|part| text(&part["text"])),
        ),
        thinking: config["thinkingConfig"].clone(),
        max_output: config["maxOutputTokens"].as_u64(),
        tools: list(&body["tools"])
            .iter()
            .flat_map(|tool| list(&tool["functionDeclarations"]))
            .map(tool)
            .collect(),
        forbids_tools: body["toolConfig"]["functionCallingConfig"]["mode"] == "NONE",
        ..ModelCall::default()
    };
    for content in list(&body["contents"]) {
        let role = if content["role"] == "model" {
            SeenRole::Assistant
        } else {
            SeenRole::User
        };
        let parts = list(&content["parts"]).iter().filter_map(part).collect();
        call.say(role, parts);
    }
    call
}

fn part(part: &Value) -> Option<SeenPart> {
    let signature = part["thoughtSignature"].as_str().map(Into::into);
    if let Some(called) = part.get("functionCall") {
        return Some(SeenPart::ToolCall {
            id: text(&called["id"]),
            name: text(&called["name"]),
            arguments: called["args"].clone(),
            signature,
        });
    }
    if let Some(answered) = part.get("functionResponse") {
        let response = &answered["response"];
        let shown = ["output", "result", "error", "content"]
            .iter()
            .find_map(|field| response[field].as_str());
        return Some(SeenPart::ToolResult {
            call: answered["id"]
                .as_str()
                .unwrap_or(answered["name"].as_str().unwrap_or_default())
                .into(),
            text: shown.map_or_else(|| response.to_string(), Into::into),
            images: list(&answered["parts"]).iter().filter_map(image).collect(),
            is_error: response.get("error").is_some(),
        });
    }
    if let Some((media_type, data)) = image(part) {
        return Some(SeenPart::Image { media_type, data });
    }
    let written = part["text"].as_str()?;
    if part["thought"] == true || signature.is_some() {
        return Some(SeenPart::Thinking {
            text: written.into(),
            signature,
        });
    }
    Some(SeenPart::Text(written.into()))
}

fn image(part: &Value) -> Option<(String, String)> {
    let inline = &part["inlineData"];
    Some((
        inline["mimeType"].as_str()?.into(),
        inline["data"].as_str()?.into(),
    ))
}

fn tool(tool: &Value) -> CalledTool {
    let schema = if tool["parametersJsonSchema"].is_null() {
        &tool["parameters"]
    } else {
        &tool["parametersJsonSchema"]
    };
    CalledTool {
        name: text(&tool["name"]),
        description: text(&tool["description"]),
        parameters: schema.clone(),
    }
}
