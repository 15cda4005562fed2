//! One model request: intent, stream, settlement.

use std::sync::Arc;

use bezel_context::{Context, span};
use bezel_session_types::{
    AssistantContent, AssistantMessage, CompactionReason, EntryId, InvocationId, Message,
    ModelRequest, ModelSpec, ProviderError, ProviderErrorKind, RunOutcome, RunPhase, StopReason,
    ToolChoice, Usage,
};
use bezel_store::UsageRow;
use tracing::Instrument as _;

use crate::answer::LiveMessage;
use crate::context::assemble;
use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::harness::ResolvedModel;
use crate::hooks::PendingAnswer;
use crate::lane::now;
use crate::operation::{Call, CallPhase, Operation, OperationKind, Phase, partial_key};
use crate::retry::{code, wait_before};
use crate::run::{CachedSystem, Run, StepResult};
use crate::state::{OperationChange, Step};

/// A step that cannot be made: the operation ends for this reason.
pub(crate) enum Refused {
    Aborted,
    Failed { code: &'static str, message: String },
}

impl Run {
    /// Asks the model. Steering messages that wait go with it.
    pub(crate) async fn request(&mut self, operation: Operation, attempt: u32) -> StepResult {
        self.open()?;
        if self.cx.is_cancelled() {
            return self.abort();
        }
        if let Some(instructions) = operation.compaction_requested.clone() {
            return self.start_compaction(operation, CompactionReason::Manual, instructions);
        }
        self.set_phase(RunPhase::Preparing);
        let (model, system) = match self.prepare().await {
            Ok(prepared) => prepared,
            Err(refused) => return self.refuse(refused),
        };
        if attempt == 0 && self.over_threshold(&model.spec) {
            return self.start_compaction(operation, CompactionReason::Threshold, String::new());
        }
        let first = attempt == 0 && operation.turn == 0 && operation.kind == OperationKind::Run;
        let more = match first {
            true => self.before_run(&operation).await,
            false => Vec::new(),
        };
        self.open()?;
        let tools = self.lane.session.tools();
        let entry = EntryId::generate();
        let (number, messages) = {
            let mut state = self.lane.core.lock();
            let Some(mut operation) = state.operation.clone() else {
                return Err(Stop::Closed);
            };
            if operation.cancel_requested.is_some() {
                return self.end(&mut state, Step::default(), RunOutcome::Aborted);
            }
            let again = attempt > 0 || operation.overflow_compacted;
            let mut step = Step::default();
            for message in more {
                step.append(EntryId::generate(), Message::User(message));
            }
            if self.lane.deliver_steers(&mut state, &mut step) {
                operation.step = 1;
            } else {
                operation.step += u32::from(!again);
            }
            operation.turn += u32::from(!again);
            operation.phase = Phase::Request {
                entry: entry.clone(),
                attempt,
            };
            let (operation_id, turn) = (operation.id.clone(), operation.turn);
            let number = operation.step;
            step.operation = OperationChange::Set(Box::new(operation));
            if !again {
                step.after.push(EventKind::TurnStart { operation_id, turn });
            }
            self.commit(&mut state, step)?;
            // What woke the lane is delivered: it needs no pass of its own.
            state.wake = false;
            self.lane
                .core
                .set_phase(&mut state, Some(RunPhase::WaitingForModel));
            let messages = assemble(state.view.as_deref().unwrap_or_default());
            (number, messages)
        };
        self.advertised = Some(Arc::clone(&tools));
        let request = self
            .before_request(&operation, number, &model, system, messages.into())
            .await;
        let tool_choice = request.options.tool_choice;
        let request = ModelRequest {
            tools: tools.definitions(),
            ..request
        };
        match self.ask(&model, request, &entry, attempt).await {
            Ok((stop_reason, usage)) => {
                let ended = (stop_reason, usage);
                self.settle(&entry, &model.spec, ended, tool_choice).await
            }
            Err(error) => self.request_failed(&entry, &model.spec, attempt, error),
        }
    }

    /// Streams one answer, in a span that tells which model was asked and what it cost.
    async fn ask(
        &self,
        model: &ResolvedModel,
        request: ModelRequest,
        entry: &EntryId,
        attempt: u32,
    ) -> Result<(StopReason, Usage), ProviderError> {
        let (cx, span) = request_span(&self.cx, &model.spec);
        span.record("attempt", attempt);
        let outcome = self
            .stream(&cx, model, request, entry)
            .instrument(span.clone())
            .await;
        note_answer(&span, outcome.as_ref().map(|(_, usage)| usage));
        outcome
    }

