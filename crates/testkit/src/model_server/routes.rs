//! Which path means what.

use serde_json::{Value, json};

use super::http::Request;
use crate::{ModelCall, Script, WireFormat};

/// What a request asks for.
pub(super) enum Route {
    /// An answer of the model.
    Model(WireFormat, Box<ModelCall>),
    /// The list of models, in this format's shape.
    Models(WireFormat),
    /// Nothing that the server knows.
    Unknown,
}

pub(super) fn route(request: &Request) -> Route {
    let path = request.path();
    if request.method == "GET" {
        return match path {
            _ if path.ends_with("/api/tags") => Route::Models(WireFormat::Ollama),
            _ if !path.ends_with("/models") => Route::Unknown,
            _ if path.contains("/v1beta") => Route::Models(WireFormat::Gemini),
            _ if request.header("anthropic-version").is_some() => {
                Route::Models(WireFormat::Anthropic)
            }
            _ => Route::Models(WireFormat::OpenAiChat),
        };
    }
    let (format, model, stream) = if path.ends_with("/chat/completions") {
        (WireFormat::OpenAiChat, None, None)
    } else if path.ends_with("/responses") {
        (WireFormat::OpenAiResponses, None, None)
    } else if path.ends_with("/messages") {
        (WireFormat::Anthropic, None, None)
    } else if path.ends_with("/api/chat") {
        (WireFormat::Ollama, None, None)
    } else if let Some((model, method)) = path
        .rsplit('/')
        .next()
        .and_then(|last| last.rsplit_once(':'))
    {
        let format = match method {
            "streamGenerateContent" | "generateContent" => WireFormat::Gemini,
            "streamRawPredict" | "rawPredict" => WireFormat::Anthropic,
            _ => return Route::Unknown,
        };
        (format, Some(model), Some(method.starts_with("stream")))
    } else {
        return Route::Unknown;
    };
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Route::Unknown;
    };
    let default = format == WireFormat::Ollama;
    let stream = stream.unwrap_or_else(|| body["stream"].as_bool().unwrap_or(default));
    Route::Model(
        format,
        Box::new(ModelCall::read(format, model, stream, &body)),
    )
}

/// The key that a request carries, wherever its format puts it.
pub(super) fn key_of(request: &Request) -> Option<&str> {
    let bearer = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Bearer "));
    let in_query = || {
        let (_, query) = request.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix("key="))
    };
    bearer
        .or_else(|| request.header("x-api-key"))
        .or_else(|| request.header("x-goog-api-key"))
        .or_else(in_query)
}

/// The list of the script's models.
pub(super) fn models(format: WireFormat, script: &Script) -> Value {
    let ids = script.models().iter();
    match format {
        WireFormat::OpenAiChat | WireFormat::OpenAiResponses => {
            let models = ids.map(|id| json!({ "id": id, "object": "model", "created": 1_700_000_000_u64, "owned_by": "fake" }));
            json!({ "object": "list", "data": models.collect::<Vec<_>>() })
        }
        WireFormat::Anthropic => {
            let models = ids.map(
                |id| json!({ "type": "model", "id": id, "display_name": format!("The {id}") }),
            );
            json!({ "data": models.collect::<Vec<_>>(), "has_more": false })
        }
        WireFormat::Gemini => {
            let models = ids.map(|id| {
                json!({
                    "name": format!("models/{id}"), "displayName": format!("The {id}"), "inputTokenLimit": 1_048_576,
                    "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent", "countTokens"],
                    "thinking": true,
                })
            });
            json!({ "models": models.collect::<Vec<_>>() })
        }
        WireFormat::Ollama => {
            let models = ids.map(|id| json!({ "name": id, "model": id }));
            json!({ "models": models.collect::<Vec<_>>() })
        }
    }
}
