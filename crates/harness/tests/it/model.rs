//! A model that answers by script.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    Message, ModelEvent, ModelRequest, ModelStream, Provider, ProviderError, ProviderErrorKind,
    StopReason, ToolCall, Usage,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::Notify;

/// One thing that the model does.
#[derive(Clone)]
pub enum Act {
    Say(ModelEvent),
    Wait(Duration),
    /// Until somebody lets it go on.
    Gate(Arc<Notify>),
    /// Never goes on.
    Hang,
    Fail(ProviderError),
    /// Ends the stream without an end.
    Cut,
}

pub type Reply = Vec<Act>;

type Answers = dyn Fn(&ModelRequest, usize) -> Reply + Send + Sync;

/// A model that answers by script, and what it was asked.
pub struct Model {
    answers: Box<Answers>,
    pub requests: Mutex<Vec<ModelRequest>>,
    pub open: Arc<AtomicUsize>,
}

impl Model {
    pub fn new(
        answers: impl Fn(&ModelRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Model {
            answers: Box::new(answers),
            requests: Mutex::default(),
            open: Arc::default(),
        })
    }

    /// Gives these replies one after the other.
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        let replies: Mutex<VecDeque<Reply>> = Mutex::new(replies.into_iter().collect());
        Model::new(move |_, _| {
            replies
                .lock()
                .unwrap()
                .pop_front()
                .expect("the script goes on")
        })
    }

    pub fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub fn request(&self, index: usize) -> ModelRequest {
        self.requests.lock().unwrap()[index].clone()
    }
}

impl Provider for Model {
    fn stream(
        &self,
        _cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>> {
        assert_valid(&request.messages);
        let mut requests = self.requests.lock().unwrap();
        let acts = (self.answers)(&request, requests.len());
        requests.push(request);
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Closing(Arc::clone(&self.open));
        let acts = futures::stream::iter(acts).then(move |act| {
            let _open = &open;
            perform(act)
        });
        let events = acts.take_while(|event| std::future::ready(event.is_some()));
        let events = events.filter_map(|event| std::future::ready(event.flatten()));
        async move { Ok(events.boxed()) }.boxed()
    }
}

struct Closing(Arc<AtomicUsize>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `None` cuts the stream, `Some(None)` shows nothing.
async fn perform(act: Act) -> Option<Option<Result<ModelEvent, ProviderError>>> {
    match act {
        Act::Say(event) => Some(Some(Ok(event))),
        Act::Fail(error) => Some(Some(Err(error))),
        Act::Cut => None,
        Act::Wait(wait) => {
            tokio::time::sleep(wait).await;
            Some(None)
        }
        Act::Gate(gate) => {
            gate.notified().await;
            Some(None)
        }
        Act::Hang => std::future::pending().await,
    }
}

/// Every call has exactly one result, right after the answer that made it, and no result is alone.
pub fn assert_valid(messages: &[Arc<Message>]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match &**message {
            Message::ToolResult(result) => {
                let at = open.iter().position(|id| *id == result.call_id);
                open.remove(at.unwrap_or_else(|| panic!("{} has no call", result.call_id)));
            }
            Message::User(_) => assert!(open.is_empty(), "no result for {open:?}"),
            Message::Assistant(answer) => {
                assert!(open.is_empty(), "no result for {open:?}");
                open = answer.tool_calls().map(|call| call.id.as_str()).collect();
            }
        }
    }
    assert!(open.is_empty(), "no result for {open:?}");
}

pub fn text(text: &str) -> Act {
    Act::Say(ModelEvent::Text(text.into()))
}

pub fn call(id: &str, name: &str, arguments: Value) -> Act {
    let call = ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
        signature: None,
    };
    Act::Say(ModelEvent::ToolCall(call))
}

pub fn end(stop_reason: StopReason) -> Act {
    let usage = Usage {
        input: 100,
        output: 10,
        ..Usage::default()
    };
    Act::Say(ModelEvent::End { stop_reason, usage })
}

pub fn says(words: &str) -> Reply {
    vec![text(words), end(StopReason::Stop)]
}

pub fn calls(calls: impl IntoIterator<Item = Act>) -> Reply {
    calls
        .into_iter()
        .chain([end(StopReason::ToolUse)])
        .collect()
}

pub fn provider_error(kind: ProviderErrorKind, message: &str) -> ProviderError {
    ProviderError {
        kind,
        message: message.into(),
        status: None,
        retry_after: None,
    }
}

pub fn fails(kind: ProviderErrorKind) -> Reply {
    vec![Act::Fail(provider_error(kind, "the provider said no"))]
}
