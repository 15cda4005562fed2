//! Working off the calls of one answer.
//!
//! Clearance goes in source order: decode, hooks, decode again, permission. What is cleared without
//! waiting shares one intent commit. Effects run side by side, or one after the other where a tool
//! says so; results are staged as they come and enter the tree in source order.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use bezel_session_types::{
    EntryId, ExecutionMode, InvocationId, Message, OperationId, Replay, RunPhase, ToolCall,
    ToolResultMessage,
};
use futures::StreamExt;
use futures::future::{Either, poll_immediate, select};
use futures::stream::FuturesUnordered;
use serde_json::Value;

use super::Lookup;
use super::arguments::{ArgumentsError, decode};
use super::call::{ClearedCall, Interruption, Settled, failed, interrupted};
use super::set::ToolSet;
use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::hooks::{HookFailure, PendingCall, ToolVerdict};
use crate::lane::AbortError;
use crate::operation::{Call, CallPhase, Operation, Phase, arguments_key, staged_key};
use crate::run::{Run, StepResult};
use crate::state::{LaneState, Step};

/// Why a call does not run.
pub(super) struct Refusal {
    pub(super) code: &'static str,
    /// What the model reads.
    pub(super) message: String,
    /// Whether the operation ends with it.
    pub(super) ends: bool,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: String) -> Self {
        Refusal {
            code,
            message,
            ends: false,
        }
    }
}

/// What clearance says of a call.
enum Clearance {
    Run(ClearedCall),
    Refused(Settled),
}

impl Run {
    /// Brings every call of `assistant` to its result in the tree.
    pub(crate) async fn work_off(&mut self, assistant: &EntryId, calls: &[Call]) -> StepResult {
        let asked = self.asked(assistant)?;
        let advertised = self
            .advertised
            .take()
            .unwrap_or_else(|| self.lane.session.tools());
        let this = &*self;
        let mut running = FuturesUnordered::new();
        let worked = async {
            let sequential = calls.iter().any(|call| this.is_sequential(call));
            let mut cleared = Vec::new();
            for (index, call) in calls.iter().enumerate() {
                let mut clearing =
                    pin!(this.clear(index, call, asked.get(&call.call_id), &advertised));
                let clearance = match poll_immediate(&mut clearing).await {
                    Some(clearance) => clearance?,
                    None => {
                        // It waits for somebody; what is cleared need not.
                        running.extend(this.begin_calls(std::mem::take(&mut cleared))?);
                        loop {
                            if running.is_empty() {
                                break clearing.await?;
                            }
                            match select(&mut clearing, running.next()).await {
                                Either::Left((clearance, _)) => break clearance?,
                                Either::Right((settled, _)) => this.stage(settled.transpose()?)?,
                            }
                        }
                    }
                };
                cleared.extend(clearance);
                if sequential {
                    running.extend(this.begin_calls(std::mem::take(&mut cleared))?);
                    while let Some(settled) = running.next().await {
                        this.stage(Some(settled?))?;
                    }
                }
            }
            running.extend(this.begin_calls(cleared)?);
            while let Some(settled) = running.next().await {
                this.stage(Some(settled?))?;
            }
            Ok::<(), Stop>(())
        };
        if let Err(stop) = worked.await {
            // Nothing more is written; what runs is told, and given the time to end.
            if let Some(held) = &self.lane.core.lock().running {
                held.cancel.cancel();
            }
            while running.next().await.is_some() {}
            return Err(stop);
        }
        Ok(None)
    }

    /// The calls as the model wrote them, by the provider's id.
    fn asked(&self, assistant: &EntryId) -> Result<HashMap<String, ToolCall>, Stop> {
        let shown = {
            let state = self.lane.core.lock();
            let view = state.view.as_deref().unwrap_or_default();
            view.iter().rfind(|entry| entry.id == *assistant).cloned()
        };
        let entry = match shown {
            Some(entry) => Some(entry),
            None => {
                let read = self
                    .lane
                    .session
                    .store
                    .read(|queries| queries.entry(assistant))?;
                read.map(Arc::new)
            }
        };
        let calls = entry.iter().filter_map(|entry| match entry.message() {
            Some(Message::Assistant(answer)) => Some(answer.tool_calls().cloned()),
            _ => None,
        });
        Ok(calls
            .flatten()
            .map(|call| (call.id.clone(), call))
            .collect())
    }

    fn is_sequential(&self, call: &Call) -> bool {
        let tools = self.lane.session.tools();
        let mode = tools.get(&call.tool).map(|tool| tool.spec().execution_mode);
        mode == Some(ExecutionMode::Sequential)
    }

