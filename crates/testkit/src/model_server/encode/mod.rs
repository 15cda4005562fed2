//! Answers in the words of each wire format.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod refusal;

use bezel_session_types::{StopReason, Usage};
use serde_json::Value;

pub(super) use refusal::{refusal, unauthorised, unknown_model};

use crate::script::{Answer, ScriptedCall, Step, StreamFault, words};
use crate::{Flood, WireFormat};

/// Writes one answer as the events of one wire format. Every string is one or more whole events.
pub(super) trait Encode: Send {
    /// What comes before any content.
    fn start(&mut self, usage: &Usage) -> Vec<String>;

    /// One delta of text.
    fn text(&mut self, delta: &str) -> Vec<String>;

    /// A whole part of reasoning.
    fn thinking(&mut self, text: &str, signature: Option<&str>) -> Vec<String>;

    /// A whole tool call; `id` is the script's or the server's.
    fn tool_call(&mut self, id: &str, call: &ScriptedCall) -> Vec<String>;

    /// What comes after all content.
    fn finish(&mut self, reason: StopReason, usage: &Usage) -> Vec<String>;

    /// A failure inside the stream.
    fn fault(&mut self, fault: StreamFault) -> Vec<String>;
}

/// An encoder for one answer; `number` is the request's, for ids.
pub(super) fn encoder(format: WireFormat, model: &str, number: usize) -> Box<dyn Encode> {
    match format {
        WireFormat::OpenAiChat => Box::new(openai_chat::Encoder::new(model, number)),
        WireFormat::OpenAiResponses => Box::new(openai_responses::Encoder::new(model, number)),
        WireFormat::Anthropic => Box::new(anthropic::Encoder::new(model, number)),
        WireFormat::Gemini => Box::new(gemini::Encoder::new(model, number)),
        WireFormat::Ollama => Box::new(ollama::Encoder::new(model)),
    }
}

/// The id that the server gives a call to which the script gives none.
pub(super) fn call_id(number: usize, call: &ScriptedCall, index: usize) -> String {
    call.id
        .clone()
        .unwrap_or_else(|| format!("call_{number}_{index}"))
}

/// An event that breaks off inside its JSON.
pub(super) fn malformed(format: WireFormat) -> String {
    match format {
        WireFormat::Anthropic => {
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{]\n\n"
                .into()
        }
        WireFormat::Ollama => "{\"message\":{]\n".into(),
        _ => "data: {\"choices\":[{\"delta\":{]\n\n".into(),
    }
}

/// The content type of a streamed answer.
pub(super) fn content_type(format: WireFormat) -> &'static str {
    match format {
        WireFormat::Ollama => "application/x-ndjson",
        _ => "text/event-stream; charset=utf-8",
    }
}

/// The same answer in one piece, for a caller that does not stream.
pub(super) fn whole(format: WireFormat, model: &str, number: usize, answer: &Answer) -> Value {
    match format {
        WireFormat::OpenAiChat => openai_chat::whole(model, number, answer),
        WireFormat::OpenAiResponses => openai_responses::whole(model, number, answer),
        WireFormat::Anthropic => anthropic::whole(model, number, answer),
        WireFormat::Gemini => gemini::whole(model, number, answer),
        WireFormat::Ollama => ollama::whole(model, number, answer),
    }
}

/// A whole flood with its HTTP chunk framing, the final chunk included, as the writes it takes.
pub(super) fn flood(format: WireFormat, model: &str, number: usize, flood: &Flood) -> Vec<Vec<u8>> {
    let mut encoder = encoder(format, model, number);
    let usage = Usage {
        input: 12,
        output: flood.deltas as u64,
        ..Usage::default()
    };
    let mut writes = Vec::new();
    let mut bytes = Vec::new();
    let append = |frames: Vec<String>, bytes: &mut Vec<u8>| {
        for frame in frames {
            super::http::chunk(bytes, frame.as_bytes());
        }
    };
    append(encoder.start(&usage), &mut bytes);
    for delta in 1..=flood.deltas {
        append(encoder.text(&flood.text), &mut bytes);
        if delta % flood.a_write.max(1) == 0 {
            writes.push(std::mem::take(&mut bytes));
        }
    }
    append(encoder.finish(StopReason::Stop, &usage), &mut bytes);
    bytes.extend_from_slice(super::http::LAST_CHUNK);
    writes.push(bytes);
    writes
}

/// The text, reasoning and calls of an answer in one piece.
#[derive(Default)]
struct Pieces<'a> {
    text: String,
    thinking: Vec<(&'a str, Option<&'a str>)>,
    calls: Vec<(String, &'a ScriptedCall)>,
}

fn pieces(number: usize, answer: &Answer) -> Pieces<'_> {
    let mut pieces = Pieces::default();
    for step in &answer.steps {
        match step {
            Step::Text(text) => pieces.text.push_str(text),
            Step::Thinking { text, signature } => {
                pieces.thinking.push((text, signature.as_deref()))
            }
            Step::ToolCall(call) => pieces
                .calls
                .push((call_id(number, call, pieces.calls.len()), call)),
            _ => {}
        }
    }
    pieces
}

/// A server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// A named server-sent event.
fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Arguments in the pieces in which they are streamed; characters are never cut.
fn argument_pieces(call: &ScriptedCall) -> Vec<String> {
    let text = call.argument_text();
    let characters: Vec<char> = text.chars().collect();
    characters
        .chunks(12)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn thinking_pieces(text: &str) -> impl Iterator<Item = &str> {
    words(text)
}
