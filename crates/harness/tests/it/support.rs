//! A session to test with: tools that are watched, a database in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bezel_context::{Context, TaskScope};
use bezel_harness::{
    Admission, EventKind, Harness, HarnessConfig, HarnessEvents, HarnessOptions, Lane, ModelSource,
    ModelSourceError, PromptRequest, ResolvedModel, ToolIdentity, ToolOrigin, ToolRegistration,
    ToolSet,
};
use bezel_session_types::{
    AssistantMessage, CommandId, Delivery, Entry, EntryBody, ExecutionMode, LaneName, Message,
    ModelRef, ModelSpec, Prices, Provider, Replay, ResultContent, SessionId, StopReason,
    ThinkingLevel, Tool, ToolError, ToolInvocation, ToolOutput, ToolResultMessage, ToolSpec,
    UserMessage,
};
use bezel_store::Store;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use crate::model::*;

type Execute = dyn Fn(Context, ToolInvocation) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// A tool made of a closure.
pub struct TestTool {
    spec: ToolSpec,
    execute: Box<Execute>,
}

impl TestTool {
    pub fn new<F, Fut>(execute: F) -> Self
    where
        F: Fn(Context, ToolInvocation) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        TestTool {
            spec: ToolSpec {
                label: "test".into(),
                description: "A tool of a test.".into(),
                parameters: Arc::new(json!({ "type": "object" })),
                output: None,
                execution_mode: ExecutionMode::Parallel,
                replay: Replay::Never,
            },
            execute: Box::new(move |cx, invocation| execute(cx, invocation).boxed()),
        }
    }

    /// Answers at once with the text of its arguments.
    pub fn echo() -> Self {
        TestTool::new(|_, invocation| async move {
            Ok(ToolOutput::text(invocation.arguments.to_string()))
        })
    }

    pub fn schema(mut self, schema: Value) -> Self {
        self.spec.parameters = Arc::new(schema);
        self
    }

    /// Declares structured output.
    pub fn output(mut self, schema: Value) -> Self {
        self.spec.output = Some(Arc::new(schema));
        self
    }

    pub fn sequential(mut self) -> Self {
        self.spec.execution_mode = ExecutionMode::Sequential;
        self
    }

    pub fn replay_safe(mut self) -> Self {
        self.spec.replay = Replay::Safe;
        self
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        (self.execute)(cx, invocation)
    }
}

pub fn registration(name: &str, tool: TestTool) -> ToolRegistration {
    ToolRegistration {
        name: name.into(),
        tool: Arc::new(tool),
        identity: ToolIdentity::new(name),
        origin: ToolOrigin::default(),
    }
}

/// Chooses the one model there is.
struct OneModel(Arc<Model>, ModelSpec);

impl ModelSource for OneModel {
    fn resolve(
        &self,
        _cx: &Context,
        _lane: &LaneName,
    ) -> BoxFuture<'static, Result<ResolvedModel, ModelSourceError>> {
        let resolved = ResolvedModel {
            provider: Arc::clone(&self.0) as Arc<dyn Provider>,
            spec: self.1.clone(),
            thinking: ThinkingLevel::Off,
        };
        async move { Ok(resolved) }.boxed()
    }
}

pub fn model_spec() -> ModelSpec {
    ModelSpec {
        model: ModelRef {
            provider: "test".into(),
            model_id: "model".into(),
        },
        name: "Test".into(),
        reasoning: true,
        images: true,
        context: 0,
        max_output: 0,
        prices: Some(Prices {
            input: 1.0,
            output: 2.0,
            cache_read: 0.0,
            cache_write: 0.0,
        }),
    }
}

/// A place on the disk that sessions come back to.
pub struct Place {
    pub directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn database(&self) -> PathBuf {
        self.directory.path().join("session.db")
    }

    pub fn output(&self) -> PathBuf {
        self.directory.path().join("output")
    }

    pub fn open(&self, model: &Arc<Model>, tools: Vec<ToolRegistration>) -> Session {
        self.open_with(model, tools, model_spec(), HarnessConfig::default())
    }

    pub fn open_with(
        &self,
        model: &Arc<Model>,
        tools: Vec<ToolRegistration>,
        spec: ModelSpec,
        config: HarnessConfig,
    ) -> Session {
        Session::open_at(
            &self.database(),
            self.directory.path(),
            model,
            tools,
            spec,
            config,
        )
    }
}

/// A session that is open.
pub struct Session {
    pub harness: Harness,
    pub lane: Lane,
    pub store: Store,
    pub events: HarnessEvents,
    pub cx: Context,
    scope: TaskScope,
}

pub fn prompt_request(command: &str, words: &str) -> PromptRequest {
    PromptRequest {
        command_id: CommandId::new(command),
        message: UserMessage::text(words),
        delivery: Delivery::Steer,
        resume: true,
    }
}

