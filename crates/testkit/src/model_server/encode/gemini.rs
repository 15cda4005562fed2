//! Gemini `streamGenerateContent` with `alt=sse`.

use bezel_session_types::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Encode, data, pieces, thinking_pieces};
use crate::script::{Answer, ScriptedCall, StreamFault};

pub(super) struct Encoder {
    id: String,
    model: String,
}

impl Encoder {
    pub(super) fn new(model: &str, number: usize) -> Self {
        Encoder {
            id: format!("gemini-{number}"),
            model: model.into(),
        }
    }

    fn parts(&self, parts: Vec<Value>) -> String {
        data(&json!({
            "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }],
            "usageMetadata": { "promptTokenCount": 1, "totalTokenCount": 1 },
            "modelVersion": self.model, "responseId": self.id,
        }))
    }
}

impl Encode for Encoder {
    fn start(&mut self, _usage: &Usage) -> Vec<String> {
        Vec::new()
    }

    fn text(&mut self, delta: &str) -> Vec<String> {
        vec![self.parts(vec![json!({ "text": delta })])]
    }

    fn thinking(&mut self, text: &str, signature: Option<&str>) -> Vec<String> {
        let mut pieces: Vec<_> = thinking_pieces(text).collect();
        if pieces.is_empty() {
            pieces.push("");
        }
        let last = pieces.len().saturating_sub(1);
        let part = |(index, piece): (usize, &&str)| {
            let mut part = json!({ "text": piece, "thought": !text.is_empty() });
            if let (true, Some(signature)) = (index == last, signature) {
                part["thoughtSignature"] = signature.into();
            }
            self.parts(vec![part])
        };
        pieces.iter().enumerate().map(part).collect()
    }

    fn tool_call(&mut self, id: &str, call: &ScriptedCall) -> Vec<String> {
        vec![self.parts(vec![call_part(id, call)])]
    }

    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String> {
        vec![data(&json!({
            "candidates": [{
                "content": { "parts": [{ "text": "" }], "role": "model" },
                "finishReason": finish_reason(reason), "index": 0,
            }],
            "usageMetadata": usage_of(usage), "modelVersion": self.model, "responseId": self.id,
        }))]
    }

    fn fault(&mut self, fault: StreamFault) -> Vec<String> {
        let (code, status, message) = match fault {
            StreamFault::Overloaded => (
                503,
                "UNAVAILABLE",
                "The model is overloaded. Please try again later.",
            ),
            StreamFault::RateLimited => (
                429,
                "RESOURCE_EXHAUSTED",
                "Resource has been exhausted (e.g. check quota).",
            ),
            StreamFault::ContextOverflow => (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        };
        vec![data(
            &json!({ "error": { "code": code, "message": message, "status": status } }),
        )]
    }
}

pub(super) fn whole(model: &str, number: usize, answer: &Answer) -> Value {
    let pieces = pieces(number, answer);
    let mut parts: Vec<_> = pieces
        .thinking
        .iter()
        .map(|(text, signature)| json!({ "text": text, "thought": true, "thoughtSignature": signature }))
        .collect();
    if !pieces.text.is_empty() {
        parts.push(json!({ "text": pieces.text }));
    }
    parts.extend(pieces.calls.iter().map(|(id, call)| call_part(id, call)));
    json!({
        "candidates": [{
            "content": { "parts": parts, "role": "model" },
            "finishReason": finish_reason(answer.ends_with()), "index": 0,
        }],
        "usageMetadata": usage_of(&answer.costs()), "modelVersion": model, "responseId": format!("gemini-{number}"),
    })
}

fn call_part(id: &str, call: &ScriptedCall) -> Value {
    let arguments = if call.arguments.is_null() {
        json!({})
    } else {
        call.arguments.clone()
    };
    let mut part = json!({ "functionCall": { "id": id, "name": call.name, "args": arguments } });
    if let Some(signature) = &call.signature {
        part["thoughtSignature"] = signature.as_str().into();
    }
    part
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Length => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
        _ => "STOP",
    }
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.total_input(), "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output - usage.reasoning, "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total_input() + usage.output,
    })
}