    /// Decides what is done with a call: run, refuse, or nothing where it has its outcome.
    async fn clear(
        &self,
        index: usize,
        call: &Call,
        asked: Option<&ToolCall>,
        advertised: &ToolSet,
    ) -> Result<Option<Clearance>, Stop> {
        let refuse = |result| {
            Ok(Some(Clearance::Refused(Settled {
                index,
                result,
                changes: Vec::new(),
            })))
        };
        let cut = |when| interrupted(&call.call_id, &call.invocation_id, &call.tool, when);
        let fail = |code: &str, message: String| {
            failed(
                &call.call_id,
                &call.invocation_id,
                &call.tool,
                code,
                message,
            )
        };
        let found = match call.phase {
            CallPhase::OutcomeReady | CallPhase::Completed => return Ok(None),
            CallPhase::Planned => None,
            CallPhase::EffectPending { replay_safe } => Some(replay_safe),
        };
        // It settled in this process, and its result could not be written then.
        let unwritten = self
            .lane
            .core
            .lock()
            .unwritten
            .get(&call.invocation_id)
            .cloned();
        if let Some(result) = unwritten {
            return refuse(result);
        }
        if self.cx.is_cancelled() || found == Some(false) {
            self.open()?;
            return refuse(cut(match found {
                None => Interruption::BeforeRunning,
                Some(_) => Interruption::ByCrash,
            }));
        }
        let tools = self.lane.session.tools();
        let registered = match tools.look_up(&call.tool, advertised) {
            Lookup::Found(registered) => registered,
            _ if found.is_some() => return refuse(cut(Interruption::ByCrash)),
            Lookup::Stale => {
                return refuse(fail(
                    "tool.stale",
                    format!(
                        "`{}` was replaced or removed since it was offered. Nothing ran. Call it again if it is still offered.",
                        call.tool
                    ),
                ));
            }
            Lookup::Unknown => {
                let names: Vec<&str> = advertised.names().map(|name| &**name).collect();
                return refuse(fail(
                    "tool.unknown",
                    format!(
                        "There is no tool `{}`. There are: {}.",
                        call.tool,
                        names.join(", ")
                    ),
                ));
            }
        };
        let operation_id = self.operation()?.id;
        let cleared = |arguments, replaced| {
            let pending = PendingCall {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation_id.clone(),
                invocation_id: call.invocation_id.clone(),
                tool: call.tool.as_str().into(),
                arguments,
                replay: registered.tool.spec().replay,
            };
            ClearedCall {
                index,
                call_id: call.call_id.clone(),
                tool: Arc::clone(&registered.tool),
                output: registered.output.clone(),
                origin: registered.origin.clone(),
                pending,
                accesses: None,
                replaced,
            }
        };
        let given = asked.map_or(&Value::Null, |call| &call.arguments);
        if found.is_some() {
            let key = arguments_key(&call.invocation_id);
            let stored: Option<Value> = self
                .lane
                .session
                .store
                .read(|queries| queries.value(&key))?;
            let safe_now = registered.tool.spec().replay == Replay::Safe;
            return match decode(&call.tool, registered, stored.as_ref().unwrap_or(given)) {
                Ok(arguments) if safe_now => {
                    Ok(Some(Clearance::Run(cleared(arguments, stored.is_some()))))
                }
                _ => refuse(cut(Interruption::ByCrash)),
            };
        }
        let arguments = match decode(&call.tool, registered, given) {
            Ok(arguments) => arguments,
            // A fault of the tool, which no other arguments get around.
            Err(error @ ArgumentsError::Schema { .. }) => {
                let mut result = fail("tool.schema", error.to_string());
                result.details = registered.origin.fault("tool.schema");
                return refuse(result);
            }
            Err(error) => return refuse(fail("tool.arguments", error.to_string())),
        };
        let mut ready = cleared(arguments, false);
        if let Err(refusal) = self.before_tool(&mut ready, registered).await {
            self.open()?;
            if self.cx.is_cancelled() {
                return refuse(cut(Interruption::BeforeRunning));
            }
            if refusal.ends {
                self.end_operation(&operation_id).await?;
            }
            return refuse(fail(refusal.code, refusal.message));
        }
        Ok(Some(Clearance::Run(ready)))
    }

