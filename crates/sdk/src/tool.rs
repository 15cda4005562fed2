//! A tool of the program's own.

use std::fmt::{self, Display};
use std::future::ready;
use std::path::Path;
use std::sync::Arc;

use bezel_api_session::Sessions;
use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Progress, Replay, SessionId, ToolError, ToolInvocation, ToolOutput,
    ToolSpec,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::hosts::{CallingHost, SessionEnded};

type Ran = BoxFuture<'static, Result<ToolOutput, ToolError>>;
type Run = Arc<dyn Fn(Value, ToolCall) -> Ran + Send + Sync>;
type Says = Arc<dyn Fn(&Value, &Path) -> Vec<Access> + Send + Sync>;

/// A tool of the program's own: what the model is told of it, and an asynchronous function.
///
/// The function runs on the runtime that Bezel was started from, so that it may use what belongs to that one.
/// An error is for the model, which reads it and goes on; so is a panic. When the call is interrupted the
/// function's future is dropped.
///
/// What a call touches nobody knows unless the tool says it ([`Tool::touches_nothing`], [`Tool::touching`]):
/// it then needs a permission in every mode but `full`. [`Builder::allow`](crate::Builder::allow) gives it.
#[derive(Clone)]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) spec: ToolSpec,
    pub(crate) run: Run,
    pub(crate) says: Option<Says>,
    pub(crate) replaces: bool,
}

/// One call of a tool.
#[derive(Clone)]
pub struct ToolCall {
    pub(crate) cx: Context,
    pub(crate) invocation: ToolInvocation,
    /// The host of the session that calls; none once it has ended.
    pub(crate) host: Option<CallingHost>,
}

/// What a tool's function may return: text, or an output with pictures and details.
pub trait IntoOutput {
    /// What the model reads; an error where there is no way to write it.
    fn into_output(self) -> Result<ToolOutput, ToolError>;
}

/// A value that the model reads as JSON, and renderers as the result's details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl Tool {
    /// A tool whose input is a type: the model is shown its JSON Schema, in which doc comments are
    /// descriptions, and calls that do not fit it never reach the function.
    pub fn new<Input, F, Fut, Output, Failure>(name: &str, description: &str, run: F) -> Self
    where
        Input: DeserializeOwned + JsonSchema,
        F: Fn(Input, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Failure>> + Send + 'static,
        Output: IntoOutput,
        Failure: Display,
    {
        let settings = schemars::generate::SchemaSettings::draft2020_12();
        let generator = settings.with(|settings| settings.meta_schema = None);
        let mut schema = generator
            .into_generator()
            .into_root_schema_for::<Input>()
            .to_value();
        if let Some(object) = schema.as_object_mut() {
            // A type's name and the sentence above it are the program's; the tool has a name and a description.
            object.remove("title");
            object.remove("description");
        }
        let called = name.to_owned();
        let run: Run = Arc::new(
            move |input, call| match serde_json::from_value::<Input>(input) {
                Ok(input) => {
                    let ran = run(input, call);
                    async move { ended(ran.await) }.boxed()
                }
                Err(error) => {
                    let message = format!(
                        "The arguments of `{called}` fit its schema and cannot be used: {error}. Call it again with others."
                    );
                    ready(Err(ToolError::failed(message))).boxed()
                }
            },
        );
        Self::of(name, description, schema, run)
    }

    /// A tool whose input is described by a JSON Schema of an object, and comes as JSON that fits it.
    pub fn with_schema<F, Fut, Output, Failure>(
        name: &str,
        description: &str,
        schema: Value,
        run: F,
    ) -> Self
    where
        F: Fn(Value, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Failure>> + Send + 'static,
        Output: IntoOutput,
        Failure: Display,
    {
        let run: Run = Arc::new(move |input, call| {
            let ran = run(input, call);
            async move { ended(ran.await) }.boxed()
        });
        Self::of(name, description, schema, run)
    }

    fn of(name: &str, description: &str, schema: Value, run: Run) -> Self {
        Tool {
            name: name.to_owned(),
            spec: ToolSpec {
                output: None,
                label: name.into(),
                description: description.into(),
                parameters: Arc::new(schema),
                execution_mode: ExecutionMode::Parallel,
                replay: Replay::Never,
            },
            run,
            says: None,
            replaces: false,
        }
    }

    /// What people see it called, instead of its name.
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.spec.label = label.into();
        self
    }

    /// Says that a call touches nothing outside of the program and the session: it needs no permission.
    #[must_use]
    pub fn touches_nothing(self) -> Self {
        self.touching(|_, _| Vec::new())
    }

    /// Says what a call with some input would touch, given the session's directory. It is judged by that.
    #[must_use]
    pub fn touching(
        mut self,
        says: impl Fn(&Value, &Path) -> Vec<Access> + Send + Sync + 'static,
    ) -> Self {
        self.says = Some(Arc::new(says));
        self
    }

    /// No other call of a step runs beside one of this tool.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.spec.execution_mode = ExecutionMode::Sequential;
        self
    }

    /// Says that a call that may have run can run again: with the same id and input it has the same effect.
    #[must_use]
    pub fn replay_safe(mut self) -> Self {
        self.spec.replay = Replay::Safe;
        self
    }

    /// Takes the place of a tool of this name, whosever it is. Without this a name that is taken is refused.
    #[must_use]
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }
}

/// What the model reads of how a function ended.
fn ended<Output: IntoOutput, Failure: Display>(
    ran: Result<Output, Failure>,
) -> Result<ToolOutput, ToolError> {
    match ran {
        Ok(output) => output.into_output(),
        Err(error) => Err(ToolError::failed(format!("{error:#}"))),
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Tool");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

impl ToolCall {
    /// The session that calls.
    pub fn session_id(&self) -> &SessionId {
        &self.invocation.session_id
    }

    /// The directory that the session works in.
    pub fn directory(&self) -> &Path {
        self.invocation.host.directory()
    }

    /// Shows people more of what the call does; the model never sees it.
    pub fn progress(&self, text: impl Into<String>) {
        self.invocation.host.progress(Progress::Append(text.into()));
    }

    /// Ends when the call is interrupted. The function's future is dropped then; this is for what it started
    /// elsewhere.
    pub fn context(&self) -> &Context {
        &self.cx
    }

    /// Does something with the sessions within reach of the one that calls: its own, its parts and theirs, and the
    /// records of others. It runs where that session lives, beside its other work, so it must not block; it ends
    /// with the call. An error where the session has ended.
    ///
    /// What acts on the calling session itself is refused as busy where the session's own turn excludes it, and must
    /// not be waited for: the turn waits for this call.
    pub async fn with_sessions<T, F, Fut>(&self, work: F) -> Result<T, SessionEnded>
    where
        T: Send + 'static,
        F: FnOnce(Context, Sessions) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        match &self.host {
            Some(host) => host.run(self.cx.clone(), work).await,
            None => Err(SessionEnded),
        }
    }

    /// Everything of the call: its ids, its memos, files for long output.
    pub fn invocation(&self) -> &ToolInvocation {
        &self.invocation
    }
}

impl IntoOutput for ToolOutput {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoOutput for &str {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl<T: serde::Serialize> IntoOutput for Json<T> {
    fn into_output(self) -> Result<ToolOutput, ToolError> {
        match serde_json::to_value(&self.0) {
            Ok(value) => Ok(ToolOutput::text(value.to_string()).with_details(value)),
            Err(error) => Err(ToolError::failed(format!(
                "the tool ran, and its result cannot be written as JSON: {error}"
            ))),
        }
    }
}
