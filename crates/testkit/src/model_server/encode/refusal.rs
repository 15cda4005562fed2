//! The error bodies of each provider.

use serde_json::{Value, json};

use crate::WireFormat;
use crate::script::Refusal;

/// The status and body of a scripted refusal.
pub(in crate::model_server) fn refusal(format: WireFormat, refusal: &Refusal) -> (u16, String) {
    if let Some(body) = &refusal.body {
        return (refusal.status, body.clone());
    }
    let overflow = refusal.context_overflow.then(|| overflow(format));
    let message = refusal
        .message
        .as_deref()
        .or(overflow)
        .unwrap_or_else(|| usual(refusal.status));
    let code = if refusal.context_overflow {
        Some("context_length_exceeded")
    } else {
        None
    };
    (
        refusal.status,
        body(format, refusal.status, message, code).to_string(),
    )
}

/// What a wrong or missing key comes to.
pub(in crate::model_server) fn unauthorised(format: WireFormat) -> (u16, String) {
    match format {
        WireFormat::Gemini => {
            let details = json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID" }]);
            let message = "API key not valid. Please pass a valid API key.";
            let error = json!({ "code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details });
            (400, json!({ "error": error }).to_string())
        }
        WireFormat::Anthropic => (
            401,
            body(format, 401, "invalid x-api-key", None).to_string(),
        ),
        _ => (
            401,
            body(
                format,
                401,
                "Incorrect API key provided.",
                Some("invalid_api_key"),
            )
            .to_string(),
        ),
    }
}

/// What a model that is not there comes to.
pub(in crate::model_server) fn unknown_model(format: WireFormat, model: &str) -> (u16, String) {
    let message = match format {
        WireFormat::OpenAiChat | WireFormat::OpenAiResponses => {
            format!("The model `{model}` does not exist or you do not have access to it.")
        }
        WireFormat::Anthropic => format!("model: {model}"),
        WireFormat::Gemini => format!("models/{model} is not found for API version v1beta."),
        WireFormat::Ollama => format!("model '{model}' not found"),
    };
    (
        404,
        body(format, 404, &message, Some("model_not_found")).to_string(),
    )
}

fn body(format: WireFormat, status: u16, message: &str, code: Option<&str>) -> Value {
    match format {
        WireFormat::OpenAiChat | WireFormat::OpenAiResponses => {
            let (kind, usual_code) = match status {
                401 => ("invalid_request_error", Some("invalid_api_key")),
                404 => ("invalid_request_error", Some("model_not_found")),
                429 => ("requests", Some("rate_limit_exceeded")),
                500.. => ("server_error", None),
                _ => ("invalid_request_error", None),
            };
            json!({ "error": { "message": message, "type": kind, "param": null, "code": code.or(usual_code) } })
        }
        WireFormat::Anthropic => {
            let kind = match status {
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            };
            json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_fake" })
        }
        WireFormat::Gemini => {
            let name = match status {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                500 => "INTERNAL",
                501.. => "UNAVAILABLE",
                _ => "INVALID_ARGUMENT",
            };
            json!({ "error": { "code": status, "message": message, "status": name } })
        }
        WireFormat::Ollama => json!({ "error": message }),
    }
}

fn overflow(format: WireFormat) -> &'static str {
    match format {
        WireFormat::OpenAiChat => {
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
        }
        WireFormat::OpenAiResponses => {
            "Your input exceeds the context window of this model. Please adjust your input."
        }
        WireFormat::Anthropic => "prompt is too long: 210000 tokens > 200000 maximum",
        WireFormat::Gemini => {
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
        }
        WireFormat::Ollama => "input length exceeds maximum context length",
    }
}

fn usual(status: u16) -> &'static str {
    match status {
        400 => "Invalid value for one of the fields.",
        401 => "Incorrect API key provided.",
        403 => "Your key may not use this resource.",
        404 => "The requested resource was not found.",
        429 => "Rate limit reached.",
        529 => "Overloaded",
        _ => "Internal server error.",
    }
}
