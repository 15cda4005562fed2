//! Running one call: from cleared arguments to a bounded result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_context::{Context, span};
use bezel_session_types::{
    Access, InvocationId, MemoError, OperationId, Progress, ResultContent, Tool, ToolError,
    ToolHost, ToolInvocation, ToolOutput, ToolResultMessage,
};
use bezel_store::Committed;
use serde_json::{Value, json};
use tracing::Instrument as _;

use super::bound::bound;
use super::output::{OutputError, OutputSchema};
use super::set::ToolOrigin;
use crate::coordinator::Stop;
use crate::events::{EventKind, keep_tail};
use crate::harness::Session;
use crate::hooks::{PendingCall, SettledCall, ToolPatch};
use crate::lane::Lane;
use crate::run::Run;
use crate::state::LiveCall;

/// Shown output that a late observer still sees, in bytes.
const SHOWN: usize = 64 * 1024;

/// A call that may run, with the arguments that were approved.
pub(crate) struct ClearedCall {
    /// Place in the step.
    pub(crate) index: usize,
    /// The provider's id.
    pub(crate) call_id: String,
    pub(crate) tool: Arc<dyn Tool>,
    /// What its structured data must match.
    pub(crate) output: OutputSchema,
    pub(crate) origin: ToolOrigin,
    pub(crate) pending: PendingCall,
    /// What the tool said that it touches, where that was judged.
    pub(crate) accesses: Option<Arc<[Access]>>,
    /// The arguments are not those that the model gave.
    pub(crate) replaced: bool,
}

/// A call that settled, its result bounded and patched.
pub(crate) struct Settled {
    pub(crate) index: usize,
    pub(crate) result: ToolResultMessage,
    pub(crate) changes: Vec<PathBuf>,
}

/// What a call came to.
enum Outcome {
    Output(ToolOutput),
    Failed {
        message: String,
        details: Value,
    },
    /// Its operation was ended before it was done; with what it returned after that, if anything.
    Interrupted(ToolOutput),
}

/// What a tool returned whose operation had been ended by then: however it calls that itself, it was interrupted.
fn cut_short(returned: Result<ToolOutput, ToolError>) -> Outcome {
    Outcome::Interrupted(match returned {
        Ok(output) => output,
        Err(ToolError::Failed { message, details }) => {
            ToolOutput::text(message).with_details(details)
        }
        Err(ToolError::Interrupted) => ToolOutput::default(),
    })
}

impl Run {
    /// Runs a call whose intent is committed. `intent` is awaited on the disk first, where the call
    /// must not be lost sight of even after a power cut.
    pub(crate) async fn execute(
        &self,
        call: ClearedCall,
        intent: Option<Committed>,
    ) -> Result<Settled, Stop> {
        if let Some(intent) = intent {
            self.lane.session.store.synced(&intent).await?;
        }
        let ClearedCall {
            index,
            call_id,
            tool,
            output,
            origin,
            pending,
            accesses,
            ..
        } = call;
        self.show(&call_id, &pending);
        let host = Arc::new(CallHost {
            lane: self.lane.clone(),
            operation_id: pending.operation_id.clone(),
            invocation_id: pending.invocation_id.clone(),
            settled: AtomicBool::new(false),
        });
        let invocation = ToolInvocation {
            invocation_id: pending.invocation_id.clone(),
            operation_id: pending.operation_id.clone(),
            session_id: self.lane.session.id.clone(),
            tool: Arc::clone(&pending.tool),
            arguments: Arc::clone(&pending.arguments),
            accesses,
            host: Arc::clone(&host) as Arc<dyn ToolHost>,
        };
        let outcome = self.run_tool(tool, &origin, invocation).await;
        host.settled.store(true, Ordering::Release);
        self.tool_ended(&pending).await;
        Ok(self
            .settle_call(index, call_id, pending, (&origin, &output), outcome)
            .await)
    }

