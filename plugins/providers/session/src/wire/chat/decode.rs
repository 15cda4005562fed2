//! A streamed chat completions answer.

use bezel_session_types::{ModelEvent, StopReason, Usage};

use super::chunk::{CallDelta, Chunk, ContentChunk, Delta, Detail};
use super::{IN_CONTENT, REASONING, REASONING_CONTENT};
use crate::answer::{Decode, Events};
use crate::failure::Fault;
use crate::refusal;
use crate::wire::Text;
use crate::wire::calls::Calls;

/// Reads the chunks of one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    calls: Calls,
    /// The server's index of each call, in the order in which the calls began.
    indices: Vec<usize>,
    /// Where the reasoning that is open came from; none when none is open.
    thinking: Option<&'static str>,
    details: Vec<Detail>,
    usage: Usage,
    stop_reason: Option<StopReason>,
    /// A piece of a call came, and nothing had named it.
    nameless: bool,
    complete: bool,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], events: &mut Events) -> Result<(), Fault> {
        if data == b"[DONE]" {
            return self.finish(events);
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|_| Fault::malformed(data))?;
        if let Some(error) = chunk.error {
            return Err(Fault::Reported(refusal::from_value(error)));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.into();
        }
        // More than one choice is never asked for.
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        if let Some(usage) = choice.usage {
            self.usage = usage.into();
        }
        if let Some(delta) = choice.delta {
            self.delta(delta, events);
        }
        if let Some(Text(reason)) = choice.finish_reason {
            self.stop_reason = Some(stop_reason(&reason));
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Events) -> Result<(), Fault> {
        if self.stop_reason.is_none() {
            return Err(Fault::Cut);
        }
        self.finish(events)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Decoder {
    fn delta(&mut self, delta: Delta<'_>, events: &mut Events) {
        if let Some(details) = delta
            .reasoning_details
            .filter(|details| !details.is_empty())
        {
            details
                .into_iter()
                .for_each(|detail| self.detail(detail, events));
        } else if let Some(Text(piece)) = delta.reasoning_content {
            self.think(REASONING_CONTENT, &piece, events);
        } else if let Some(Text(piece)) = delta.reasoning {
            self.think(REASONING, &piece, events);
        }
        if let Some(piece) = delta.content.text {
            self.text(&piece, events);
        }
        for chunk in delta.content.chunks {
            match chunk {
                ContentChunk::Text { text } => self.text(&text, events),
                ContentChunk::Thinking { thinking } => {
                    for chunk in thinking {
                        if let ContentChunk::Text { text } = chunk {
                            self.think(IN_CONTENT, &text, events);
                        }
                    }
                }
                ContentChunk::Other => {}
            }
        }
        if let Some(Text(piece)) = delta.refusal {
            self.text(&piece, events);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.end_thinking(events);
            self.call(call, events);
        }
    }

    fn text(&mut self, piece: &str, events: &mut Events) {
        if !piece.is_empty() {
            self.end_thinking(events);
            events.text(piece);
        }
    }

    fn think(&mut self, origin: &'static str, piece: &str, events: &mut Events) {
        if !piece.is_empty() {
            self.thinking = Some(origin);
            events.thinking(piece);
        }
    }

    fn detail(&mut self, detail: Detail, events: &mut Events) {
        self.thinking = Some(REASONING);
        let shown = detail.text.as_deref().or(detail.summary.as_deref());
        events.thinking(shown.unwrap_or_default());
        match self.details.last_mut() {
            Some(last) if last.kind == detail.kind && last.index == detail.index => {
                last.extend(detail)
            }
            _ => self.details.push(detail),
        }
    }

    /// The part of reasoning that is open ends, if one is.
    fn end_thinking(&mut self, events: &mut Events) {
        let Some(origin) = self.thinking.take() else {
            return;
        };
        let details = std::mem::take(&mut self.details);
        let signature = if details.is_empty() {
            None
        } else {
            serde_json::to_string(&details).ok()
        };
        events.push(ModelEvent::ThinkingSignature(
            signature.unwrap_or_else(|| origin.into()),
        ));
    }

    fn call(&mut self, delta: CallDelta<'_>, events: &mut Events) {
        let text =
            |text: Option<Text<'_>>| text.map(|Text(text)| text.into_owned()).unwrap_or_default();
        let id = text(delta.id);
        let (name, piece) = delta
            .function
            .map(|function| (text(function.name), text(function.arguments)))
            .unwrap_or_default();
        let index = delta
            .index
            .unwrap_or_else(|| self.indices.last().copied().unwrap_or_default());
        let known = self.indices.iter().rposition(|known| *known == index);
        // Some servers number every call 0 and tell them apart by id alone.
        let another = !id.is_empty() && !name.is_empty() && self.calls.with_id(&id).is_none();
        let call = match known {
            Some(call) if !another => call,
            // Its name may follow.
            _ if name.is_empty() => {
                self.nameless |= !id.is_empty() || !piece.is_empty();
                return;
            }
            _ => {
                self.indices.push(index);
                self.calls.start(&id, &name, None, events)
            }
        };
        self.calls.arguments(call, &piece, events);
    }

    fn finish(&mut self, events: &mut Events) -> Result<(), Fault> {
        if std::mem::replace(&mut self.complete, true) {
            return Ok(());
        }
        if self.nameless && self.calls.is_empty() {
            return Err(Fault::malformed(b"a tool call without a name"));
        }
        self.end_thinking(events);
        self.calls.finish_all(events);
        let stop_reason = match self.stop_reason {
            None | Some(StopReason::Stop) if !self.calls.is_empty() => StopReason::ToolUse,
            reason => reason.unwrap_or(StopReason::Stop),
        };
        events.push(ModelEvent::End {
            stop_reason,
            usage: self.usage,
        });
        Ok(())
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "length" => StopReason::Length,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_tests::{decode, error_of, texts};

    fn chunks(deltas: &[&str]) -> Vec<String> {
        deltas
            .iter()
            .map(|delta| format!("{{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}"))
            .collect()
    }

    fn calls(events: &[ModelEvent]) -> Vec<String> {
        let calls = events.iter().filter_map(|event| match event {
            ModelEvent::ToolCall(call) => {
                Some(format!("{} {} {}", call.id, call.name, call.arguments))
            }
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn interleaved_parallel_calls_are_told_apart() {
        let mut stream = chunks(&[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"c\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}},{"index":1,"function":{"arguments":"2}"}}]}"#,
        ]);
        stream.push("[DONE]".into());
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(calls(&events), [r#"a read {"p":1}"#, r#"b bash {"c":2}"#]);
        assert!(matches!(
            events.last(),
            Some(ModelEvent::End {
                stop_reason: StopReason::ToolUse,
                ..
            })
        ));
    }

    #[test]
    fn calls_that_all_have_one_index_are_told_apart_by_id() {
        let mut stream = chunks(&[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"id":"b","function":{"name":"bash","arguments":"{}"}}]}"#,
        ]);
        stream.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.into());
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(calls(&events), ["a read {}", "b bash {}"]);
    }

    #[test]
    fn a_call_that_nothing_names_is_an_error_and_no_quiet_end() {
        let mut stream = chunks(&[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"","arguments":"{}"}}]}"#,
        ]);
        stream.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.into());
        stream.push("[DONE]".into());
        let error = decode(Decoder::default(), &stream).unwrap_err();
        assert!(format!("{error:?}").contains("without a name"), "{error:?}");
        // A name that comes a little later is in time.
        let mut stream = chunks(&[
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}]}"#,
        ]);
        stream.push("[DONE]".into());
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(calls(&events), ["a read {}"]);
    }

    #[test]
    fn reasoning_is_found_wherever_a_server_puts_it_and_says_where() {
        for (delta, signature) in [
            (r#"{"reasoning_content":"hm"}"#, "reasoning_content"),
            (r#"{"reasoning":"hm"}"#, "reasoning"),
            (
                r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#,
                "content",
            ),
            (
                r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}"#,
                r#"[{"type":"reasoning.text","text":"hm","index":0}]"#,
            ),
        ] {
            let mut stream = chunks(&[delta, r#"{"content":"so"}"#]);
            stream.push("[DONE]".into());
            let events = decode(Decoder::default(), &stream).unwrap();
            let expected = [
                ModelEvent::Thinking("hm".into()),
                ModelEvent::ThinkingSignature(signature.into()),
                ModelEvent::Text("so".into()),
            ];
            assert_eq!(events[..3], expected, "{delta}");
        }
    }

    #[test]
    fn an_answer_without_a_reason_to_end_was_cut() {
        let stream = chunks(&[r#"{"content":"half"}"#]);
        assert_eq!(error_of(Decoder::default(), &stream), Fault::Cut);
        let mut stream = chunks(&[
            r#"{"role":"assistant","content":null}"#,
            r#"{"content":"whole"}"#,
        ]);
        stream.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
        let events = decode(Decoder::default(), &stream).unwrap();
        assert_eq!(texts(&events), "whole");
    }
}
