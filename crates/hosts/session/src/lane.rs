//! A harness lane behind the facets' handle.

use std::sync::Arc;

use bezel_api_session::backend::LaneBackend;
use bezel_api_session::{
    Admission, Capabilities, Departure, LaneError, Navigation, NavigationError, Outcome,
    PromptDraft, PromptError,
};
use bezel_context::Context;
use bezel_harness::{
    AbortError, CompactError, EditError, EventKind, Lane, NavigateError, NavigateRequest,
    NextRequestError, PromptRequest, ResumeError, Resumed, Stopped,
};
use bezel_plugin::Registry;
use bezel_session_types::{
    CommandId, Delivery, EntryId, ModelRef, NextRequest, OperationId, QueuedMessage, RunState,
    ThinkingLevel, UserMessage,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::backend::CAPABILITIES;
use crate::events::stopped;
use crate::sources::Models;

pub(crate) struct HostLane {
    pub(crate) lane: Lane,
    pub(crate) models: Arc<Models>,
    pub(crate) prompt: Registry<PromptDraft>,
    pub(crate) queue: watch::Receiver<Arc<[QueuedMessage]>>,
}

impl LaneBackend for HostLane {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn prompt<'a>(
        &'a self,
        cx: &'a Context,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
        resume: bool,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        async move {
            let request = PromptRequest {
                command_id,
                message,
                delivery,
                resume,
            };
            let admitted = self.lane.prompt(cx, request).await.map_err(prompt_error)?;
            Ok(Admission {
                operation_id: admitted.operation_id,
                message_id: Some(admitted.message_id),
            })
        }
        .boxed()
    }

    fn request_abort<'a>(
        &'a self,
        cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move {
            match self.lane.request_abort(cx, operation).await {
                Ok(()) => Ok(true),
                Err(AbortError::NotRunning { .. }) => Ok(false),
                Err(AbortError::Cancelled(_)) => Err(LaneError::Cancelled),
                Err(error) => Err(LaneError::Storage(error.to_string())),
            }
        }
        .boxed()
    }

    fn compact<'a>(
        &'a self,
        cx: &'a Context,
        instructions: Option<String>,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        async move {
            let started = self.lane.compact(cx, instructions).await;
            let operation_id = started.map_err(|error| match error {
                CompactError::Nothing => PromptError::Refused(error.to_string()),
                error => PromptError::Storage(error.to_string()),
            })?;
            Ok(Admission {
                operation_id,
                message_id: None,
            })
        }
        .boxed()
    }

    fn navigate<'a>(
        &'a self,
        cx: &'a Context,
        navigation: Navigation,
    ) -> BoxFuture<'a, Result<OperationId, NavigationError>> {
        async move {
            let Navigation {
                target,
                summary,
                label,
            } = navigation;
            let request = NavigateRequest {
                target,
                summary,
                label,
            };
            let started = self.lane.navigate(cx, request).await;
            started.map_err(navigation_error)
        }
        .boxed()
    }

    fn set_departure<'a>(
        &'a self,
        cx: &'a Context,
        departure: Option<Departure>,
    ) -> BoxFuture<'a, Result<(), NavigationError>> {
        async move {
            let departure = departure.map(|Departure { from }| bezel_harness::Departure { from });
            let set = self.lane.set_departure(cx, departure).await;
            set.map_err(navigation_error)
        }
        .boxed()
    }

    fn departure(&self) -> Option<Departure> {
        let departure = self.lane.departure();
        departure.map(|bezel_harness::Departure { from }| Departure { from })
    }

    fn edit<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
        message: UserMessage,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move { changed(self.lane.edit(cx, id, message).await) }.boxed()
    }

    fn promote<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move { changed(self.lane.promote(cx, id).await) }.boxed()
    }

    fn resume<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move {
            match self.lane.resume(cx).await {
                Ok(Resumed::Nothing) => Ok(false),
                Ok(Resumed::Started(_) | Resumed::Joined(_)) => Ok(true),
                Err(ResumeError::Cancelled(_)) => Err(LaneError::Cancelled),
                Err(error) => Err(LaneError::Storage(error.to_string())),
            }
        }
        .boxed()
    }

    fn withdraw<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        async move { changed(self.lane.withdraw(cx, id).await) }.boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<Outcome, LaneError>> {
        async move {
            // The subscription comes first, so that an end between the two is not missed.
            let mut watch = self.lane.watch();
            let last = self
                .lane
                .last_outcome()
                .map_err(|error| LaneError::Storage(error.to_string()))?;
            if let Some(last) = last.filter(|last| last.operation_id == *operation) {
                return Ok(Outcome {
                    operation_id: last.operation_id,
                    outcome: last.outcome,
                });
            }
            let runs = watch.snapshot.state.operation_id() == Some(operation);
            let waits = watch
                .snapshot
                .queued
                .iter()
                .any(|queued| queued.operation_id == *operation);
            if let Some(found) = watch.snapshot.stopped.filter(|_| !runs)
                && found.operation_id == *operation
            {
                return Ok(stopped(&found));
            }
            if !runs && !waits {
                return Err(LaneError::UnknownOperation(operation.clone()));
            }
            let ended = async {
                while let Some(event) = watch.events.next().await {
                    let ended = match event.kind {
                        EventKind::RunEnd {
                            operation_id,
                            outcome,
                        } => Outcome {
                            operation_id,
                            outcome,
                        },
                        EventKind::Fault {
                            operation_id: Some(operation_id),
                            message,
                            refused,
                        } => stopped(&Stopped {
                            operation_id,
                            message: message.into(),
                            refused,
                        }),
                        _ => continue,
                    };
                    if ended.operation_id == *operation {
                        return Ok(ended);
                    }
                }
                Err(LaneError::Storage("the session was closed".into()))
            };
            cx.run(ended).await.unwrap_or(Err(LaneError::Cancelled))
        }
        .boxed()
    }

    fn next_request<'a>(
        &'a self,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<NextRequest, LaneError>> {
        async move {
            let request = self.lane.next_request(cx).await;
            let request = request.map_err(|error| match error {
                NextRequestError::Refused { message, .. } => LaneError::Refused(message),
                NextRequestError::Cancelled(_) => LaneError::Cancelled,
                NextRequestError::Storage(_) => LaneError::Storage(error.to_string()),
            })?;
            Ok(NextRequest {
                sections: self.prompt.current().sections.clone(),
                ..request
            })
        }
        .boxed()
    }

    fn activity(&self) -> watch::Receiver<RunState> {
        self.lane.states()
    }

    fn queue(&self) -> watch::Receiver<Arc<[QueuedMessage]>> {
        self.queue.clone()
    }

    fn set_model(&self, model: Option<ModelRef>, thinking: ThinkingLevel) {
        self.models.choose(model, thinking);
    }
}

fn changed(outcome: Result<QueuedMessage, EditError>) -> Result<bool, LaneError> {
    match outcome {
        Ok(_) => Ok(true),
        Err(EditError::Delivered { .. } | EditError::Unknown { .. }) => Ok(false),
        Err(error) => Err(LaneError::Storage(error.to_string())),
    }
}

fn navigation_error(error: NavigateError) -> NavigationError {
    match error {
        NavigateError::Busy { .. } => NavigationError::Busy(error.to_string()),
        NavigateError::Current | NavigateError::Unknown { .. } | NavigateError::AtRoot => {
            NavigationError::Refused(error.to_string())
        }
        error => NavigationError::Storage(error.to_string()),
    }
}

fn prompt_error(error: bezel_harness::PromptError) -> PromptError {
    use bezel_harness::PromptError as Harness;
    match error {
        Harness::Empty | Harness::ImageTooLarge { .. } => PromptError::Refused(error.to_string()),
        Harness::Conflict { command_id } => PromptError::Conflict(command_id),
        Harness::Closed | Harness::Cancelled(_) => PromptError::Busy(error.to_string()),
        Harness::Storage(_) | Harness::Read(_) => PromptError::Storage(error.to_string()),
    }
}
