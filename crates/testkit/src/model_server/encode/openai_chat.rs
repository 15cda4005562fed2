//! OpenAI chat completions. Reasoning goes as OpenRouter and others have it: `reasoning_content`, or
//! `reasoning_details` where there is a signature.

use bezel_session_types::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Encode, argument_pieces, data, pieces, thinking_pieces};
use crate::script::{Answer, ScriptedCall, StreamFault};

pub(super) struct Encoder {
    id: String,
    model: String,
    calls: usize,
    details: usize,
}

impl Encoder {
    pub(super) fn new(model: &str, number: usize) -> Self {
        Encoder {
            id: format!("chatcmpl-{number}"),
            model: model.into(),
            calls: 0,
            details: 0,
        }
    }

    fn chunk(&self, choices: Value, usage: Value) -> String {
        data(&json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 1_700_000_000_u64, "model": self.model,
            "system_fingerprint": "fp_fake", "choices": choices, "usage": usage,
        }))
    }

    fn delta(&self, delta: Value) -> String {
        self.chunk(
            json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]),
            Value::Null,
        )
    }
}

impl Encode for Encoder {
    fn start(&mut self, _usage: &Usage) -> Vec<String> {
        vec![self.delta(json!({ "role": "assistant", "content": "" }))]
    }

    fn text(&mut self, delta: &str) -> Vec<String> {
        vec![self.delta(json!({ "content": delta }))]
    }

    fn thinking(&mut self, text: &str, signature: Option<&str>) -> Vec<String> {
        let Some(signature) = signature else {
            return thinking_pieces(text)
                .map(|piece| self.delta(json!({ "reasoning_content": piece })))
                .collect();
        };
        let index = self.details;
        self.details += 1;
        let detail = |field: &str, value: &str| json!({ "reasoning_details": [{ "type": "reasoning.text", field: value, "index": index }] });
        let mut frames: Vec<_> = thinking_pieces(text)
            .map(|piece| self.delta(detail("text", piece)))
            .collect();
        frames.push(self.delta(detail("signature", signature)));
        frames
    }

    fn tool_call(&mut self, id: &str, call: &ScriptedCall) -> Vec<String> {
        let index = self.calls;
        self.calls += 1;
        let function = json!({ "name": call.name, "arguments": "" });
        let mut frames = vec![self.delta(json!({
            "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }]
        }))];
        frames.extend(argument_pieces(call).into_iter().map(|piece| {
            self.delta(
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }),
            )
        }));
        frames
    }

    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String> {
        let last = json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(reason) }]);
        vec![
            self.chunk(last, Value::Null),
            self.chunk(json!([]), usage_of(usage)),
            "data: [DONE]\n\n".into(),
        ]
    }

    fn fault(&mut self, fault: StreamFault) -> Vec<String> {
        let (code, message) = match fault {
            StreamFault::Overloaded => {
                ("server_error", "The server is overloaded or not ready yet.")
            }
            StreamFault::RateLimited => ("rate_limit_exceeded", "Rate limit reached for requests."),
            StreamFault::ContextOverflow => (
                "context_length_exceeded",
                "This model's maximum context length is 128000 tokens.",
            ),
        };
        vec![data(
            &json!({ "error": { "message": message, "type": code, "param": null, "code": code } }),
        )]
    }
}

pub(super) fn whole(model: &str, number: usize, answer: &Answer) -> Value {
    let pieces = pieces(number, answer);
    let calls: Vec<_> = pieces
        .calls
        .iter()
        .map(|(id, call)| {
            json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": call.argument_text() } })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": pieces.text });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 1_700_000_000_u64, "model": model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(answer.ends_with()) }],
        "usage": usage_of(&answer.costs()),
    })
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::ToolUse => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Stop | StopReason::Error | StopReason::Aborted => "stop",
    }
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.total_input(), "completion_tokens": usage.output,
        "total_tokens": usage.total_input() + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
