//! genai's events as model events.

use std::collections::VecDeque;

use bezel_context::Context;
use bezel_session_types::{ModelEvent, ModelStream, ProviderError, StopReason, ToolCall, Usage};
use futures::StreamExt;
use futures::stream::BoxStream;
use genai::chat::{ChatStreamEvent, StreamEnd};
use serde_json::{Value, json};

use super::failure;
use crate::answer::Events;
use crate::failure::{Fault, Origin};

type Chat = BoxStream<'static, genai::Result<ChatStreamEvent>>;

/// What is left to do.
struct Reading {
    cx: Context,
    /// None once the answer has ended, well or not.
    answer: Option<Chat>,
    state: State,
    events: Events,
    origin: Origin,
}

#[derive(Default)]
struct State {
    /// Whether reasoning is open.
    thinking: bool,
    /// Signatures of which it is not known yet what they belong to.
    signatures: VecDeque<String>,
    /// The ids of the calls that were announced.
    calls: Vec<String>,
}

/// The events of an answer.
pub(super) fn read(cx: &Context, answer: Chat, origin: Origin) -> ModelStream {
    let reading = Reading {
        cx: cx.clone(),
        answer: Some(answer),
        state: State::default(),
        events: Events::default(),
        origin,
    };
    futures::stream::unfold(reading, |mut reading| async move {
        let item = reading.next().await?;
        Some((item, reading))
    })
    .boxed()
}

impl Reading {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        loop {
            if let Some(event) = self.events.pop() {
                return Some(Ok(event));
            }
            let answer = self.answer.as_mut()?;
            let event = self.cx.run(answer.next()).await;
            let failed = match event {
                Err(_) => self.origin.cancelled(),
                Ok(None) => self.origin.fault(Fault::Cut),
                Ok(Some(Err(error))) => failure(&self.origin, error),
                Ok(Some(Ok(ChatStreamEvent::End(end)))) => {
                    self.answer = None;
                    match self.state.end(end, &mut self.events) {
                        Ok(()) => continue,
                        Err(fault) => self.origin.fault(fault),
                    }
                }
                Ok(Some(Ok(event))) => {
                    self.state.event(event, &mut self.events);
                    continue;
                }
            };
            self.answer = None;
            return Some(Err(failed));
        }
    }
}

impl State {
    fn event(&mut self, event: ChatStreamEvent, events: &mut Events) {
        match event {
            ChatStreamEvent::Chunk(chunk) => {
                self.end_thinking(events);
                events.text(&chunk.content);
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                self.thinking = true;
                events.thinking(&chunk.content);
            }
            ChatStreamEvent::ThoughtSignatureChunk(chunk) => {
                self.signatures.push_back(chunk.content)
            }
            ChatStreamEvent::ToolCallChunk(chunk) => {
                self.end_thinking(events);
                let call = chunk.tool_call;
                if !call.fn_name.is_empty() && !self.calls.contains(&call.call_id) {
                    let index = self.calls.len();
                    self.calls.push(call.call_id.clone());
                    events.push(ModelEvent::ToolCallStart {
                        index,
                        id: call.call_id,
                        name: call.fn_name,
                    });
                }
            }
            ChatStreamEvent::Start | ChatStreamEvent::Heartbeat | ChatStreamEvent::End(_) => {}
        }
    }

    fn end_thinking(&mut self, events: &mut Events) {
        if std::mem::take(&mut self.thinking)
            && let Some(signature) = self.signatures.pop_front()
        {
            events.push(ModelEvent::ThinkingSignature(signature));
        }
    }

    fn end(&mut self, end: StreamEnd, events: &mut Events) -> Result<(), Fault> {
        self.end_thinking(events);
        // genai ends an answer that was cut like one that was not, but then it knows no reason.
        let reason = end.captured_stop_reason.clone().ok_or(Fault::Cut)?;
        let usage = end.captured_usage.as_ref().map(usage).unwrap_or_default();
        let calls = end.captured_into_tool_calls().unwrap_or_default();
        let called = !calls.is_empty();
        for call in calls {
            events.push(ModelEvent::ToolCall(ToolCall {
                id: call.call_id,
                name: call.fn_name,
                arguments: arguments(call.fn_arguments),
                // A signature that belongs to no reasoning is the first call's.
                signature: self.signatures.pop_front(),
            }));
        }
        if let Some(signature) = self.signatures.pop_front() {
            events.push(ModelEvent::Thinking(String::new()));
            events.push(ModelEvent::ThinkingSignature(signature));
        }
        use genai::chat::StopReason as Reason;
        let stop_reason = match reason {
            Reason::MaxTokens(_) => StopReason::Length,
            Reason::ContentFilter(_) => StopReason::Refusal,
            _ if called => StopReason::ToolUse,
            _ => StopReason::Stop,
        };
        events.push(ModelEvent::End { stop_reason, usage });
        Ok(())
    }
}

/// Arguments as a value: no text is no arguments, and text that is not JSON stays text.
fn arguments(arguments: Value) -> Value {
    match arguments {
        Value::Null => json!({}),
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}

fn usage(usage: &genai::chat::Usage) -> Usage {
    let count = |tokens: Option<i32>| {
        tokens
            .and_then(|tokens| u64::try_from(tokens).ok())
            .unwrap_or_default()
    };
    let details = usage.prompt_tokens_details.as_ref();
    let cache_read = count(details.and_then(|details| details.cached_tokens));
    let cache_write = count(details.and_then(|details| details.cache_creation_tokens));
    let reasoning = usage
        .completion_tokens_details
        .as_ref()
        .and_then(|details| details.reasoning_tokens);
    Usage {
        input: count(usage.prompt_tokens)
            .saturating_sub(cache_read)
            .saturating_sub(cache_write),
        output: count(usage.completion_tokens),
        cache_read,
        cache_write,
        reasoning: count(reasoning),
    }
}
