//! The scripted model as a provider.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    ModelEvent, ModelRef, ModelRequest, ModelSpec, ModelStream, Provider, ProviderError,
    ProviderErrorKind, StopReason, ToolCall, Usage,
};
use futures::StreamExt;
use futures::future::BoxFuture;

use crate::tour::{Audience, Part, answer};

/// The pace at which a person can read along: the time before each word.
const READABLE: Duration = Duration::from_millis(8);

/// The scripted model `scripted::tour`.
#[derive(Debug, Clone)]
pub struct Tour {
    scratch: Arc<PathBuf>,
    pace: Duration,
    audience: Audience,
}

impl Tour {
    /// A tour whose files are made in `scratch`, absolute or relative to the session's directory. With
    /// `interactive` it writes at a pace at which a person can read along, else as fast as it is read.
    pub fn new(scratch: impl Into<PathBuf>, interactive: bool) -> Self {
        Tour::paced(
            scratch,
            if interactive {
                READABLE
            } else {
                Duration::ZERO
            },
        )
    }

    /// The same with this time before each word.
    pub fn paced(scratch: impl Into<PathBuf>, pace: Duration) -> Self {
        Tour {
            scratch: Arc::new(scratch.into()),
            pace,
            audience: Audience {
                answers: !pace.is_zero(),
                ..Audience::default()
            },
        }
    }

    /// The same where `bezel` cannot be started by its name.
    #[must_use]
    pub fn not_installed(mut self) -> Self {
        self.audience.installed = false;
        self
    }
}

/// The model as the catalogue lists it.
pub fn model() -> ModelSpec {
    ModelSpec {
        model: ModelRef {
            provider: "scripted".into(),
            model_id: "tour".into(),
        },
        name: "Tour (a script, no key needed)".into(),
        reasoning: false,
        images: false,
        context: 0,
        max_output: 0,
        prices: None,
    }
}

impl Provider for Tour {
    fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>> {
        let (cx, tour) = (cx.clone(), self.clone());
        Box::pin(async move {
            if cx.is_cancelled() {
                return Err(cancelled());
            }
            let events = events(
                answer(&request, &tour.scratch, tour.audience),
                request.messages.len(),
            );
            let stream =
                futures::stream::unfold((cx, events), move |(cx, mut events)| async move {
                    let event = events.pop_front()?;
                    let waits = !tour.pace.is_zero() && matches!(event, ModelEvent::Text(_));
                    let ended = if waits {
                        cx.run(tokio::time::sleep(tour.pace)).await.map(drop)
                    } else {
                        cx.status()
                    };
                    if ended.is_err() {
                        events.clear();
                        return Some((Err(cancelled()), (cx, events)));
                    }
                    Some((Ok(event), (cx, events)))
                });
            Ok(stream.boxed())
        })
    }
}

/// An answer as events. `place` makes the ids of its calls its own in the conversation.
fn events(parts: Vec<Part>, place: usize) -> VecDeque<ModelEvent> {
    let mut events = VecDeque::new();
    let mut index = 0;
    for part in parts {
        match part {
            Part::Text(text) => {
                events.extend(
                    text.split_inclusive(char::is_whitespace)
                        .map(|word| ModelEvent::Text(word.into())),
                );
            }
            Part::Call { name, arguments } => {
                let id = format!("tour_{place}_{index}");
                events.push_back(ModelEvent::ToolCallStart {
                    index,
                    id: id.clone(),
                    name: name.into(),
                });
                events.push_back(ModelEvent::ToolCallDelta {
                    index,
                    arguments: arguments.to_string(),
                });
                events.push_back(ModelEvent::ToolCall(ToolCall {
                    id,
                    name: name.into(),
                    arguments,
                    signature: None,
                }));
                index += 1;
            }
        }
    }
    let stop_reason = if index > 0 {
        StopReason::ToolUse
    } else {
        StopReason::Stop
    };
    // A script costs nothing.
    events.push_back(ModelEvent::End {
        stop_reason,
        usage: Usage::default(),
    });
    events
}

fn cancelled() -> ProviderError {
    ProviderError {
        kind: ProviderErrorKind::Cancelled,
        message: "The tour was interrupted.".into(),
        status: None,
        retry_after: None,
    }
}
