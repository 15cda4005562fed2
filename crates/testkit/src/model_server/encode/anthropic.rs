//! Anthropic Messages.

use bezel_session_types::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Encode, argument_pieces, named, pieces, thinking_pieces};
use crate::script::{Answer, ScriptedCall, StreamFault};

pub(super) struct Encoder {
    id: String,
    model: String,
    blocks: usize,
    in_text: bool,
}

impl Encoder {
    pub(super) fn new(model: &str, number: usize) -> Self {
        Encoder {
            id: format!("msg_{number}"),
            model: model.into(),
            blocks: 0,
            in_text: false,
        }
    }

    fn open(&self, block: Value) -> String {
        named(
            "content_block_start",
            &json!({ "type": "content_block_start", "index": self.blocks, "content_block": block }),
        )
    }

    fn delta(&self, delta: Value) -> String {
        named(
            "content_block_delta",
            &json!({ "type": "content_block_delta", "index": self.blocks, "delta": delta }),
        )
    }

    fn close(&mut self) -> String {
        let event = named(
            "content_block_stop",
            &json!({ "type": "content_block_stop", "index": self.blocks }),
        );
        self.blocks += 1;
        event
    }

    fn close_text(&mut self) -> Vec<String> {
        if std::mem::take(&mut self.in_text) {
            vec![self.close()]
        } else {
            Vec::new()
        }
    }
}

impl Encode for Encoder {
    fn start(&mut self, usage: &Usage) -> Vec<String> {
        let message = json!({
            "id": self.id, "type": "message", "role": "assistant", "content": [], "model": self.model,
            "stop_reason": null, "stop_sequence": null, "usage": usage_of(usage, 1),
        });
        vec![
            named(
                "message_start",
                &json!({ "type": "message_start", "message": message }),
            ),
            named("ping", &json!({ "type": "ping" })),
        ]
    }

    fn text(&mut self, delta: &str) -> Vec<String> {
        let mut frames = Vec::new();
        if !std::mem::replace(&mut self.in_text, true) {
            frames.push(self.open(json!({ "type": "text", "text": "" })));
        }
        frames.push(self.delta(json!({ "type": "text_delta", "text": delta })));
        frames
    }

    fn thinking(&mut self, text: &str, signature: Option<&str>) -> Vec<String> {
        let mut frames = self.close_text();
        if let (true, Some(data)) = (text.is_empty(), signature) {
            frames.push(self.open(json!({ "type": "redacted_thinking", "data": data })));
            frames.push(self.close());
            return frames;
        }
        frames.push(self.open(json!({ "type": "thinking", "thinking": "", "signature": "" })));
        frames.extend(
            thinking_pieces(text)
                .map(|piece| self.delta(json!({ "type": "thinking_delta", "thinking": piece }))),
        );
        if let Some(signature) = signature {
            frames.push(self.delta(json!({ "type": "signature_delta", "signature": signature })));
        }
        frames.push(self.close());
        frames
    }

    fn tool_call(&mut self, id: &str, call: &ScriptedCall) -> Vec<String> {
        let mut frames = self.close_text();
        frames.push(
            self.open(json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} })),
        );
        frames.push(self.delta(json!({ "type": "input_json_delta", "partial_json": "" })));
        let pieces = argument_pieces(call).into_iter();
        frames.extend(
            pieces.map(|piece| {
                self.delta(json!({ "type": "input_json_delta", "partial_json": piece }))
            }),
        );
        frames.push(self.close());
        frames
    }

    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String> {
        let mut frames = self.close_text();
        let delta = json!({ "stop_reason": stop_reason(reason), "stop_sequence": null });
        let usage = usage_of(usage, usage.output);
        frames.push(named(
            "message_delta",
            &json!({ "type": "message_delta", "delta": delta, "usage": usage }),
        ));
        frames.push(named("message_stop", &json!({ "type": "message_stop" })));
        frames
    }

    fn fault(&mut self, fault: StreamFault) -> Vec<String> {
        let (kind, message) = match fault {
            StreamFault::Overloaded => ("overloaded_error", "Overloaded"),
            StreamFault::RateLimited => (
                "rate_limit_error",
                "Number of request tokens has exceeded your rate limit",
            ),
            StreamFault::ContextOverflow => (
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
        };
        vec![named(
            "error",
            &json!({ "type": "error", "error": { "type": kind, "message": message } }),
        )]
    }
}

pub(super) fn whole(model: &str, number: usize, answer: &Answer) -> Value {
    let pieces = pieces(number, answer);
    let mut content: Vec<_> = pieces
        .thinking
        .iter()
        .map(|(text, signature)| json!({ "type": "thinking", "thinking": text, "signature": signature }))
        .collect();
    if !pieces.text.is_empty() {
        content.push(json!({ "type": "text", "text": pieces.text }));
    }
    let calls = pieces.calls.iter();
    content.extend(
        calls.map(|(id, call)| json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.arguments })),
    );
    let usage = answer.costs();
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason(answer.ends_with()), "stop_sequence": null, "usage": usage_of(&usage, usage.output),
    })
}

fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::ToolUse => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::Stop | StopReason::Error | StopReason::Aborted => "end_turn",
    }
}

fn usage_of(usage: &Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": output,
    })
}
