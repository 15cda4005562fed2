//! Reads a request that never left this process.

use bezel_session_types::{
    AssistantContent, ImageContent, Message, ModelRequest, ResultContent, ToolChoice,
    ToolResultMessage, UserContent,
};
use serde_json::json;

use super::{CalledTool, ModelCall, SeenPart, SeenRole, join};

impl From<&ModelRequest> for ModelCall {
    fn from(request: &ModelRequest) -> Self {
        let tools = request.tools.iter().map(|tool| CalledTool {
            name: tool.name.to_string(),
            description: tool.description.to_string(),
            parameters: tool.parameters.as_ref().clone(),
        });
        let mut call = ModelCall {
            model: request.model.model_id.clone(),
            stream: true,
            system: request.system.to_string(),
            tools: tools.collect(),
            forbids_tools: request.options.tool_choice == ToolChoice::None,
            thinking: json!(request.options.thinking),
            max_output: request.options.max_output,
            cache_key: request.options.cache_key.as_deref().map(Into::into),
            ..ModelCall::default()
        };
        for message in request.messages.iter() {
            match &**message {
                Message::User(user) => {
                    call.say(SeenRole::User, user.content.iter().map(said).collect())
                }
                Message::Assistant(assistant) => {
                    call.say(
                        SeenRole::Assistant,
                        assistant.content.iter().map(answered).collect(),
                    );
                }
                Message::ToolResult(result) => call.say(SeenRole::User, vec![resulted(result)]),
            }
        }
        call
    }
}

fn said(part: &UserContent) -> SeenPart {
    match part {
        UserContent::Text { text } => SeenPart::Text(text.clone()),
        UserContent::Image(ImageContent { media_type, data }) => SeenPart::Image {
            media_type: media_type.clone(),
            data: data.clone(),
        },
    }
}

fn answered(part: &AssistantContent) -> SeenPart {
    match part {
        AssistantContent::Text { text } => SeenPart::Text(text.clone()),
        AssistantContent::Thinking { text, signature } => SeenPart::Thinking {
            text: text.clone(),
            signature: signature.clone(),
        },
        AssistantContent::ToolCall(call) => SeenPart::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            signature: call.signature.clone(),
        },
    }
}

fn resulted(result: &ToolResultMessage) -> SeenPart {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.clone()),
        ResultContent::Image(_) => None,
    });
    let images = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { .. } => None,
        ResultContent::Image(image) => Some((image.media_type.clone(), image.data.clone())),
    });
    SeenPart::ToolResult {
        call: result.call_id.clone(),
        text: join(texts),
        images: images.collect(),
        is_error: result.is_error,
    }
}