    /// The model that answers, and what it is told first.
    async fn prepare(&mut self) -> Result<(ResolvedModel, Arc<str>), Refused> {
        let model = self.resolve_model().await?;
        let session = &self.lane.session;
        let tools = session.tools();
        let cached = self.system.as_ref().filter(|cached| {
            cached.model == model.spec.model && Arc::ptr_eq(&cached.tools, &tools)
        });
        if let Some(cached) = cached {
            let text = Arc::clone(&cached.text);
            return Ok((model, text));
        }
        let built = self.lane.build_system(&self.cx, &model.spec.model, &tools);
        let text = built.await?;
        self.system = Some(CachedSystem {
            model: model.spec.model.clone(),
            tools,
            text: Arc::clone(&text),
        });
        Ok((model, text))
    }

    pub(crate) async fn resolve_model(&self) -> Result<ResolvedModel, Refused> {
        self.lane.resolve_model(&self.cx).await
    }

    pub(crate) fn refuse(&self, refused: Refused) -> StepResult {
        match refused {
            Refused::Aborted => self.abort(),
            Refused::Failed { code, message } => self.fail(code, message),
        }
    }

    /// Lets the hooks change the request, which is the so-and-so-many-th since a person said something.
    async fn before_request(
        &self,
        operation: &Operation,
        step: u32,
        model: &ResolvedModel,
        system: Arc<str>,
        messages: Arc<[Arc<Message>]>,
    ) -> ModelRequest {
        let pending = self
            .lane
            .draft_request(&operation.id, step, model, system, messages);
        let (pending, failures) = self.lane.patched(&self.cx, pending).await;
        failures
            .into_iter()
            .for_each(|failure| self.report(failure));
        ModelRequest {
            model: pending.model,
            system: pending.system,
            messages: pending.messages,
            tools: Arc::from([]),
            options: pending.options,
        }
    }

    /// The answer is whole: into the tree with it, and on to its calls.
    async fn settle(
        &mut self,
        entry: &EntryId,
        spec: &ModelSpec,
        (stop_reason, usage): (StopReason, Usage),
        tool_choice: ToolChoice,
    ) -> StepResult {
        let live = self.lane.core.lock().message.clone();
        let live = live.unwrap_or_else(|| LiveMessage::new(entry.clone(), spec.model.clone()));
        let mut message = self.after_response(live.finish(stop_reason, usage)).await;
        if tool_choice == ToolChoice::None {
            without_calls(&mut message);
        }
        let mut state = self.lane.core.lock();
        let Some(mut operation) = state.operation.clone() else {
            return Err(Stop::Closed);
        };
        let calls: Vec<Call> = message
            .tool_calls()
            .map(|call| Call {
                invocation_id: InvocationId::generate(),
                call_id: call.id.clone(),
                tool: call.name.clone(),
                phase: CallPhase::Planned,
            })
            .collect();
        operation.overflow_compacted = false;
        let (operation_id, turn) = (operation.id.clone(), operation.turn);
        let ended = calls.is_empty();
        let invocations = calls
            .iter()
            .map(|call| call.invocation_id.clone())
            .collect();
        operation.phase = match ended {
            true => Phase::Ending,
            false => Phase::Tools {
                assistant: entry.clone(),
                calls,
            },
        };
        let mut step = Step::to(operation);
        self.settle_usage(&mut step, &operation_id, spec, usage, "answer");
        let kept = Arc::new(message.clone());
        step.before.push(EventKind::MessageEnd {
            entry: entry.clone(),
            message: Some(kept),
            invocations,
        });
        step.append(entry.clone(), Message::Assistant(message));
        step.transaction.delete_value(partial_key(entry));
        if ended {
            step.after.push(EventKind::TurnEnd { operation_id, turn });
        }
        state.message = None;
        self.commit(&mut state, step)?;
        self.lane
            .core
            .set_phase(&mut state, Some(RunPhase::Preparing));
        Ok(None)
    }

    /// Adds a request to the ledger.
    pub(crate) fn settle_usage(
        &self,
        step: &mut Step,
        operation_id: &bezel_session_types::OperationId,
        spec: &ModelSpec,
        usage: Usage,
        purpose: &'static str,
    ) {
        let (operation_id, model) = (operation_id.clone(), spec.model.clone());
        let cost = spec.prices.map(|prices| usage.cost(&prices));
        step.transaction.usage(UsageRow {
            lane: (*self.lane.core.name).clone(),
            operation_id: operation_id.clone(),
            purpose,
            model: model.clone(),
            usage,
            cost,
        });
        step.after.push(EventKind::Usage {
            operation_id,
            model,
            usage,
            cost,
        });
    }

