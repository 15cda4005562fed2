//! OpenAI Responses, with its full sequence of events.

use bezel_session_types::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Encode, argument_pieces, named, pieces, thinking_pieces};
use crate::script::{Answer, ScriptedCall, StreamFault};

pub(super) struct Encoder {
    id: String,
    model: String,
    sequence: usize,
    output: Vec<Value>,
    message: Option<String>,
}

impl Encoder {
    pub(super) fn new(model: &str, number: usize) -> Self {
        Encoder {
            id: format!("resp_{number}"),
            model: model.into(),
            sequence: 0,
            output: Vec::new(),
            message: None,
        }
    }

    fn event(&mut self, name: &str, mut value: Value) -> String {
        value["type"] = name.into();
        value["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        named(name, &value)
    }

    /// An event about the item that is open now.
    fn item_event(&mut self, name: &str, item_id: &str, mut value: Value) -> String {
        value["item_id"] = item_id.into();
        value["output_index"] = self.output.len().into();
        self.event(name, value)
    }

    fn added(&mut self, item: Value) -> String {
        let index = self.output.len();
        self.event(
            "response.output_item.added",
            json!({ "output_index": index, "item": item }),
        )
    }

    fn done(&mut self, item: Value) -> String {
        let event = json!({ "output_index": self.output.len(), "item": item });
        self.output.push(item);
        self.event("response.output_item.done", event)
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.id, self.output.len())
    }

    fn close_message(&mut self) -> Vec<String> {
        let Some(text) = self.message.take() else {
            return Vec::new();
        };
        let id = self.item_id("msg");
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let done = json!({ "content_index": 0, "text": text, "logprobs": [] });
        let part_done = json!({ "content_index": 0, "part": part });
        vec![
            self.item_event("response.output_text.done", &id, done),
            self.item_event("response.content_part.done", &id, part_done),
            self.done(message_item(&id, "completed", vec![part])),
        ]
    }

    fn response(&self, status: &str, usage: Value, details: Value) -> Value {
        json!({ "response": {
            "id": self.id, "object": "response", "created_at": 1_700_000_000_u64, "status": status, "model": self.model,
            "output": self.output, "usage": usage, "incomplete_details": details, "error": null, "store": false,
        } })
    }
}

impl Encode for Encoder {
    fn start(&mut self, _usage: &Usage) -> Vec<String> {
        let response = self.response("in_progress", Value::Null, Value::Null);
        vec![
            self.event("response.created", response.clone()),
            self.event("response.in_progress", response),
        ]
    }

    fn text(&mut self, delta: &str) -> Vec<String> {
        let id = self.item_id("msg");
        let mut frames = Vec::new();
        if self.message.is_none() {
            frames.push(self.added(message_item(&id, "in_progress", Vec::new())));
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            frames.push(self.item_event(
                "response.content_part.added",
                &id,
                json!({ "content_index": 0, "part": part }),
            ));
        }
        self.message.get_or_insert_default().push_str(delta);
        let delta =
            json!({ "content_index": 0, "delta": delta, "logprobs": [], "obfuscation": "x" });
        frames.push(self.item_event("response.output_text.delta", &id, delta));
        frames
    }

    fn thinking(&mut self, text: &str, signature: Option<&str>) -> Vec<String> {
        let mut frames = self.close_message();
        let id = self.item_id("rs");
        frames.push(self.added(json!({ "id": id, "type": "reasoning", "summary": [] })));
        let part = |text: &str| json!({ "summary_index": 0, "part": { "type": "summary_text", "text": text } });
        frames.push(self.item_event("response.reasoning_summary_part.added", &id, part("")));
        for piece in thinking_pieces(text) {
            let delta = json!({ "summary_index": 0, "delta": piece });
            frames.push(self.item_event("response.reasoning_summary_text.delta", &id, delta));
        }
        let done = json!({ "summary_index": 0, "text": text });
        frames.push(self.item_event("response.reasoning_summary_text.done", &id, done));
        frames.push(self.item_event("response.reasoning_summary_part.done", &id, part(text)));
        frames.push(self.done(reasoning_item(&id, text, signature)));
        frames
    }

    fn tool_call(&mut self, call_id: &str, call: &ScriptedCall) -> Vec<String> {
        let mut frames = self.close_message();
        let id = self.item_id("fc");
        frames.push(self.added(call_item(&id, "in_progress", call_id, &call.name, "")));
        for piece in argument_pieces(call) {
            frames.push(self.item_event(
                "response.function_call_arguments.delta",
                &id,
                json!({ "delta": piece }),
            ));
        }
        let arguments = call.argument_text();
        let done = json!({ "arguments": arguments });
        frames.push(self.item_event("response.function_call_arguments.done", &id, done));
        frames.push(self.done(call_item(&id, "completed", call_id, &call.name, &arguments)));
        frames
    }

    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String> {
        let mut frames = self.close_message();
        let (status, details) = status(reason);
        let response = self.response(status, usage_of(usage), details);
        frames.push(self.event(&format!("response.{status}"), response));
        frames
    }

    fn fault(&mut self, fault: StreamFault) -> Vec<String> {
        let (code, message) = match fault {
            StreamFault::Overloaded => (
                "server_is_overloaded",
                "Our servers are currently overloaded.",
            ),
            StreamFault::RateLimited => (
                "rate_limit_exceeded",
                "Rate limit reached. Please try again in 1.5s.",
            ),
            StreamFault::ContextOverflow => (
                "context_length_exceeded",
                "Your input exceeds the context window of this model.",
            ),
        };
        let mut response = self.response("failed", Value::Null, Value::Null);
        response["response"]["error"] = json!({ "code": code, "message": message });
        vec![self.event("response.failed", response)]
    }
}

pub(super) fn whole(model: &str, number: usize, answer: &Answer) -> Value {
    let pieces = pieces(number, answer);
    let mut output: Vec<_> = pieces
        .thinking
        .iter()
        .map(|(text, signature)| reasoning_item("rs_0", text, *signature))
        .collect();
    if !pieces.text.is_empty() {
        let part = json!({ "type": "output_text", "text": pieces.text, "annotations": [] });
        output.push(message_item("msg_0", "completed", vec![part]));
    }
    let calls = pieces.calls.iter().enumerate();
    output.extend(calls.map(|(index, (id, call))| {
        call_item(
            &format!("fc_{index}"),
            "completed",
            id,
            &call.name,
            &call.argument_text(),
        )
    }));
    let (status, details) = status(answer.ends_with());
    json!({
        "id": format!("resp_{number}"), "object": "response", "created_at": 1_700_000_000_u64, "status": status,
        "model": model, "output": output, "usage": usage_of(&answer.costs()), "incomplete_details": details,
        "error": null, "store": false,
    })
}

fn status(reason: StopReason) -> (&'static str, Value) {
    match reason {
        StopReason::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        StopReason::Refusal => ("incomplete", json!({ "reason": "content_filter" })),
        _ => ("completed", Value::Null),
    }
}

fn message_item(id: &str, status: &str, content: Vec<Value>) -> Value {
    json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
}

fn reasoning_item(id: &str, text: &str, signature: Option<&str>) -> Value {
    json!({
        "id": id, "type": "reasoning", "summary": [{ "type": "summary_text", "text": text }],
        "encrypted_content": signature,
    })
}

fn call_item(id: &str, status: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({
        "id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name, "arguments": arguments,
    })
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.total_input(),
        "input_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write },
        "output_tokens": usage.output, "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.total_input() + usage.output,
    })
}
