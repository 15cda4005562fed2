//! Putting a summary in place of older entries: on the threshold, on overflow, on request.

use std::fmt::Write;
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Compaction, CompactionReason, EntryBody, EntryId, Message, ModelEvent, ModelRequest, ModelSpec,
    OperationId, ProviderError, ProviderErrorKind, RequestOptions, RunOutcome, RunPhase, Usage,
    UserContent, UserMessage,
};
use futures::StreamExt;
use tracing::Instrument as _;

use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::hooks::{CompactionVerdict, PendingCompaction};
use crate::lane::{CompactError, Lane, now};
use crate::operation::{Operation, OperationKind, Phase};
use crate::request::{Refused, note_answer, request_span};
use crate::retry::wait_before;
use crate::run::{Run, StepResult};
use crate::state::Step;
use crate::stream::provider_error;
use crate::summary::{Plan, context_tokens, plan, text_limit, transcript};

const SYSTEM: &str = "You summarise the work of a coding agent so that another can go on with it. \
Answer with the summary alone.";

const TASK: &str = "Summarise the conversation above for the agent that goes on with it and will not \
see it. Keep what it needs: the goal and every wish and constraint of the user in their own words; \
decisions and why; what was done and how it was checked; files read and changed, with full paths; \
commands that matter; errors that are still open; what comes next. Use short headed lists.";

/// Output limit of a summary, in tokens.
pub(crate) const SUMMARY_TOKENS: u64 = 8_192;

impl Lane {
    /// Has older entries summarised: at once when idle, else at the next step boundary. It is done
    /// when [`EventKind::CompactionEnd`] comes. Says which operation does it.
    pub async fn compact(
        &self,
        cx: &Context,
        instructions: Option<String>,
    ) -> Result<OperationId, CompactError> {
        cx.status().map_err(CompactError::Cancelled)?;
        if self.session.closed() {
            return Err(CompactError::Closed);
        }
        let instructions = instructions.unwrap_or_default();
        let mut state = self.core.lock();
        if state.tip.is_none() {
            return Err(CompactError::Nothing);
        }
        if let Some(mut operation) = state.operation.clone() {
            let id = operation.id.clone();
            operation.compaction_requested = Some(instructions);
            self.commit(&mut state, Step::to(operation))?;
            return Ok(id);
        }
        let id = OperationId::generate();
        let entry = EntryId::generate();
        let reason = CompactionReason::Manual;
        let phase = Phase::Compacting {
            entry,
            reason,
            instructions,
            ending: true,
        };
        let operation = Operation::new(id.clone(), OperationKind::Compaction, now(), phase)
            .traced(Some(cx.trace().clone()));
        let mut step = Step::to(operation);
        step.transaction.journal(
            "compaction_started",
            serde_json::json!({ "lane": *self.core.name, "operation": id }),
        );
        step.before.push(EventKind::RunStart {
            operation_id: id.clone(),
        });
        step.after.push(EventKind::CompactionStart {
            operation_id: id.clone(),
            reason,
        });
        state.found = false;
        self.commit(&mut state, step)?;
        self.start(&mut state);
        Ok(id)
    }
}

impl Run {
    /// Whether the context came so close to the window that the next answer may not fit.
    pub(crate) fn over_threshold(&self, spec: &ModelSpec) -> bool {
        let config = &self.lane.session.config.compaction;
        if !config.automatic || self.compaction_failed || spec.context == 0 {
            return false;
        }
        let state = self.lane.core.lock();
        let view = state.view.as_deref().unwrap_or_default();
        let spoken = view
            .iter()
            .rfind(|entry| !matches!(entry.body, EntryBody::Custom(_)));
        if spoken.is_none_or(|entry| matches!(entry.body, EntryBody::Compaction(_))) {
            return false;
        }
        context_tokens(view) > spec.context - config.reserve.min(spec.context / 4)
    }