    /// Runs the tool in a task of its own, so that its panic is its own too.
    async fn run_tool(
        &self,
        tool: Arc<dyn Tool>,
        origin: &ToolOrigin,
        invocation: ToolInvocation,
    ) -> Outcome {
        let session = &self.lane.session;
        let name = Arc::clone(&invocation.tool);
        let (cx, span) = span!(
            &self.cx,
            "tool.call",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = &*name,
            invocation = %invocation.invocation_id,
            "error.type" = tracing::field::Empty,
        );
        let inside = span.clone();
        let ending = self.cx.clone();
        let mut task = session.spawner.spawn("tool", async move {
            let returned = tool.execute(cx, invocation).instrument(inside).await;
            // Looked at where it returns: whoever waits for it may hear of both at once.
            (returned, ending.is_cancelled())
        });
        let ended = tokio::select! {
            ended = &mut task => Some(ended),
            _ = self.cx.cancelled() => {
                tokio::time::timeout(session.config.cancel_grace, &mut task).await.ok()
            }
        };
        let outcome = match ended {
            Some(Some(Ok((returned, true)))) => cut_short(returned),
            Some(Some(Ok((Ok(output), false)))) => Outcome::Output(output),
            Some(Some(Ok((Err(ToolError::Failed { message, details }), false)))) => {
                Outcome::Failed { message, details }
            }
            Some(Some(Ok((Err(ToolError::Interrupted), false))) | None) => {
                Outcome::Interrupted(ToolOutput::default())
            }
            Some(Some(Err(error))) if error.is_panic() => {
                let message = format!(
                    "{} failed inside ({}). This is a fault of the tool, not of the call; it may have had part of its effect. Try another way.",
                    origin.named(&name),
                    panic_text(error.into_panic())
                );
                Outcome::Failed {
                    message,
                    details: origin.fault("tool.panic"),
                }
            }
            Some(Some(Err(_))) => Outcome::Interrupted(ToolOutput::default()),
            None => {
                tracing::warn!(tool = %name, "the tool did not end when it was cancelled; it was dropped");
                task.abort();
                Outcome::Interrupted(ToolOutput::default())
            }
        };
        let failed = match outcome {
            Outcome::Output(_) => None,
            Outcome::Failed { .. } => Some("tool.failed"),
            Outcome::Interrupted(_) => Some("interrupted"),
        };
        if let Some(code) = failed {
            span.record("error.type", code);
        }
        outcome
    }

    async fn settle_call(
        &self,
        index: usize,
        call_id: String,
        pending: PendingCall,
        (origin, schema): (&ToolOrigin, &OutputSchema),
        outcome: Outcome,
    ) -> Settled {
        let session = &self.lane.session;
        let invocation_id = pending.invocation_id.clone();
        let tool = pending.tool.to_string();
        let (mut output, is_error) = match outcome {
            Outcome::Output(mut output) => match schema.encode(&mut output) {
                Ok(()) => (output, false),
                Err(error) => (invalid_output(&tool, origin, &error, output), true),
            },
            Outcome::Failed { message, details } => {
                (ToolOutput::text(message).with_details(details), true)
            }
            Outcome::Interrupted(said) => {
                let changes = said.changes.iter();
                let changes = changes.map(|change| change.path.clone()).collect();
                let mut result = interrupted_with(&call_id, &invocation_id, &tool, said);
                let new_file = || new_output_file(session, &result_id(&pending));
                bound(&mut result, new_file).await;
                return Settled {
                    index,
                    result,
                    changes,
                };
            }
        };
        let changes = std::mem::take(&mut output.changes);
        let mut result = ToolResultMessage {
            call_id,
            invocation_id,
            tool,
            content: output.content,
            structured: output.structured,
            details: output.details,
            is_error,
        };
        let new_file = || new_output_file(session, &result_id(&pending));
        bound(&mut result, new_file).await;
        if !self.cx.is_cancelled() {
            result = self.after_tool(&pending, schema, result).await;
            bound(&mut result, new_file).await;
        }
        Settled {
            index,
            result,
            changes: changes.into_iter().map(|change| change.path).collect(),
        }
    }

