//! A scripted provider in this process: no sockets, the same script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    ModelEvent, ModelRequest, ModelStream, Provider, ProviderError, ProviderErrorKind, StopReason,
    ToolCall, Usage,
};
use futures::future::BoxFuture;
use futures::stream::StreamExt;

use crate::script::{Answer, Refusal, Step, StreamFault, Turn, words};
use crate::{ModelCall, Script};

/// A provider that answers by a script and keeps what it was asked. Clones are the same provider.
#[derive(Clone)]
pub struct ScriptedProvider {
    script: Script,
    // Held only to push or clone.
    requests: Arc<Mutex<Vec<ModelRequest>>>,
}

/// What a step comes to.
enum Action {
    Event(ModelEvent),
    Fail(ProviderError),
    Wait(Duration),
    Stall,
}

impl ScriptedProvider {
    /// A provider that answers by `script`.
    pub fn new(script: impl Into<Script>) -> Self {
        ScriptedProvider {
            script: script.into(),
            requests: Arc::default(),
        }
    }

    /// Adds a turn to the end of the script's queue.
    pub fn push(&self, turn: Turn) {
        self.script.push(turn);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock().clone()
    }

    /// Every request so far, as a fake sees it.
    pub fn calls(&self) -> Vec<ModelCall> {
        self.lock().iter().map(ModelCall::from).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ModelRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for ScriptedProvider {
    fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>> {
        let call = ModelCall::from(&request);
        let number = {
            let mut requests = self.lock();
            requests.push(request);
            requests.len() - 1
        };
        let turn = self.script.next(&call);
        let cx = cx.clone();
        Box::pin(async move {
            if cx.is_cancelled() {
                return Err(cancelled());
            }
            match turn {
                Turn::Refuse(refusal) => Err(refused(&refusal)),
                Turn::Flood(flood) => {
                    let usage = Usage {
                        input: 12,
                        output: flood.deltas as u64,
                        ..Usage::default()
                    };
                    let texts = std::iter::repeat_n(ModelEvent::Text(flood.text), flood.deltas);
                    let end = ModelEvent::End {
                        stop_reason: StopReason::Stop,
                        usage,
                    };
                    Ok(play(cx, texts.chain([end]).map(Action::Event).collect()))
                }
                Turn::Answer(answer) => Ok(play(cx, actions(number, &answer))),
            }
        })
    }
}

fn play(cx: Context, actions: VecDeque<Action>) -> ModelStream {
    futures::stream::unfold((cx, actions), |(cx, mut actions)| async move {
        loop {
            if cx.is_cancelled() {
                actions.clear();
                return Some((Err(cancelled()), (Context::background(), actions)));
            }
            match actions.pop_front()? {
                Action::Event(event) => return Some((Ok(event), (cx, actions))),
                Action::Fail(error) => {
                    actions.clear();
                    return Some((Err(error), (cx, actions)));
                }
                // Whichever way the wait ends, the loop looks at the context again.
                Action::Wait(duration) => drop(cx.run(tokio::time::sleep(duration)).await),
                Action::Stall => {
                    actions.push_front(Action::Stall);
                    cx.cancelled().await;
                }
            }
        }
    })
    .boxed()
}

fn actions(number: usize, answer: &Answer) -> VecDeque<Action> {
    let mut actions = VecDeque::new();
    let mut index = 0;
    for step in &answer.steps {
        let mut event = |event| actions.push_back(Action::Event(event));
        match step {
            Step::Text(text) => event(ModelEvent::Text(text.clone())),
            Step::Thinking { text, signature } => {
                words(text).for_each(|word| event(ModelEvent::Thinking(word.into())));
                if let Some(signature) = signature {
                    event(ModelEvent::ThinkingSignature(signature.clone()));
                }
            }
            Step::ToolCall(call) => {
                let id = call
                    .id
                    .clone()
                    .unwrap_or_else(|| format!("call_{number}_{index}"));
                event(ModelEvent::ToolCallStart {
                    index,
                    id: id.clone(),
                    name: call.name.clone(),
                });
                event(ModelEvent::ToolCallDelta {
                    index,
                    arguments: call.argument_text(),
                });
                let arguments = if call.arguments.is_null() {
                    serde_json::json!({})
                } else {
                    call.arguments.clone()
                };
                event(ModelEvent::ToolCall(ToolCall {
                    id,
                    name: call.name.clone(),
                    arguments,
                    signature: call.signature.clone(),
                }));
                index += 1;
            }
            Step::DelayMs(milliseconds) => {
                actions.push_back(Action::Wait(Duration::from_millis(*milliseconds)))
            }
            Step::Malformed => {
                actions.push_back(Action::Fail(error(
                    ProviderErrorKind::Malformed,
                    "the script sent a malformed event",
                )));
            }
            Step::Cut => {
                actions.push_back(Action::Fail(error(
                    ProviderErrorKind::Interrupted,
                    "the script cut the stream",
                )));
            }
            Step::Stall => actions.push_back(Action::Stall),
            Step::Fault(fault) => actions.push_back(Action::Fail(error(
                fault_kind(*fault),
                "the script failed the stream",
            ))),
        }
    }
    let end = ModelEvent::End {
        stop_reason: answer.ends_with(),
        usage: answer.costs(),
    };
    actions.push_back(Action::Event(end));
    actions
}

fn fault_kind(fault: StreamFault) -> ProviderErrorKind {
    match fault {
        StreamFault::Overloaded => ProviderErrorKind::Overloaded,
        StreamFault::RateLimited => ProviderErrorKind::RateLimited,
        StreamFault::ContextOverflow => ProviderErrorKind::ContextOverflow,
    }
}

fn refused(refusal: &Refusal) -> ProviderError {
    let kind = match refusal.status {
        _ if refusal.context_overflow => ProviderErrorKind::ContextOverflow,
        401 | 403 => ProviderErrorKind::Authentication,
        404 => ProviderErrorKind::UnknownModel,
        413 => ProviderErrorKind::ContextOverflow,
        429 => ProviderErrorKind::RateLimited,
        500.. => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::InvalidRequest,
    };
    let said = refusal
        .message
        .as_deref()
        .unwrap_or("the script refused the request");
    ProviderError {
        status: Some(refusal.status),
        retry_after: refusal
            .retry_after
            .as_deref()
            .and_then(|value| value.parse().ok())
            .map(Duration::from_secs_f64),
        ..error(kind, said)
    }
}

fn cancelled() -> ProviderError {
    error(
        ProviderErrorKind::Cancelled,
        "the model request was cancelled",
    )
}

fn error(kind: ProviderErrorKind, message: &str) -> ProviderError {
    ProviderError {
        kind,
        message: message.into(),
        status: None,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use bezel_session_types::{Message, RequestOptions, UserMessage};

    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            model: "fake::m".parse().unwrap(),
            system: "be kind".into(),
            messages: [Message::User(UserMessage::text("hello"))]
                .map(Arc::new)
                .into(),
            tools: [].into(),
            options: RequestOptions::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_plays_as_events_in_order() {
        let steps = [
            Step::thinking("well now", Some("sig")),
            Step::delay(Duration::from_secs(60)),
            Step::Text("hi".into()),
            Step::call("bash", serde_json::json!({ "command": "ls" })),
        ];
        let provider = ScriptedProvider::new(Turn::steps(steps));
        let stream = provider
            .stream(&Context::background(), request())
            .await
            .unwrap();
        let events: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(
            events[..4],
            [
                ModelEvent::Thinking("well ".into()),
                ModelEvent::Thinking("now".into()),
                ModelEvent::ThinkingSignature("sig".into()),
                ModelEvent::Text("hi".into()),
            ]
        );
        assert!(
            matches!(&events[6], ModelEvent::ToolCall(call) if call.arguments["command"] == "ls")
        );
        assert!(matches!(
            events[7],
            ModelEvent::End {
                stop_reason: StopReason::ToolUse,
                ..
            }
        ));
        assert_eq!(provider.calls()[0].last_user_text(), "hello");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_ends_a_stall() {
        let provider = ScriptedProvider::new(Turn::steps([Step::Text("hi".into()), Step::Stall]));
        let cx = Context::background().with_timeout(Duration::from_secs(5));
        let mut stream = provider.stream(&cx, request()).await.unwrap();
        assert_eq!(
            stream.next().await.unwrap().unwrap(),
            ModelEvent::Text("hi".into())
        );
        assert_eq!(
            stream.next().await.unwrap().unwrap_err().kind,
            ProviderErrorKind::Cancelled
        );
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn refusals_have_the_kind_of_their_status() {
        let provider = ScriptedProvider::new(Turn::status(429).retry_after("1.5"));
        let refused = provider
            .stream(&Context::background(), request())
            .await
            .err()
            .unwrap();
        assert_eq!(
            (refused.kind, refused.retry_after),
            (
                ProviderErrorKind::RateLimited,
                Some(Duration::from_millis(1500))
            )
        );
        let exhausted = provider
            .stream(&Context::background(), request())
            .await
            .err()
            .unwrap();
        assert!(exhausted.message.contains("no more turns"), "{exhausted}");
    }
}
