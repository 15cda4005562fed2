//! Putting a summary in place of older entries: on the threshold, on overflow, on request.

use std::fmt::Write;
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Compaction, CompactionReason, EntryBody, EntryId, Message, ModelSpec, OperationId, RunOutcome,
    RunPhase, Usage,
};

use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::hooks::{CompactionVerdict, PendingCompaction};
use crate::lane::{CompactError, Lane, now};
use crate::operation::{Operation, OperationKind, Phase};
use crate::request::Refused;
use crate::run::{Run, StepResult};
use crate::state::Step;
use crate::summary::{Plan, context_tokens, plan, text_limit, transcript};

const TASK: &str = "Summarise the conversation above for the agent that goes on with it and will not \
see it. Keep what it needs: the goal and every wish and constraint of the user in their own words; \
decisions and why; what was done and how it was checked; files read and changed, with full paths; \
commands that matter; errors that are still open; what comes next. Use short headed lists.";

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
        step.operation = crate::state::OperationChange::Set(Box::new(next));
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
        let mut text = transcript(&plan, text_limit(&model.spec));
        write!(text, "\n\n{TASK}").expect("text takes text");
        if !instructions.is_empty() {
            write!(text, "\n\nThe user asks in particular: {instructions}")
                .expect("text takes text");
        }
        let (summary, usage) = self.ask_for_summary(&model, text).await?;
        Ok((plan, summary, Some((model.spec, usage))))
    }
}
