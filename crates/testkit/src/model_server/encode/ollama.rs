//! Ollama `/api/chat`: JSON lines.

use bezel_session_types::{StopReason, Usage};
use serde_json::{Value, json};

use super::{Encode, pieces, thinking_pieces};
use crate::script::{Answer, ScriptedCall, StreamFault};

pub(super) struct Encoder {
    model: String,
}

impl Encoder {
    pub(super) fn new(model: &str) -> Self {
        Encoder {
            model: model.into(),
        }
    }

    fn line(&self, mut message: Value) -> String {
        message["role"] = "assistant".into();
        if message["content"].is_null() {
            message["content"] = "".into();
        }
        let line = json!({
            "model": self.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false,
        });
        format!("{line}\n")
    }
}

impl Encode for Encoder {
    fn start(&mut self, _usage: &Usage) -> Vec<String> {
        Vec::new()
    }

    fn text(&mut self, delta: &str) -> Vec<String> {
        vec![self.line(json!({ "content": delta }))]
    }

    fn thinking(&mut self, text: &str, _signature: Option<&str>) -> Vec<String> {
        thinking_pieces(text)
            .map(|piece| self.line(json!({ "thinking": piece })))
            .collect()
    }

    fn tool_call(&mut self, id: &str, call: &ScriptedCall) -> Vec<String> {
        vec![self.line(json!({ "tool_calls": [call_of(id, call)] }))]
    }

    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String> {
        let mut line = done(&self.model, reason, usage);
        line["message"] = json!({ "role": "assistant", "content": "" });
        vec![format!("{line}\n")]
    }

    fn fault(&mut self, _fault: StreamFault) -> Vec<String> {
        vec!["{\"error\":\"the model runner has stopped\"}\n".into()]
    }
}

pub(super) fn whole(model: &str, number: usize, answer: &Answer) -> Value {
    let pieces = pieces(number, answer);
    let calls: Vec<_> = pieces
        .calls
        .iter()
        .map(|(id, call)| call_of(id, call))
        .collect();
    let mut line = done(model, answer.ends_with(), &answer.costs());
    line["message"] = json!({ "role": "assistant", "content": pieces.text, "tool_calls": calls });
    line
}

fn done(model: &str, reason: StopReason, usage: &Usage) -> Value {
    json!({
        "model": model, "created_at": "2026-01-01T00:00:00Z", "done": true,
        "done_reason": if reason == StopReason::Length { "length" } else { "stop" },
        "prompt_eval_count": usage.total_input(), "eval_count": usage.output,
    })
}

fn call_of(id: &str, call: &ScriptedCall) -> Value {
    json!({ "id": id, "function": { "name": call.name, "arguments": call.arguments } })
}