    /// Hooks, then permission.
    async fn before_tool(
        &self,
        call: &mut ClearedCall,
        registered: &super::set::RegisteredTool,
    ) -> Result<(), Refusal> {
        let session = &self.lane.session;
        for hook in session.hooks.before_tool.registered() {
            let deadline = Some(session.config.hook_deadline);
            match hook.call(&self.cx, deadline, call.pending.clone()).await {
                Ok(ToolVerdict::Continue) => {}
                Ok(ToolVerdict::Replace(arguments)) => {
                    let name = Arc::clone(&call.pending.tool);
                    call.pending.arguments = decode(&name, registered, &arguments)
                        .map_err(|error| Refusal::new("tool.arguments", error.to_string()))?;
                    call.replaced = true;
                }
                Ok(ToolVerdict::Block { reason }) => {
                    return Err(Refusal::new("tool.blocked", reason));
                }
                Err(failure) => {
                    let reason = self.blocked_by(failure, "checked");
                    return Err(Refusal::new("tool.blocked", reason));
                }
            }
        }
        self.approve(call, registered).await
    }

    /// Ends the operation durably, as a person's interruption does; what was refused keeps its reason.
    async fn end_operation(&self, operation_id: &OperationId) -> Result<(), Stop> {
        match self.lane.request_abort(&self.cx, operation_id).await {
            // Somebody else has ended it.
            Ok(()) | Err(AbortError::NotRunning { .. } | AbortError::Cancelled(_)) => Ok(()),
            Err(AbortError::Storage(error)) => Err(error.into()),
        }
    }

    pub(super) fn blocked_by(&self, failure: HookFailure, what: &str) -> String {
        let HookFailure {
            registrant,
            message,
            ..
        } = &failure;
        let text = format!("Not run: `{registrant}` could not have it {what}: {message}.");
        self.report(failure);
        text
    }

