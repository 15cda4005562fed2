//! What a tool is to the harness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::{Access, InvocationId, OperationId, ResultContent, SessionId};

/// Something that a model may call.
pub trait Tool: Send + Sync {
    /// What it is. Constant for one tool value.
    fn spec(&self) -> &ToolSpec;

    /// Runs it once. `cx` ends when the invocation is cancelled: end everything that was started then.
    /// Arguments have been validated against the schema. A panic is caught and becomes an error result.
    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;

    /// What a call with these arguments would touch, for those who judge calls before they run; `directory`
    /// is that of the session's location. `None` where the tool does not say: it is then judged by its name
    /// alone, as something that may touch anything. An empty list says that it touches nothing outside of
    /// the session itself.
    ///
    /// Arguments have been validated against the schema. It must be quick, and look at nothing that the call
    /// itself would change. A wrapper answers for what it makes of the call, or leaves this as it is: the
    /// registry then asks the tool within.
    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        None
    }
}

/// What a tool is, for the model, for people and for the harness.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolSpec {
    /// For people.
    pub label: Arc<str>,
    /// For the model.
    pub description: Arc<str>,
    /// JSON Schema of the arguments, an object.
    pub parameters: Arc<Value>,
    /// JSON Schema of [`ToolOutput::structured`]. Where there is one, a call whose output does not match it
    /// fails with `tool.invalid_output`, whatever effect it had.
    pub output: Option<Arc<Value>>,
    /// Whether calls of one step may run side by side.
    pub execution_mode: ExecutionMode,
    /// Whether a call that may have run can be run again.
    pub replay: Replay,
}

/// Whether calls of one step may run side by side. One sequential call makes its whole step sequential.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// They may.
    #[default]
    Parallel,
    /// One after the other.
    Sequential,
}

/// Whether a call that may have run can be run again after a crash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replay {
    /// Never: it becomes an interrupted error.
    #[default]
    Never,
    /// With the same id, arguments and memos it has the same effect.
    Safe,
}

/// One call of a tool.
#[derive(Clone)]
pub struct ToolInvocation {
    /// Unique in the session, stable across replay.
    pub invocation_id: InvocationId,
    /// The operation that it belongs to.
    pub operation_id: OperationId,
    /// The session that calls.
    pub session_id: SessionId,
    /// The name that the model used.
    pub tool: Arc<str>,
    /// The arguments, valid against the schema.
    pub arguments: Arc<Value>,
    /// What the tool said of this call when it was judged: the call does that and nothing else, whatever has changed
    /// since. `None` where nobody judged it, or the tool does not say.
    pub accesses: Option<Arc<[Access]>>,
    /// What the harness offers while the call runs.
    pub host: Arc<dyn ToolHost>,
}

/// What the harness offers to a running call. Once the call has settled, what it shows is dropped and
/// what it notes is refused.
pub trait ToolHost: Send + Sync {
    /// The directory of the session's location.
    fn directory(&self) -> &Path;

    /// Shows how far the call is: replaces or extends what is shown, never stored.
    fn progress(&self, progress: Progress);

    /// A new file for output that is too long to show, kept with the session. Named in the result.
    fn output_file(&self, invocation: &InvocationId) -> PathBuf;

    /// What the call noted under `name`, in this process or in one before it.
    fn memo(&self, name: &str) -> Result<Option<Value>, MemoError>;

    /// Notes `value` under `name` in place of what was there; `None` takes it out. It survives
    /// `kill -9`, a replayed call finds it again, and it goes with the commit that settles the call.
    fn set_memo(&self, name: &str, value: Option<&Value>) -> Result<(), MemoError>;
}

/// A memo that could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoError {
    /// The name cannot be one.
    #[error("`{name}` cannot name a memo: a name has at least one character and no colon")]
    Name {
        /// The name.
        name: String,
    },
    /// The call is not the one that runs under this id: it settled, or was replaced.
    #[error("call {invocation_id} does not run any more: its memos went when it settled")]
    Settled {
        /// Which call.
        invocation_id: InvocationId,
    },
    /// The session could not be read or written.
    #[error("memo `{name}` of call {invocation_id}: {message}")]
    Storage {
        /// Which call.
        invocation_id: InvocationId,
        /// Which memo.
        name: String,
        /// What the database says.
        message: String,
    },
}

/// What a running call shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// More output, appended to what is shown.
    Append(String),
    /// New details for the renderer in place of the old.
    Details(Value),
}

/// A tool call that succeeded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model reads. Where it is empty and there is structured data, the model reads that as JSON.
    pub content: Vec<ResultContent>,
    /// The result as data, for programs and renderers; it matches [`ToolSpec::output`] where the tool has one.
    pub structured: Option<Value>,
    /// For renderers; the model never sees it. `null` when there is none.
    pub details: Value,
    /// Which files the call changed, for those who watch.
    pub changes: Vec<FileChange>,
}

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Absolute.
    pub path: PathBuf,
}

/// A tool call that failed in a way that the model can read and act on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// What was attempted, on what, and what to do.
    #[error("{message}")]
    Failed {
        /// For the model and the person.
        message: String,
        /// For renderers.
        details: Value,
    },
    /// The invocation was cancelled; whatever was started has ended.
    #[error("interrupted")]
    Interrupted,
}

impl ToolError {
    /// A failure without details.
    pub fn failed(message: impl Into<String>) -> Self {
        ToolError::Failed {
            message: message.into(),
            details: Value::Null,
        }
    }
}

impl ToolOutput {
    /// One text part.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput {
            content: vec![ResultContent::text(text)],
            ..ToolOutput::default()
        }
    }

    /// Data that matches [`ToolSpec::output`]; the model reads it as JSON.
    pub fn structured(data: Value) -> Self {
        ToolOutput {
            structured: Some(data),
            ..ToolOutput::default()
        }
    }

    /// The same with details for renderers.
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}
