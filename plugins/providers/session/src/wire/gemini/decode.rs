//! A streamed `generateContent` answer.

use bezel_session_types::{ModelEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::{Decode, Events};
use crate::failure::Fault;
use crate::refusal;
use crate::wire::Text;
use crate::wire::calls::Calls;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    usage_metadata: Option<TokenCounts>,
    #[serde(default)]
    prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow, default)]
    thought_signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenCounts {
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    tool_use_prompt_token_count: u64,
    #[serde(default)]
    cached_content_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    thoughts_token_count: u64,
}

/// Reads the chunks of one answer. Nothing but the end of the body says that it is complete.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    calls: Calls,
    usage: Usage,
    stop_reason: Option<StopReason>,
}

impl Decode for Decoder {
    fn event(&mut self, data: &[u8], events: &mut Events) -> Result<(), Fault> {
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|_| Fault::malformed(data))?;
        if let Some(error) = chunk.error {
            return Err(Fault::Reported(refusal::from_value(error)));
        }
        if let Some(counts) = chunk.usage_metadata {
            self.usage = counts.into();
        }
        if chunk
            .prompt_feedback
            .is_some_and(|feedback| feedback.block_reason.is_some())
        {
            self.stop_reason = Some(StopReason::Refusal);
        }
        // More than one candidate is never asked for.
        let Some(candidate) = chunk.candidates.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        for part in candidate
            .content
            .and_then(|content| content.parts)
            .unwrap_or_default()
        {
            self.part(part, events);
        }
        if let Some(Text(reason)) = candidate.finish_reason {
            self.stop_reason =
                Some(stop_reason(&reason).ok_or_else(|| Fault::malformed(reason.as_bytes()))?);
        }
        Ok(())
    }

    fn end(&mut self, events: &mut Events) -> Result<(), Fault> {
        let stop_reason = match self.stop_reason.take() {
            None => return Err(Fault::Cut),
            Some(StopReason::Stop) if !self.calls.is_empty() => StopReason::ToolUse,
            Some(reason) => reason,
        };
        events.push(ModelEvent::End {
            stop_reason,
            usage: self.usage,
        });
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }
}

impl Decoder {
    fn part(&mut self, part: Part<'_>, events: &mut Events) {
        let signature = part
            .thought_signature
            .map(|Text(signature)| signature.into_owned());
        if let Some(called) = part.function_call {
            let id = called
                .id
                .map(|Text(id)| id.into_owned())
                .unwrap_or_default();
            let call = self.calls.start(&id, &called.name.0, signature, events);
            self.calls
                .arguments(call, called.args.map_or("", RawValue::get), events);
            self.calls.finish(call, None, events);
            return;
        }
        let text = part.text.as_ref().map_or("", |Text(text)| text);
        if part.thought {
            events.thinking(text);
        } else {
            events.text(text);
        }
        if let Some(signature) = signature {
            if !part.thought || text.is_empty() {
                events.push(ModelEvent::Thinking(String::new()));
            }
            events.push(ModelEvent::ThinkingSignature(signature));
        }
    }
}

impl From<TokenCounts> for Usage {
    fn from(counts: TokenCounts) -> Self {
        let input = counts.prompt_token_count + counts.tool_use_prompt_token_count;
        Usage {
            input: input.saturating_sub(counts.cached_content_token_count),
            output: counts.candidates_token_count + counts.thoughts_token_count,
            cache_read: counts.cached_content_token_count,
            cache_write: 0,
            reasoning: counts.thoughts_token_count,
        }
    }
}

/// `None` where the model wrote a call that Google could not read: the answer is worth another try.
fn stop_reason(reason: &str) -> Option<StopReason> {
    match reason {
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => None,
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Some(StopReason::Stop),
        "MAX_TOKENS" => Some(StopReason::Length),
        _ => Some(StopReason::Refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire_tests::{decode, error_of};

    #[test]
    fn the_signature_of_a_text_follows_it_as_reasoning_without_text() {
        let stream = [
            r#"{"candidates":[{"content":{"parts":[{"text":"so","thoughtSignature":"s"}]},"finishReason":"STOP"}]}"#,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        let expected = [
            ModelEvent::Text("so".into()),
            ModelEvent::Thinking(String::new()),
            ModelEvent::ThinkingSignature("s".into()),
        ];
        assert_eq!(events[..3], expected);
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        let stream = [
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls"}},{"functionCall":{"name":"ls","args":{"p":1}}}]},"finishReason":"STOP"}]}"#,
        ];
        let events = decode(Decoder::default(), &stream).unwrap();
        let ids: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::ToolCall(call) => Some(call.id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn a_blocked_prompt_is_a_refusal_and_a_broken_call_worth_another_try() {
        let events = decode(
            Decoder::default(),
            &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#],
        )
        .unwrap();
        assert!(matches!(
            events[0],
            ModelEvent::End {
                stop_reason: StopReason::Refusal,
                ..
            }
        ));
        let broken = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#;
        assert!(matches!(
            error_of(Decoder::default(), &[broken]),
            Fault::Malformed(_)
        ));
    }
}
