//! A streamed Messages answer.

use bezel_session_types::{ModelEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::REDACTED;
use crate::answer::{Decode, Events};
use crate::failure::Fault;
use crate::refusal;
use crate::wire::Text;
use crate::wire::calls::Calls;

/// Every event at once: which fields it has follows from its type.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<ContentBlock<'a>>,
    #[serde(default)]
    message: Option<MessageStart>,
    #[serde(default)]
    usage: Option<TokenCounts>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    data: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct MessageStart {
    #[serde(default)]
    usage: Option<TokenCounts>,
}

#[derive(Deserialize)]
struct TokenCounts {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

/// The block that is open.
#[derive(Debug, Default)]
enum Open {
    #[default]
    None,
    Text,
    /// With the signature so far, and whether anything was shown.
    Thinking {
        signature: String,
        shown: bool,
    },
    Call(usize),
}

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    calls: Calls,
    open: Open,
    usage: Usage,
    stop_reason: Option<StopReason>,
    complete: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], events: &mut Events) -> Result<(), Fault> {
        let event: Event<'_> = serde_json::from_slice(data).map_err(|_| Fault::malformed(data))?;
        match &*event.kind.0 {
            "content_block_delta" => {
                self.delta(event.delta.ok_or_else(|| Fault::malformed(data))?, events)
            }
            "content_block_start" => {
                self.start(
                    event.content_block.ok_or_else(|| Fault::malformed(data))?,
                    events,
                );
            }
            "content_block_stop" => self.close(events),
            "message_start" => {
                if let Some(counts) = event.message.and_then(|message| message.usage) {
                    self.count(&counts);
                }
            }
            "message_delta" => {
                if let Some(counts) = event.usage {
                    self.count(&counts);
                }
                if let Some(Text(reason)) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop_reason = Some(stop_reason(&reason));
                }
            }
            "message_stop" => self.finish(events),
            "error" => {
                return Err(Fault::Reported(refusal::from_value(
                    event.error.unwrap_or_default(),
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Events) -> Result<(), Fault> {
        if self.stop_reason.is_none() {
            return Err(Fault::Cut);
        }
        self.finish(events);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Decoder {
    fn start(&mut self, block: ContentBlock<'_>, events: &mut Events) {
        self.close(events);
        match &*block.kind.0 {
            "text" => {
                self.open = Open::Text;
                events.text(block.text.as_ref().map_or("", |Text(text)| text));
            }
            "thinking" => {
                let signature = block
                    .signature
                    .map(|Text(text)| text.into_owned())
                    .unwrap_or_default();
                let thought = block.thinking.as_ref().map_or("", |Text(text)| text);
                events.thinking(thought);
                self.open = Open::Thinking {
                    signature,
                    shown: !thought.is_empty(),
                };
            }
            "redacted_thinking" => {
                let data = block.data.as_ref().map_or("", |Text(text)| text);
                self.open = Open::Thinking {
                    signature: format!("{REDACTED}{data}"),
                    shown: false,
                };
            }
            "tool_use" => {
                let text = |text: &Option<Text<'_>>| {
                    text.as_ref()
                        .map(|Text(text)| text.to_string())
                        .unwrap_or_default()
                };
                let call = self
                    .calls
                    .start(&text(&block.id), &text(&block.name), None, events);
                self.open = Open::Call(call);
            }
            _ => {}
        }
    }

    fn delta(&mut self, delta: Delta<'_>, events: &mut Events) {
        match &mut self.open {
            Open::Text => {
                if let Some(Text(piece)) = delta.text {
                    events.text(&piece);
                }
            }
            Open::Thinking { signature, shown } => {
                if let Some(Text(piece)) = delta.thinking {
                    *shown |= !piece.is_empty();
                    events.thinking(&piece);
                }
                if let Some(Text(piece)) = delta.signature {
                    signature.push_str(&piece);
                }
            }
            Open::Call(call) => {
                if let Some(Text(piece)) = delta.partial_json {
                    self.calls.arguments(*call, &piece, events);
                }
            }
            Open::None => {}
        }
    }

    fn close(&mut self, events: &mut Events) {
        match std::mem::take(&mut self.open) {
            Open::Thinking { signature, shown } if !signature.is_empty() => {
                if !shown {
                    events.push(ModelEvent::Thinking(String::new()));
                }
                events.push(ModelEvent::ThinkingSignature(signature));
            }
            Open::Call(call) => self.calls.finish(call, None, events),
            _ => {}
        }
    }

    /// Later counts replace earlier ones: they are totals.
    fn count(&mut self, counts: &TokenCounts) {
        let usage = &mut self.usage;
        usage.input = counts.input_tokens.unwrap_or(usage.input);
        usage.output = counts.output_tokens.unwrap_or(usage.output);
        usage.cache_read = counts.cache_read_input_tokens.unwrap_or(usage.cache_read);
        usage.cache_write = counts
            .cache_creation_input_tokens
            .unwrap_or(usage.cache_write);
    }

    fn finish(&mut self, events: &mut Events) {
        if std::mem::replace(&mut self.complete, true) {
            return;
        }
        self.close(events);
        self.calls.finish_all(events);
        let stop_reason = self.stop_reason.unwrap_or(StopReason::Stop);
        events.push(ModelEvent::End {
            stop_reason,
            usage: self.usage,
        });
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_tests::{decode, error_of, texts};

    #[test]
    fn reasoning_that_is_not_shown_keeps_its_data() {
        let stream = [
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"d"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        let expected = [
            ModelEvent::Thinking(String::new()),
            ModelEvent::ThinkingSignature("redacted:d".into()),
        ];
        assert_eq!(events[..2], expected);
    }

    #[test]
    fn the_totals_of_the_end_replace_those_of_the_start() {
        let stream = [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1,"cache_read_input_tokens":4}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":20}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        let usage = Usage {
            input: 9,
            output: 20,
            cache_read: 4,
            ..Usage::default()
        };
        assert_eq!(
            events,
            [ModelEvent::End {
                stop_reason: StopReason::Length,
                usage
            }]
        );
    }

    #[test]
    fn blocks_and_events_that_are_not_known_are_skipped() {
        let stream = [
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"x","name":"web"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{}}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!((texts(&events).as_str(), events.len()), ("ab", 2));
    }

    #[test]
    fn an_answer_without_its_end_was_cut() {
        let stream = [
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}"#,
        ];
        assert_eq!(error_of(Decoder::default(), &stream), Fault::Cut);
    }
}