    /// Commits the intent; the next step makes the summary.
    pub(crate) fn start_compaction(
        &self,
        operation: Operation,
        reason: CompactionReason,
        instructions: String,
    ) -> StepResult {
        let mut state = self.lane.core.lock();
        let ending = operation.phase == Phase::Ending;
        let entry = EntryId::generate();
        let id = operation.id.clone();
        let current = state.operation.as_ref().unwrap_or(&operation);
        let phase = Phase::Compacting {
            entry,
            reason,
            instructions,
            ending,
        };
        let mut next = current.at(phase);
        next.compaction_requested = None;
        let mut step = Step::to(next);
        step.after.push(EventKind::CompactionStart {
            operation_id: id,
            reason,
        });
        self.commit(&mut state, step)?;
        Ok(None)
    }

    /// Makes the summary that the operation's phase asks for.
    pub(crate) async fn compact(&mut self, operation: Operation) -> StepResult {
        let Phase::Compacting {
            entry,
            reason,
            instructions,
            ending,
        } = operation.phase.clone()
        else {
            return Ok(None);
        };
        self.set_phase(RunPhase::Compacting);
        let made = self.summarise(&operation, reason, &instructions).await;
        self.open()?;
        let (plan, summary, used) = match made {
            Ok(made) => made,
            Err(Refused::Aborted) => return self.abort(),
            Err(Refused::Failed { code, message }) => {
                return self.compaction_failed(operation, reason, ending, code, message);
            }
        };
        let mut state = self.lane.core.lock();
        let Some(mut next) = state.operation.clone() else {
            return Err(Stop::Closed);
        };
        next.phase = if ending {
            Phase::Ending
        } else {
            Phase::Ready { attempt: 0 }
        };
        let operation_id = next.id.clone();
        let compaction = Compaction {
            summary,
            first_kept: plan.first_kept,
            tokens_before: plan.tokens_before,
            reason,
        };
        let mut step = Step::to(next);
        step.append(entry, EntryBody::Compaction(compaction));
        if let Some((spec, usage)) = used {
            self.settle_usage(&mut step, &operation_id, &spec, usage, "compaction");
        }
        step.after.push(EventKind::CompactionEnd {
            operation_id,
            error: None,
        });
        if operation.kind == OperationKind::Compaction {
            return self.end(&mut state, step, RunOutcome::Completed);
        }
        self.commit(&mut state, step)?;
        Ok(None)
    }

    fn compaction_failed(
        &mut self,
        operation: Operation,
        reason: CompactionReason,
        ending: bool,
        code: &'static str,
        message: String,
    ) -> StepResult {
        let operation_id = operation.id.clone();
        let mut step = Step::default();
        let error = Some(message.clone());
        step.after.push(EventKind::CompactionEnd {
            operation_id,
            error,
        });
        let failed = |code: &str, message: String| RunOutcome::Failed {
            code: code.into(),
            message,
        };
        let mut state = self.lane.core.lock();
        if operation.kind == OperationKind::Compaction {
            return self.end(&mut state, step, failed(code, message));
        }
        if reason == CompactionReason::Overflow {
            let message = format!(
                "the conversation does not fit the model and could not be shortened: {message}; start a new session or choose a model with a larger context"
            );
            return self.end(&mut state, step, failed("model.context_overflow", message));
        }
        self.compaction_failed |= reason == CompactionReason::Threshold;
        let Some(mut next) = state.operation.clone() else {
            return Err(Stop::Closed);
        };
        next.phase = if ending {
            Phase::Ending
        } else {
            Phase::Ready { attempt: 0 }
        };
        step.operation = crate::state::OperationChange::Set(next);
        self.commit(&mut state, step)?;
        Ok(None)
    }

