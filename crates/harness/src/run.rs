//! One operation from where it stands to its end.

use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    AssistantMessage, EntryId, Message, ModelRef, RunOutcome, RunPhase, UserMessage,
};

use crate::context::load_view;
use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::hooks::{EndingRun, HookFailure, StartingPass, StartingRun};
use crate::lane::{Lane, now};
use crate::operation::{Operation, OperationKind, Phase};
use crate::state::{LaneState, OperationChange, Step};
use crate::tools::ToolSet;

/// A pass over one operation. What it keeps beside the durable state, it can do without.
pub(crate) struct Run {
    pub(crate) lane: Lane,
    /// Ends with an abort of the operation and with the session's closing.
    pub(crate) cx: Context,
    /// The tools that the model was told of in its last request.
    pub(crate) advertised: Option<Arc<ToolSet>>,
    pub(crate) system: Option<CachedSystem>,
    /// An automatic compaction came to nothing: it is not tried again in this pass.
    pub(crate) compaction_failed: bool,
}

/// The system prompt with what it was written for.
pub(crate) struct CachedSystem {
    pub(crate) model: ModelRef,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) text: Arc<str>,
}

/// What a step came to: the operation goes on, or it ended.
pub(crate) type StepResult = Result<Option<RunOutcome>, Stop>;

impl Lane {
    /// Runs the open operation to its end, or to where the session is closed or faults.
    pub(crate) async fn run_operation(&self) -> Result<RunOutcome, Stop> {
        let cx = match &self.core.lock().running {
            Some(running) => running.cx.clone(),
            None => return Err(Stop::Closed),
        };
        self.fill_view().await?;
        let mut run = Run {
            lane: self.clone(),
            cx,
            advertised: None,
            system: None,
            compaction_failed: false,
        };
        let found = self.core.lock().found;
        run.before_pass(found).await?;
        if found && let Some(outcome) = run.recover()? {
            return Ok(outcome);
        }
        loop {
            let operation = run.operation()?;
            let ended = match operation.phase.clone() {
                Phase::Ready { attempt } => run.request(operation, attempt).await?,
                Phase::RetryWait {
                    attempt,
                    until,
                    error,
                } => {
                    run.wait_and_request(operation, attempt, until, error)
                        .await?
                }
                Phase::Tools { assistant, calls } => run.work_off(&assistant, &calls).await?,
                Phase::Compacting { .. } => run.compact(operation).await?,
                Phase::Ending => run.finish(operation).await?,
                Phase::Navigating { .. } => run.navigate(operation).await?,
                Phase::Request { .. } => run.recover()?,
            };
            if let Some(outcome) = ended {
                return Ok(outcome);
            }
        }
    }

    /// Reads what the model sees, off the runtime; the commits of the run keep it current.
    async fn fill_view(&self) -> Result<(), Stop> {
        loop {
            let Some(tip) = ({
                let mut state = self.core.lock();
                if state.tip.is_none() {
                    state.view = Some(Vec::new());
                }
                if state.view.is_some() {
                    return Ok(());
                }
                state.tip.clone()
            }) else {
                return Ok(());
            };
            let (store, from) = (self.session.store.clone(), tip.clone());
            let view = tokio::task::spawn_blocking(move || load_view(&store, &from)).await;
            let view = view.map_err(|_| Stop::Closed)??;
            let mut state = self.core.lock();
            // Somebody may have appended meanwhile.
            if state.tip.as_ref() == Some(&tip) {
                state.view = Some(view);
            }
        }
    }
}

impl Run {
    /// The operation as it stands. The session may be closed between any two steps; then nothing
    /// more is written.
    pub(crate) fn operation(&self) -> Result<Operation, Stop> {
        self.open()?;
        self.lane.core.lock().operation.clone().ok_or(Stop::Closed)
    }

