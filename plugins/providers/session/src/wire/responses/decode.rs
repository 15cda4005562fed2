//! A streamed Responses answer.

use bezel_session_types::{ModelEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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
    delta: Option<&'a RawValue>,
    #[serde(default)]
    output_index: usize,
    #[serde(default)]
    summary_index: usize,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    encrypted_content: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Response {
    usage: Option<ResponseUsage>,
    incomplete_details: Option<IncompleteDetails>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponseUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// Reads the events of one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    calls: Calls,
    /// The place in the output of each call, in the order in which the calls began.
    places: Vec<usize>,
    /// Whether the reasoning that is open has shown anything.
    thought: bool,
    refused: bool,
    complete: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], events: &mut Events) -> Result<(), Fault> {
        let malformed = || Fault::malformed(data);
        // Some servers end the stream as chat completions do.
        if data == b"[DONE]" {
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_slice(data).map_err(|_| malformed())?;
        let delta = || {
            let raw = event.delta.ok_or_else(malformed)?;
            serde_json::from_str::<Text<'_>>(raw.get()).map_err(|_| malformed())
        };
        let item = || {
            let raw = event.item.ok_or_else(malformed)?;
            serde_json::from_str::<Item>(raw.get()).map_err(|_| malformed())
        };
        let response = || match event.response {
            None => Ok(Response::default()),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| malformed()),
        };
        match &*event.kind.0 {
            "response.output_text.delta" => events.text(&delta()?.0),
            "response.refusal.delta" => {
                self.refused = true;
                events.text(&delta()?.0);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                events.thinking(&delta()?.0);
            }
            "response.reasoning_summary_part.added" if event.summary_index > 0 => {
                events.thinking("\n\n")
            }
            "response.function_call_arguments.delta" => {
                if let Some(call) = self.call_at(event.output_index) {
                    self.calls.arguments(call, &delta()?.0, events);
                }
            }
            "response.output_item.added" => self.added(event.output_index, &item()?, events),
            "response.output_item.done" => self.done(event.output_index, item()?, events),
            "response.completed" | "response.incomplete" => self.finish(response()?, events),
            "response.failed" => {
                return Err(Fault::Reported(refusal::from_value(
                    response()?.error.unwrap_or_default(),
                )));
            }
            // `{ type, code, message }` at OpenAI, `{ type, error }` elsewhere.
            "error" => {
                let raw = event.error.map_or_else(
                    || serde_json::from_slice(data),
                    |raw| serde_json::from_str(raw.get()),
                );
                return Err(Fault::Reported(refusal::from_value(
                    raw.map_err(|_| malformed())?,
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _events: &mut Events) -> Result<(), Fault> {
        Err(Fault::Cut)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Decoder {
    fn call_at(&self, place: usize) -> Option<usize> {
        self.places.iter().rposition(|known| *known == place)
    }

    fn added(&mut self, place: usize, item: &Item, events: &mut Events) {
        match item.kind.as_str() {
            "function_call" => {
                self.places.push(place);
                let id = item.call_id.as_deref().unwrap_or_default();
                self.calls
                    .start(id, item.name.as_deref().unwrap_or_default(), None, events);
            }
            "reasoning" => self.thought = false,
            _ => {}
        }
    }

    fn done(&mut self, place: usize, item: Item, events: &mut Events) {
        match item.kind.as_str() {
            "function_call" => {
                if self.call_at(place).is_none() {
                    self.added(place, &item, events);
                }
                if let Some(call) = self.call_at(place) {
                    self.calls.finish(call, item.arguments.as_deref(), events);
                }
            }
            "reasoning" => {
                if let Some(encrypted) = item.encrypted_content {
                    if !self.thought {
                        events.push(ModelEvent::Thinking(String::new()));
                    }
                    events.push(ModelEvent::ThinkingSignature(encrypted));
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, response: Response, events: &mut Events) {
        self.complete = true;
        self.calls.finish_all(events);
        let incomplete = response
            .incomplete_details
            .and_then(|details| details.reason);
        let stop_reason = match incomplete.as_deref() {
            Some("content_filter") => StopReason::Refusal,
            Some(_) => StopReason::Length,
            None if self.refused => StopReason::Refusal,
            None if !self.calls.is_empty() => StopReason::ToolUse,
            None => StopReason::Stop,
        };
        let usage = response.usage.map(Usage::from).unwrap_or_default();
        events.push(ModelEvent::End { stop_reason, usage });
    }
}

impl From<ResponseUsage> for Usage {
    fn from(usage: ResponseUsage) -> Self {
        let details = usage.input_tokens_details;
        let cache_read = details
            .as_ref()
            .and_then(|details| details.cached_tokens)
            .unwrap_or_default();
        let cache_write = details
            .and_then(|details| details.cache_write_tokens)
            .unwrap_or_default();
        Usage {
            input: usage
                .input_tokens
                .saturating_sub(cache_read)
                .saturating_sub(cache_write),
            output: usage.output_tokens,
            cache_read,
            cache_write,
            reasoning: usage
                .output_tokens_details
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_tests::{decode, error_of};

    const COMPLETED: &str = r#"{"type":"response.completed","response":{"usage":null}}"#;

    #[test]
    fn reasoning_that_shows_nothing_still_carries_its_signature() {
        let stream = [
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","summary":[]}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":[],"encrypted_content":"e"}}"#,
            COMPLETED,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(
            events[..2],
            [
                ModelEvent::Thinking(String::new()),
                ModelEvent::ThinkingSignature("e".into())
            ]
        );
    }

    #[test]
    fn a_refusal_is_shown_and_named() {
        let stream = [
            r#"{"type":"response.refusal.delta","delta":"no"}"#,
            COMPLETED,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(events[0], ModelEvent::Text("no".into()));
        assert!(matches!(
            events[1],
            ModelEvent::End {
                stop_reason: StopReason::Refusal,
                ..
            }
        ));
    }

    #[test]
    fn both_shapes_of_an_error_event_are_read() {
        for event in [
            r#"{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null}"#,
            r#"{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow down"}}"#,
        ] {
            let Fault::Reported(report) = error_of(Decoder::default(), &[event]) else {
                panic!("{event}")
            };
            assert_eq!(report.message, "slow down");
            assert!(report.codes.contains("rate_limit"), "{report:?}");
        }
    }

    #[test]
    fn a_call_whose_beginning_was_not_told_is_complete_all_the_same() {
        let done = r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}}"#;
        let events = decode(Decoder::default(), &[done, COMPLETED]).unwrap();
        assert!(
            matches!(&events[1], ModelEvent::ToolCall(call) if call.id == "c" && call.name == "ls")
        );
    }
}