    /// Tells of the end of an effect, also while the turn is being interrupted.
    async fn tool_ended(&self, pending: &PendingCall) {
        let session = &self.lane.session;
        for hook in session.hooks.tool_ended.registered() {
            let deadline = Some(session.config.hook_deadline);
            let cx = Context::background().with_trace(self.cx.trace().child());
            if let Err(failure) = hook.call(&cx, deadline, pending.clone()).await {
                self.report(failure);
            }
        }
    }

    async fn after_tool(
        &self,
        pending: &PendingCall,
        schema: &OutputSchema,
        mut result: ToolResultMessage,
    ) -> ToolResultMessage {
        let session = &self.lane.session;
        for hook in session.hooks.after_tool.registered() {
            let settled = SettledCall {
                call: pending.clone(),
                result: Arc::new(result.clone()),
            };
            let deadline = Some(session.config.hook_deadline);
            let patched = hook.call(&self.cx, deadline, settled).await;
            let applied = patched.and_then(|patch| {
                let applied = patch.apply(&mut result, schema);
                applied.map_err(|error| hook.failure(error.to_string()))
            });
            if let Err(failure) = applied {
                self.report(failure);
            }
        }
        result
    }

    /// Shows that a call runs.
    fn show(&self, call_id: &str, pending: &PendingCall) {
        let mut state = self.lane.core.lock();
        state.calls.push(LiveCall {
            invocation_id: pending.invocation_id.clone(),
            call_id: call_id.to_owned(),
            tool: Arc::clone(&pending.tool),
            arguments: Arc::clone(&pending.arguments),
            output: String::new(),
            details: Value::Null,
        });
        self.lane.publish(EventKind::ToolStart {
            invocation_id: pending.invocation_id.clone(),
            call_id: call_id.to_owned(),
            tool: Arc::clone(&pending.tool),
            arguments: Arc::clone(&pending.arguments),
        });
    }
}

impl ToolPatch {
    /// Changes `result`, or nothing of it where the structured data is not what the tool declares.
    fn apply(
        self,
        result: &mut ToolResultMessage,
        schema: &OutputSchema,
    ) -> Result<(), OutputError> {
        let is_error = self.is_error.unwrap_or(result.is_error);
        let changed = self.structured.filter(|data| *data != result.structured);
        if let Some(structured) = changed {
            if !is_error {
                schema.check(structured.as_ref())?;
            }
            result.structured = structured;
        }
        result.content = self
            .content
            .unwrap_or_else(|| std::mem::take(&mut result.content));
        result.details = self.details.unwrap_or_else(|| result.details.take());
        result.is_error = is_error;
        Ok(())
    }
}

/// What becomes of output that does not encode: a failure that says so. What was changed stays changed.
fn invalid_output(
    tool: &str,
    origin: &ToolOrigin,
    error: &OutputError,
    output: ToolOutput,
) -> ToolOutput {
    let message = format!(
        "{} ran, and its result cannot be used: {error}\nThis is a fault of the tool, not of the call; it may have had its effect. Look before you run it again.",
        origin.named(tool)
    );
    ToolOutput {
        changes: output.changes,
        ..ToolOutput::text(message).with_details(origin.fault("tool.invalid_output"))
    }
}

/// When a call was interrupted.
#[derive(Clone, Copy)]
pub(crate) enum Interruption {
    BeforeRunning,
    WhileRunning,
    ByCrash,
}

/// The result of a call that was interrupted.
pub(crate) fn interrupted(
    call_id: &str,
    invocation_id: &InvocationId,
    tool: &str,
    when: Interruption,
) -> ToolResultMessage {
    let text = match when {
        Interruption::BeforeRunning => "Not run: the turn was interrupted before this call began.",
        Interruption::WhileRunning => {
            "Interrupted while it ran: it may have had part of its effect. Look before you run it again."
        }
        Interruption::ByCrash => {
            "Interrupted: the session ended while this call ran. It may have had its effect, in part or whole. Look before you run it again."
        }
    };
    failed(call_id, invocation_id, tool, "interrupted", text.to_owned())
}