    pub(crate) fn open(&self) -> Result<(), Stop> {
        if self.lane.session.closed() {
            Err(Stop::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn set_phase(&self, phase: RunPhase) {
        self.lane
            .core
            .set_phase(&mut self.lane.core.lock(), Some(phase));
    }

    /// Commits under the lane's lock, unless the session is closed.
    pub(crate) fn commit(&self, state: &mut LaneState, step: Step) -> Result<(), Stop> {
        self.open()?;
        self.lane.commit(state, step)?;
        Ok(())
    }

    /// Ends the operation, with `step` in the same commit.
    pub(crate) fn end(&self, state: &mut LaneState, step: Step, outcome: RunOutcome) -> StepResult {
        self.open()?;
        Ok(Some(self.lane.end(state, step, outcome)?))
    }

    /// Ends the operation because somebody asked for that.
    pub(crate) fn abort(&self) -> StepResult {
        self.end(
            &mut self.lane.core.lock(),
            Step::default(),
            RunOutcome::Aborted,
        )
    }

    /// Ends the operation with a reason that stands in the tree too, for who looks later.
    pub(crate) fn fail(&self, code: &str, message: String) -> StepResult {
        let mut step = Step::default();
        let value = serde_json::json!({ "code": code, "message": message });
        let notice = bezel_session_types::CustomEntry {
            name: "harness.failed".into(),
            value,
        };
        step.append(
            EntryId::generate(),
            bezel_session_types::EntryBody::Custom(notice),
        );
        let outcome = RunOutcome::Failed {
            code: code.to_owned(),
            message,
        };
        self.end(&mut self.lane.core.lock(), step, outcome)
    }

    /// Tells of a hook that failed; not of one that an abort cut short.
    pub(crate) fn report(&self, failure: HookFailure) {
        if self.cx.is_cancelled() {
            return;
        }
        let HookFailure {
            registrant,
            hook,
            message,
        } = failure;
        tracing::warn!(%registrant, hook, %message, "a hook failed");
        self.lane.publish(EventKind::HandlerError {
            registrant,
            hook,
            message,
        });
    }

    /// Asks the hooks whether this pass may begin.
    async fn before_pass(&self, resumed: bool) -> Result<(), Stop> {
        let session = &self.lane.session;
        let registered = session.hooks.before_pass.registered();
        if registered.is_empty() {
            return Ok(());
        }
        let operation_id = self.operation()?.id;
        for hook in registered {
            let pass = StartingPass {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation_id.clone(),
                resumed,
            };
            let deadline = Some(session.config.hook_deadline);
            match hook.call(&self.cx, deadline, pass).await {
                Ok(()) => {}
                // Its end was asked for meanwhile: that is no hook's to refuse.
                Err(_) if self.cx.is_cancelled() => return self.open(),
                Err(HookFailure {
                    registrant,
                    message,
                    ..
                }) => {
                    return Err(Stop::Refused {
                        registrant,
                        message,
                    });
                }
            }
        }
        Ok(())
    }

    /// What the hooks give a new run to go with its first request.
    pub(crate) async fn before_run(&self, operation: &Operation) -> Vec<UserMessage> {
        let session = &self.lane.session;
        let mut more = Vec::new();
        for hook in session.hooks.before_run.registered() {
            let starting = StartingRun {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation.id.clone(),
            };
            let deadline = Some(session.config.hook_deadline);
            match hook.call(&self.cx, deadline, starting).await {
                Ok(said) => more.extend(said),
                Err(failure) => self.report(failure),
            }
        }
        more
    }

    async fn wait_and_request(
        &mut self,
        operation: Operation,
        attempt: u32,
        until: i64,
        error: String,
    ) -> StepResult {
        self.set_phase(RunPhase::RetryWait {
            until,
            attempt,
            error,
        });
        let longest = self.lane.session.config.retry.max_wait;
        let left = std::time::Duration::from_millis(u64::try_from(until - now()).unwrap_or(0));
        // An abort ends the wait; the request that follows sees it.
        if self
            .cx
            .run(tokio::time::sleep(left.min(longest)))
            .await
            .is_err()
        {
            self.open()?;
        }
        self.request(operation, attempt).await
    }

    /// The last answer asked for nothing: more may have come meanwhile.
    async fn finish(&mut self, operation: Operation) -> StepResult {
        if self.cx.is_cancelled() {
            return self.abort();
        }
        if let Some(instructions) = operation.compaction_requested.clone() {
            return self.start_compaction(
                operation,
                bezel_session_types::CompactionReason::Manual,
                instructions,
            );
        }
        let more = match (operation.kind, self.last_answer()) {
            (OperationKind::Run, Some(message)) => self.ask_for_more(&operation, message).await,
            _ => None,
        };
        let mut state = self.lane.core.lock();
        // Somebody may have asked for an end or a compaction while the hooks ran.
        let operation = state.operation.clone().ok_or(Stop::Closed)?;
        if operation.cancel_requested.is_some() {
            return self.end(&mut state, Step::default(), RunOutcome::Aborted);
        }
        if operation.compaction_requested.is_some() {
            return Ok(None);
        }
        let mut step = Step::default();
        let mut next = operation.at(Phase::Ready { attempt: 0 });
        if operation.kind == OperationKind::Run {
            if self.lane.deliver_steers(&mut state, &mut step) {
                next.step = 0;
            }
            if let Some(message) = more {
                step.append(EntryId::generate(), Message::User(message));
            }
        }
        if step.entries.is_empty() {
            return self.end(&mut state, Step::default(), RunOutcome::Completed);
        }
        step.operation = OperationChange::Set(Box::new(next));
        self.commit(&mut state, step)?;
        Ok(None)
    }

    async fn ask_for_more(
        &self,
        operation: &Operation,
        message: Arc<AssistantMessage>,
    ) -> Option<UserMessage> {
        let session = &self.lane.session;
        let mut more = None;
        for hook in session.hooks.before_run_end.registered() {
            let ending = EndingRun {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation.id.clone(),
                message: Arc::clone(&message),
            };
            match hook
                .call(&self.cx, Some(session.config.hook_deadline), ending)
                .await
            {
                Ok(said) => more = said.or(more),
                Err(failure) => self.report(failure),
            }
        }
        more
    }

    fn last_answer(&self) -> Option<Arc<AssistantMessage>> {
        let state = self.lane.core.lock();
        state
            .view
            .as_ref()?
            .iter()
            .rev()
            .find_map(|entry| match entry.message() {
                Some(Message::Assistant(answer)) => Some(Arc::new(answer.clone())),
                _ => None,
            })
    }
}