    async fn summarise(
        &self,
        operation: &Operation,
        reason: CompactionReason,
        instructions: &str,
    ) -> Result<(Plan, String, Option<(ModelSpec, Usage)>), Refused> {
        if self.cx.is_cancelled() {
            return Err(Refused::Aborted);
        }
        let model = self.resolve_model().await?;
        let keep = self.lane.session.config.compaction.keep_recent;
        let plan = {
            let state = self.lane.core.lock();
            plan(
                state.view.as_deref().unwrap_or_default(),
                reason,
                keep,
                model.spec.context,
            )
        };
        let Some(plan) = plan else {
            let message = "there is nothing to summarise yet".to_owned();
            return Err(Refused::Failed {
                code: "compaction.nothing",
                message,
            });
        };
        let session = &self.lane.session;
        let messages: Arc<[Arc<Message>]> = plan.messages.clone().into();
        for hook in session.hooks.before_compaction.registered() {
            let pending = PendingCompaction {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation.id.clone(),
                reason,
                messages: Arc::clone(&messages),
            };
            match hook
                .call(&self.cx, Some(session.config.hook_deadline), pending)
                .await
            {
                Ok(CompactionVerdict::Proceed) => {}
                Ok(CompactionVerdict::Supply { summary }) => return Ok((plan, summary, None)),
                Ok(CompactionVerdict::Decline { reason }) => {
                    return Err(Refused::Failed {
                        code: "compaction.declined",
                        message: reason,
                    });
                }
                Err(failure) => self.report(failure),
            }
        }
        let spec = model.spec.clone();
        let mut text = transcript(&plan, text_limit(&spec));
        write!(text, "\n\n{TASK}").expect("text takes text");
        if !instructions.is_empty() {
            write!(text, "\n\nThe user asks in particular: {instructions}")
                .expect("text takes text");
        }
        let message = UserMessage {
            content: vec![UserContent::Text { text }],
            synthetic: true,
        };
        let request = ModelRequest {
            model: spec.model.clone(),
            system: SYSTEM.into(),
            messages: Arc::from([Arc::new(Message::User(message))]),
            tools: Arc::from([]),
            options: RequestOptions {
                max_output: Some(match spec.max_output {
                    0 => SUMMARY_TOKENS,
                    most => most.min(SUMMARY_TOKENS),
                }),
                ..RequestOptions::default()
            },
        };
        let mut attempt = 0;
        loop {
            let (cx, span) = request_span(&self.cx, &spec);
            span.record("attempt", attempt);
            let collected = self.collect(&cx, &*model.provider, request.clone());
            let answer = cx.run(collected.instrument(span.clone())).await;
            if let Ok(answer) = &answer {
                note_answer(&span, answer.as_ref().map(|(_, usage)| usage));
            }
            drop(span);
            let error = match answer {
                Ok(Ok((summary, usage))) => return Ok((plan, summary, Some((spec, usage)))),
                Ok(Err(error)) => error,
                Err(_) => return Err(Refused::Aborted),
            };
            attempt += 1;
            let Some(wait) = wait_before(&session.config.retry, attempt, &error) else {
                let message = format!("the model could not summarise: {}", error.message);
                return Err(Refused::Failed {
                    code: crate::retry::code(error.kind),
                    message,
                });
            };
            if self.cx.run(tokio::time::sleep(wait)).await.is_err() {
                return Err(Refused::Aborted);
            }
        }
    }

    /// The text of one answer.
    async fn collect(
        &self,
        cx: &Context,
        provider: &dyn bezel_session_types::Provider,
        request: ModelRequest,
    ) -> Result<(String, Usage), ProviderError> {
        let idle = self.lane.session.config.stream_idle;
        let silent = |_| {
            provider_error(
                ProviderErrorKind::Interrupted,
                "the model sent nothing for too long".into(),
            )
        };
        let started = provider.stream(cx, request);
        let mut stream = tokio::time::timeout(idle, started)
            .await
            .map_err(silent)??;
        let mut text = String::new();
        while let Some(event) = tokio::time::timeout(idle, stream.next())
            .await
            .map_err(silent)?
        {
            match event? {
                ModelEvent::Text(more) => text.push_str(&more),
                ModelEvent::End { usage, .. } if !text.trim().is_empty() => {
                    return Ok((text, usage));
                }
                ModelEvent::End { .. } => {
                    let message = "the model answered nothing".to_owned();
                    return Err(provider_error(ProviderErrorKind::Malformed, message));
                }
                _ => {}
            }
        }
        let message = "the model's answer broke off before its end".to_owned();
        Err(provider_error(ProviderErrorKind::Interrupted, message))
    }
}
