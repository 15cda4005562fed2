//! What the tests of all decoders share: decoding a list of events, and garbage that must not panic.

use bezel_session_types::ModelEvent;
use proptest::prelude::*;

use crate::answer::{Decode, Events};
use crate::failure::Fault;
use crate::wire::{anthropic, chat, gemini, responses};

/// Everything that a stream of these events comes to.
pub(crate) fn decode(
    mut decoder: impl Decode,
    stream: &[impl AsRef<str>],
) -> Result<Vec<ModelEvent>, Fault> {
    let mut events = Events::default();
    for data in stream {
        if !decoder.is_complete() {
            decoder.event(data.as_ref().as_bytes(), &mut events)?;
        }
    }
    if !decoder.is_complete() {
        decoder.end(&mut events)?;
    }
    Ok(std::iter::from_fn(|| events.pop()).collect())
}

pub(crate) fn error_of(decoder: impl Decode, stream: &[impl AsRef<str>]) -> Fault {
    decode(decoder, stream).unwrap_err()
}

/// The text of an answer.
pub(crate) fn texts(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// JSON of the words that the formats use, nested at random: near misses of real events.
fn near_miss() -> impl Strategy<Value = String> {
    let words = [
        "choices",
        "delta",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "index",
        "id",
        "name",
        "finish_reason",
        "usage",
        "type",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
        "item",
        "function_call",
        "reasoning",
        "call_id",
        "content_block_start",
        "content_block",
        "content_block_delta",
        "content_block_stop",
        "tool_use",
        "thinking",
        "message_stop",
        "message_delta",
        "candidates",
        "parts",
        "text",
        "functionCall",
        "args",
        "error",
        "finishReason",
        "STOP",
        "output_index",
        "reasoning_details",
    ];
    let word = prop::sample::select(words.to_vec()).prop_map(|word| format!("\"{word}\""));
    let leaf = prop_oneof![
        4 => word.clone(),
        1 => Just("null".to_string()),
        1 => any::<i32>().prop_map(|number| number.to_string()),
        1 => any::<bool>().prop_map(|truth| truth.to_string()),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let member = (word.clone(), inner.clone()).prop_map(|(name, value)| format!("{name}:{value}"));
        prop_oneof![
            3 => prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
            1 => prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

/// One outcome of a decoder that met garbage; only that it comes back matters.
fn feed(mut decoder: impl Decode, stream: &[Vec<u8>]) {
    let mut events = Events::default();
    for data in stream {
        if decoder.event(data, &mut events).is_err() {
            return;
        }
    }
    decoder.end(&mut events).ok();
}

proptest! {
    #[test]
    fn no_decoder_panics_on_garbage(
        stream in prop::collection::vec(
            prop_oneof![near_miss().prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..40)],
            0..8,
        ),
    ) {
        feed(chat::Decoder::default(), &stream);
        feed(responses::Decoder::default(), &stream);
        feed(anthropic::Decoder::default(), &stream);
        feed(gemini::Decoder::default(), &stream);
    }
}