    async fn after_response(&self, mut message: AssistantMessage) -> AssistantMessage {
        let session = &self.lane.session;
        let registered = session.hooks.after_response.registered();
        if registered.is_empty() {
            return message;
        }
        let operation = self
            .lane
            .core
            .lock()
            .operation
            .as_ref()
            .map(|operation| operation.id.clone());
        let Some(operation_id) = operation else {
            return message;
        };
        for hook in registered {
            let answer = PendingAnswer {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation_id.clone(),
                message: Arc::new(message.clone()),
            };
            match hook
                .call(&self.cx, Some(session.config.hook_deadline), answer)
                .await
            {
                Ok(Some(changed)) => message = changed,
                Ok(None) => {}
                Err(failure) => self.report(failure),
            }
        }
        message
    }

    /// The request came to nothing: again, smaller, or never.
    fn request_failed(
        &mut self,
        entry: &EntryId,
        spec: &ModelSpec,
        attempt: u32,
        error: ProviderError,
    ) -> StepResult {
        self.open()?;
        let mut state = self.lane.core.lock();
        let Some(mut operation) = state.operation.clone() else {
            return Err(Stop::Closed);
        };
        let live = state.message.take();
        let mut step = Step::default();
        step.transaction.delete_value(partial_key(entry));
        let dropped = |step: &mut Step| {
            if live.is_some() {
                let entry = entry.clone();
                step.before.push(EventKind::MessageEnd {
                    entry,
                    message: None,
                    invocations: Vec::new(),
                });
            }
        };
        if operation.cancel_requested.is_some() {
            let live = live.unwrap_or_else(|| LiveMessage::new(entry.clone(), spec.model.clone()));
            let message = live.cut_off(StopReason::Aborted, None);
            self.append_cut_off(&mut step, entry, message);
            return self.end(&mut state, step, RunOutcome::Aborted);
        }
        if error.kind == ProviderErrorKind::ContextOverflow && !operation.overflow_compacted {
            dropped(&mut step);
            operation.overflow_compacted = true;
            operation.phase = Phase::Ready { attempt };
            step.operation = OperationChange::Set(Box::new(operation.clone()));
            self.commit(&mut state, step)?;
            drop(state);
            return self.start_compaction(operation, CompactionReason::Overflow, String::new());
        }
        let next = attempt + 1;
        if let Some(wait) = wait_before(&self.lane.session.config.retry, next, &error) {
            dropped(&mut step);
            let until = now().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
            let message = error.message;
            step.after.push(EventKind::RetryScheduled {
                operation_id: operation.id.clone(),
                attempt: next,
                until,
                error: message.clone(),
            });
            operation.phase = Phase::RetryWait {
                attempt: next,
                until,
                error: message,
            };
            step.operation = OperationChange::Set(Box::new(operation));
            self.commit(&mut state, step)?;
            return Ok(None);
        }
        let live = live.unwrap_or_else(|| LiveMessage::new(entry.clone(), spec.model.clone()));
        let message = live.cut_off(StopReason::Error, Some(error.message.clone()));
        self.append_cut_off(&mut step, entry, message);
        let outcome = RunOutcome::Failed {
            code: code(error.kind).into(),
            message: error.message,
        };
        self.end(&mut state, step, outcome)
    }

    fn append_cut_off(&self, step: &mut Step, entry: &EntryId, message: AssistantMessage) {
        let kept = Some(Arc::new(message.clone()));
        let invocations = Vec::new();
        step.before.push(EventKind::MessageEnd {
            entry: entry.clone(),
            message: kept,
            invocations,
        });
        step.append(entry.clone(), Message::Assistant(message));
    }
}

/// Takes the calls out of an answer that was to be made without any. They were never planned.
fn without_calls(message: &mut AssistantMessage) {
    let calls = message.tool_calls().count();
    if calls == 0 {
        return;
    }
    message
        .content
        .retain(|part| !matches!(part, AssistantContent::ToolCall(_)));
    message.stop_reason = StopReason::Stop;
    message.error = Some(format!(
        "the model was to answer without tools and called {calls} all the same, which were not run; say how to go on"
    ));
}

/// A span of one model request, with the names of the standard's conventions.
pub(crate) fn request_span(cx: &Context, spec: &ModelSpec) -> (Context, tracing::Span) {
    span!(
        cx,
        "model.request",
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = %spec.model.provider,
        gen_ai.request.model = %spec.model.model_id,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
        attempt = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
    )
}

/// Says in a request's span what came of it.
pub(crate) fn note_answer(span: &tracing::Span, outcome: Result<&Usage, &ProviderError>) {
    match outcome {
        Ok(usage) => {
            span.record("gen_ai.usage.input_tokens", usage.total_input());
            span.record("gen_ai.usage.output_tokens", usage.output);
        }
        Err(error) => {
            span.record("error.type", code(error.kind));
        }
    }
}
