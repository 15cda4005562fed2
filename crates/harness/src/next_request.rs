//! A model request before it is sent: what every request is made from, and the one that would come next.

use std::sync::Arc;

use bezel_context::{Cancelled, Context};
use bezel_session_types::{
    Message, ModelRef, NextRequest, OperationId, RequestOptions, ToolChoice,
};
use bezel_store::ReadError;

use crate::context::{assemble, complete, load_view};
use crate::harness::{ResolvedModel, SystemPromptSubject};
use crate::hooks::{HookFailure, PendingRequest};
use crate::lane::Lane;
use crate::request::Refused;
use crate::tools::ToolSet;

/// There is no request to show.
#[derive(Debug, thiserror::Error)]
pub enum NextRequestError {
    /// None could be made now: no model, or no system prompt.
    #[error("no request can be made now: {message}")]
    Refused {
        /// Stable code, as of a run that fails for it.
        code: &'static str,
        /// What is missing and what to do.
        message: String,
    },
    /// The conversation could not be read.
    #[error("the next request could not be made: {0}")]
    Storage(#[from] ReadError),
    /// The caller's context had ended.
    #[error("the next request was not made: {0}")]
    Cancelled(Cancelled),
}

impl Lane {
    /// What the model would be sent if it were asked now. Nothing is written, nobody is asked and nothing that runs
    /// is disturbed; the hooks that change requests are called, and told that this one is a preview.
    pub async fn next_request(&self, cx: &Context) -> Result<NextRequest, NextRequestError> {
        cx.status().map_err(NextRequestError::Cancelled)?;
        let refused = |refused| match refused {
            Refused::Failed { code, message } => NextRequestError::Refused { code, message },
            // What was asked of others ends early with its context alone.
            Refused::Aborted => match cx.status() {
                Err(cancelled) => NextRequestError::Cancelled(cancelled),
                Ok(()) => NextRequestError::Cancelled(Cancelled::Cancelled),
            },
        };
        let model = self.resolve_model(cx).await.map_err(refused)?;
        let tools = self.session.tools();
        let built = self.build_system(cx, &model.spec.model, &tools);
        let system = built.await.map_err(refused)?;
        let (tip, step) = {
            let state = self.core.lock();
            let tip = match &state.departure {
                Some(departure) => departure.from.clone(),
                None => state.tip.clone(),
            };
            let open = state.operation.as_ref();
            (tip, open.map_or(0, |operation| operation.step) + 1)
        };
        let view = match tip.clone() {
            None => Vec::new(),
            Some(tip) => {
                let store = self.session.store.clone();
                // Of a long session it is much to read: not on the runtime's own thread.
                let read = tokio::task::spawn_blocking(move || load_view(&store, &tip)).await;
                read.map_err(|_| NextRequestError::Cancelled(Cancelled::Cancelled))??
            }
        };
        let draft = self.draft_request(
            &OperationId::generate(),
            step,
            &model,
            system,
            assemble(&view).into(),
        );
        let draft = PendingRequest {
            preview: true,
            ..draft
        };
        let (request, failures) = self.patched(cx, draft).await;
        cx.status().map_err(NextRequestError::Cancelled)?;
        Ok(NextRequest {
            tip,
            model: request.model,
            system: request.system,
            sections: Vec::new(),
            tools: tools.definitions(),
            messages: request.messages,
            options: request.options,
            passed_over: failures.iter().map(ToString::to_string).collect(),
        })
    }

    /// The model that the next request goes to.
    pub(crate) async fn resolve_model(&self, cx: &Context) -> Result<ResolvedModel, Refused> {
        let Some(source) = self.session.model_source() else {
            let message = "no model is configured: choose one".to_owned();
            return Err(Refused::Failed {
                code: "model.none",
                message,
            });
        };
        match cx.run(source.resolve(cx, &self.core.name)).await {
            Ok(Ok(model)) => Ok(model),
            Ok(Err(error)) => Err(Refused::Failed {
                code: error.code,
                message: error.message,
            }),
            Err(_) => Err(Refused::Aborted),
        }
    }

    /// What that model is told first.
    pub(crate) async fn build_system(
        &self,
        cx: &Context,
        model: &ModelRef,
        tools: &Arc<ToolSet>,
    ) -> Result<Arc<str>, Refused> {
        let Some(prompt) = self.session.system_prompt() else {
            return Ok("".into());
        };
        let subject = SystemPromptSubject {
            lane: (*self.core.name).clone(),
            model: model.clone(),
            tools: Arc::clone(tools),
        };
        match cx.run(prompt.build(cx, subject)).await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(Refused::Failed {
                code: "system_prompt",
                message: error.to_string(),
            }),
            Err(_) => Err(Refused::Aborted),
        }
    }

    /// A request as it is before any hook has seen it.
    pub(crate) fn draft_request(
        &self,
        operation_id: &OperationId,
        step: u32,
        model: &ResolvedModel,
        system: Arc<str>,
        messages: Arc<[Arc<Message>]>,
    ) -> PendingRequest {
        PendingRequest {
            lane: (*self.core.name).clone(),
            operation_id: operation_id.clone(),
            step,
            model: model.spec.model.clone(),
            system,
            messages,
            options: RequestOptions {
                thinking: if model.spec.reasoning {
                    model.thinking
                } else {
                    Default::default()
                },
                max_output: Some(model.spec.max_output).filter(|tokens| *tokens > 0),
                cache_key: Some(self.session.id.as_str().into()),
                tool_choice: ToolChoice::Auto,
            },
            preview: false,
        }
    }

    /// What the hooks make of a request, and those that failed, which are passed over.
    pub(crate) async fn patched(
        &self,
        cx: &Context,
        mut pending: PendingRequest,
    ) -> (PendingRequest, Vec<HookFailure>) {
        let mut failures = Vec::new();
        for hook in self.session.hooks.before_request.registered() {
            let deadline = Some(self.session.config.hook_deadline);
            match hook.call(cx, deadline, pending.clone()).await {
                Ok(patch) => {
                    pending.system = patch.system.unwrap_or(pending.system);
                    pending.options = patch.options.unwrap_or(pending.options);
                    if let Some(messages) = patch.messages {
                        pending.messages = complete(messages.to_vec()).into();
                    }
                }
                Err(failure) => failures.push(failure),
            }
        }
        (pending, failures)
    }
}