    /// Commits the intents of what was cleared, and gives the effects to run.
    fn begin_calls<'run>(
        &'run self,
        clearances: Vec<Clearance>,
    ) -> Result<Vec<impl Future<Output = Result<Settled, Stop>> + use<'run>>, Stop> {
        if clearances.is_empty() {
            return Ok(Vec::new());
        }
        let mut state = self.lane.core.lock();
        let mut operation = state.operation.clone().ok_or(Stop::Closed)?;
        let aborted = operation.cancel_requested.is_some();
        let mut step = Step::default();
        let (mut effects, mut settled, mut unsafe_effect) = (Vec::new(), Vec::new(), false);
        for clearance in clearances {
            match clearance {
                Clearance::Refused(refused) => settled.push(refused),
                Clearance::Run(call) if aborted => {
                    let (id, name) = (&call.pending.invocation_id, &call.pending.tool);
                    let when = Interruption::BeforeRunning;
                    let result = interrupted(&call.call_id, id, name, when);
                    settled.push(Settled {
                        index: call.index,
                        result,
                        changes: Vec::new(),
                    });
                }
                Clearance::Run(call) => {
                    let replay_safe = call.tool.spec().replay == Replay::Safe;
                    unsafe_effect |= !replay_safe;
                    if let Phase::Tools { calls, .. } = &mut operation.phase {
                        calls[call.index].phase = CallPhase::EffectPending { replay_safe };
                    }
                    step.transaction.journal(
                        "tool_started",
                        serde_json::json!({
                            "lane": *self.lane.core.name,
                            "operation": operation.id,
                            "invocation": call.pending.invocation_id,
                            "tool": call.pending.tool,
                        }),
                    );
                    if call.replaced {
                        let key = arguments_key(&call.pending.invocation_id);
                        step.transaction.set_value(key, &*call.pending.arguments);
                    }
                    effects.push(call);
                }
            }
        }
        self.place(&mut operation, &mut step, settled)?;
        step.operation = crate::state::OperationChange::Set(Box::new(operation));
        self.open()?;
        let committed = self.lane.commit(&mut state, step)?;
        self.show_tools(&mut state);
        drop(state);
        let intent = unsafe_effect.then_some(committed);
        Ok(effects
            .into_iter()
            .map(|call| self.execute(call, intent.clone()))
            .collect())
    }

    /// Commits a settled call's result, and enters it and those it held up where their turn has come.
    fn stage(&self, settled: Option<Settled>) -> Result<(), Stop> {
        let Some(settled) = settled else {
            return Ok(());
        };
        self.open()?;
        let mut state = self.lane.core.lock();
        let mut operation = state.operation.clone().ok_or(Stop::Closed)?;
        let mut step = Step::default();
        let (id, result) = (settled.result.invocation_id.clone(), settled.result.clone());
        self.place(&mut operation, &mut step, vec![settled])?;
        step.operation = crate::state::OperationChange::Set(Box::new(operation));
        if let Err(stop) = self.commit(&mut state, step) {
            state.unwritten.insert(id, result);
            return Err(stop);
        }
        self.show_tools(&mut state);
        Ok(())
    }

    /// Writes outcomes into `step`: the contiguous ones as entries, in source order, the others
    /// staged until those before them are there. After the last one the model is asked again.
    pub(crate) fn place(
        &self,
        operation: &mut Operation,
        step: &mut Step,
        outcomes: Vec<Settled>,
    ) -> Result<(), Stop> {
        let (turn, operation_id) = (operation.turn, operation.id.clone());
        let Phase::Tools { calls, .. } = &mut operation.phase else {
            return Ok(());
        };
        let mut fresh: HashMap<usize, ToolResultMessage> = HashMap::new();
        for Settled {
            index,
            result,
            changes,
        } in outcomes
        {
            let call = &mut calls[index];
            call.phase = CallPhase::OutcomeReady;
            step.transaction
                .delete_value(arguments_key(&call.invocation_id));
            step.transaction.journal(
                "tool_ended",
                serde_json::json!({
                    "lane": *self.lane.core.name,
                    "operation": operation_id,
                    "invocation": call.invocation_id,
                    "tool": call.tool,
                    "is_error": result.is_error,
                }),
            );
            step.before.push(EventKind::ToolEnd {
                invocation_id: call.invocation_id.clone(),
                result: Arc::new(result.clone()),
                changes,
            });
            fresh.insert(index, result);
        }
        for (index, call) in calls.iter_mut().enumerate() {
            match call.phase {
                CallPhase::Completed => continue,
                CallPhase::OutcomeReady => {}
                CallPhase::Planned | CallPhase::EffectPending { .. } => break,
            }
            let key = staged_key(&call.invocation_id);
            let result = match fresh.remove(&index) {
                Some(result) => result,
                None => {
                    let staged = self
                        .lane
                        .session
                        .store
                        .read(|queries| queries.value(&key))?;
                    step.transaction.delete_value(key);
                    staged.unwrap_or_else(|| {
                        let (id, tool) = (&call.invocation_id, &call.tool);
                        interrupted(&call.call_id, id, tool, Interruption::ByCrash)
                    })
                }
            };
            call.phase = CallPhase::Completed;
            step.append(call.entry(), Message::ToolResult(result));
        }
        for (index, result) in fresh {
            step.transaction
                .set_value(staged_key(&calls[index].invocation_id), &result);
        }
        if calls.iter().all(|call| call.phase == CallPhase::Completed) {
            operation.phase = Phase::Ready { attempt: 0 };
            step.after.push(EventKind::TurnEnd { operation_id, turn });
        }
        Ok(())
    }

    /// Results for calls that will not get one any more.
    pub(crate) fn interrupted_results(&self, calls: &[Call]) -> Vec<Settled> {
        let open = calls.iter().enumerate().filter_map(|(index, call)| {
            let when = match call.phase {
                CallPhase::Planned => Interruption::BeforeRunning,
                CallPhase::EffectPending { .. } => Interruption::ByCrash,
                CallPhase::OutcomeReady | CallPhase::Completed => return None,
            };
            let result = interrupted(&call.call_id, &call.invocation_id, &call.tool, when);
            Some(Settled {
                index,
                result,
                changes: Vec::new(),
            })
        });
        open.collect()
    }

    /// Shows which tools run, and forgets the calls that settled.
    fn show_tools(&self, state: &mut LaneState) {
        let open: Vec<Call> = match state.operation.as_ref().map(|operation| &operation.phase) {
            Some(Phase::Tools { calls, .. }) => {
                let settled = |call: &&Call| {
                    !matches!(call.phase, CallPhase::OutcomeReady | CallPhase::Completed)
                };
                calls.iter().filter(settled).cloned().collect()
            }
            _ => Vec::new(),
        };
        let is_open = |id: &InvocationId| open.iter().any(|call| call.invocation_id == *id);
        state.unwritten.retain(|id, _| is_open(id));
        state.calls.retain(|live| {
            open.iter()
                .any(|call| call.invocation_id == live.invocation_id)
        });
        let phase = match open.is_empty() {
            true => RunPhase::Preparing,
            false => RunPhase::Tools {
                names: open.into_iter().map(|call| call.tool).collect(),
            },
        };
        self.lane.core.set_phase(state, Some(phase));
    }
}