impl Session {
    pub fn open_at(
        database: &Path,
        directory: &Path,
        model: &Arc<Model>,
        tools: Vec<ToolRegistration>,
        spec: ModelSpec,
        config: HarnessConfig,
    ) -> Self {
        let store = Store::open(database).unwrap();
        let scope = TaskScope::new();
        let harness = Harness::open(HarnessOptions {
            store: store.clone(),
            session_id: SessionId::new("session"),
            directory: directory.to_owned(),
            output_directory: directory.join("output"),
            spawner: scope.spawner(),
            config,
        })
        .unwrap();
        harness.set_model_source(Arc::new(OneModel(Arc::clone(model), spec)));
        harness.set_tools(Arc::new(ToolSet::new(tools)));
        let events = harness.subscribe();
        let lane = harness.main();
        Session {
            lane,
            harness,
            store,
            scope,
            events,
            cx: Context::background(),
        }
    }

    pub async fn prompt(&self, words: &str) -> Admission {
        let request = prompt_request(&format!("command of {words}"), words);
        self.lane.prompt(&self.cx, request).await.unwrap()
    }

    pub async fn queue(&self, words: &str) -> Admission {
        let request = prompt_request(&format!("command of {words}"), words);
        let request = PromptRequest {
            delivery: Delivery::Queue,
            ..request
        };
        self.lane.prompt(&self.cx, request).await.unwrap()
    }

    pub async fn idle(&self) {
        self.lane.wait_idle(&self.cx).await.unwrap();
    }

    /// Prompts and waits until nothing runs.
    pub async fn turn(&self, words: &str) -> Admission {
        let admission = self.prompt(words).await;
        self.idle().await;
        admission
    }

    /// The main lane's path.
    pub fn entries(&self) -> Vec<Entry> {
        self.harness
            .tree()
            .recent(&LaneName::main(), 10_000)
            .unwrap()
            .entries
    }

    pub fn messages(&self) -> Vec<Message> {
        self.entries()
            .into_iter()
            .filter_map(|entry| entry.message().cloned())
            .collect()
    }

    pub fn results(&self) -> Vec<ToolResultMessage> {
        self.messages()
            .into_iter()
            .filter_map(|message| match message {
                Message::ToolResult(result) => Some(result),
                _ => None,
            })
            .collect()
    }

    pub fn answers(&self) -> Vec<AssistantMessage> {
        self.messages()
            .into_iter()
            .filter_map(|message| match message {
                Message::Assistant(answer) => Some(answer),
                _ => None,
            })
            .collect()
    }

    /// The lane's path, one short line an entry.
    pub fn outline(&self) -> Vec<String> {
        outline(&self.entries())
    }

    /// Waits for an event of a kind; those before it are passed over.
    pub async fn event<T>(&mut self, pick: impl Fn(&EventKind) -> Option<T>) -> T {
        loop {
            let event = self.events.next().await.expect("the harness is open");
            if let Some(found) = pick(&event.kind) {
                return found;
            }
        }
    }

    /// What happened so far.
    pub fn happened(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.events.try_next())
            .map(|event| event.kind)
            .collect()
    }

    /// Ends the scope that the session's tasks live in.
    pub async fn end_tasks(&mut self) {
        std::mem::take(&mut self.scope)
            .shutdown(Duration::ZERO)
            .await;
    }

    /// Ends the process as a kill would: nothing more is written.
    pub async fn kill(self) {
        let Session {
            harness,
            lane,
            store,
            scope,
            events,
            cx: _,
        } = self;
        drop(events);
        scope.shutdown(Duration::ZERO).await;
        drop((harness, lane, store));
    }
}

pub fn outline(entries: &[Entry]) -> Vec<String> {
    let line = |entry: &Entry| match &entry.body {
        EntryBody::Message { message } => match &**message {
            Message::User(user) => format!("user: {}", user.to_text()),
            Message::Assistant(answer) => {
                let calls: Vec<&str> = answer.tool_calls().map(|call| call.id.as_str()).collect();
                let reason = match answer.stop_reason {
                    StopReason::Error => " (error)",
                    StopReason::Aborted => " (aborted)",
                    _ => "",
                };
                format!("answer{reason}: {}{}", answer.to_text(), calls.join(" "))
            }
            Message::ToolResult(result) => {
                let failed = if result.is_error { " (error)" } else { "" };
                format!(
                    "result{failed} of {}: {}",
                    result.call_id,
                    text_of(&result.content)
                )
            }
        },
        EntryBody::Compaction(compaction) => format!("compaction: {}", compaction.summary),
        EntryBody::BranchSummary(branch) => format!("branch: {}", branch.summary),
        EntryBody::Custom(custom) => format!("custom: {}", custom.name),
    };
    entries
        .iter()
        .filter(|entry| !is_resumed(entry))
        .map(line)
        .collect()
}

/// The remark that a run goes on after its process ended: a crash may add it wherever it strikes.
pub fn is_resumed(entry: &Entry) -> bool {
    matches!(&entry.body, EntryBody::Custom(custom) if custom.name == "harness.resumed")
}

pub fn text_of(content: &[ResultContent]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