/// The result of a call that was interrupted while it ran, and returned something after that: for the reader, after
/// the sentence that says so. Data that would be taken for the tool's own is left out.
fn interrupted_with(
    call_id: &str,
    invocation_id: &InvocationId,
    tool: &str,
    said: ToolOutput,
) -> ToolResultMessage {
    let mut result = interrupted(call_id, invocation_id, tool, Interruption::WhileRunning);
    if !said.content.is_empty() {
        result
            .content
            .push(ResultContent::text("\nWhat it returned after that:\n"));
        result.content.extend(said.content);
    }
    if let (Value::Object(details), Value::Object(mut own)) = (&mut result.details, said.details) {
        own.append(details);
        *details = own;
    }
    result
}

/// The result of a call that failed in the harness's own hands.
pub(crate) fn failed(
    call_id: &str,
    invocation_id: &InvocationId,
    tool: &str,
    code: &str,
    message: String,
) -> ToolResultMessage {
    ToolResultMessage {
        call_id: call_id.to_owned(),
        invocation_id: invocation_id.clone(),
        tool: tool.to_owned(),
        content: vec![ResultContent::text(message)],
        structured: None,
        details: json!({ "code": code }),
        is_error: true,
    }
}

fn result_id(pending: &PendingCall) -> InvocationId {
    pending.invocation_id.clone()
}

fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or("no message", |text| *text)
            .to_owned(),
    }
}

/// A path in the session's output directory that no file has yet.
fn new_output_file(session: &Session, invocation: &InvocationId) -> PathBuf {
    let directory = &session.output_directory;
    // Where it cannot be made, writing the file fails and says why. Looking is cheaper than trying.
    if !directory.is_dir()
        && let Err(error) = std::fs::create_dir_all(directory)
    {
        tracing::warn!(directory = %directory.display(), %error, "the output directory was not made");
    }
    let first = directory.join(format!("{invocation}.txt"));
    let others = (2..).map(|number| directory.join(format!("{invocation}-{number}.txt")));
    std::iter::once(first)
        .chain(others)
        .find(|path| !path.exists())
        .expect("there is a free number")
}

/// What a running call is offered.
struct CallHost {
    lane: Lane,
    operation_id: OperationId,
    invocation_id: InvocationId,
    settled: AtomicBool,
}

impl ToolHost for CallHost {
    fn directory(&self) -> &Path {
        &self.lane.session.directory
    }

    fn progress(&self, progress: Progress) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.lane.core.lock();
        let live = state
            .calls
            .iter_mut()
            .find(|call| call.invocation_id == self.invocation_id);
        let Some(live) = live else { return };
        match &progress {
            Progress::Append(text) => {
                live.output.push_str(text);
                keep_tail(&mut live.output, SHOWN);
            }
            Progress::Details(details) => live.details = details.clone(),
        }
        let invocation_id = self.invocation_id.clone();
        self.lane.publish(EventKind::ToolUpdate {
            invocation_id,
            progress,
        });
    }

    fn output_file(&self, invocation: &InvocationId) -> PathBuf {
        new_output_file(&self.lane.session, invocation)
    }

    fn memo(&self, name: &str) -> Result<Option<Value>, MemoError> {
        let settled = || self.settled.load(Ordering::Acquire);
        self.lane
            .memo(&self.operation_id, &self.invocation_id, settled, name)
    }

    fn set_memo(&self, name: &str, value: Option<&Value>) -> Result<(), MemoError> {
        let settled = || self.settled.load(Ordering::Acquire);
        let (operation, invocation) = (&self.operation_id, &self.invocation_id);
        self.lane
            .set_memo(operation, invocation, settled, name, value)
    }
}
