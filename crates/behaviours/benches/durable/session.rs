//! A session at the harness: a scripted model and a few tools, and the store in the caller's hands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::{Context, TaskScope};
use bezel_harness::{
    Harness, HarnessConfig, HarnessOptions, ModelSource, ModelSourceError, PromptRequest,
    ResolvedModel, Store, ToolIdentity, ToolOrigin, ToolRegistration, ToolSet,
};
use bezel_session_types::{
    CommandId, Delivery, ExecutionMode, LaneName, ModelRef, ModelSpec, Replay, SessionId,
    ThinkingLevel, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec, UserMessage,
};
use bezel_testkit::{Script, ScriptedProvider};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

use crate::Result;

type Execute = dyn Fn(Context, ToolInvocation) -> BoxFuture<'static, std::result::Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// A tool made of a closure.
struct ClosureTool {
    spec: ToolSpec,
    execute: Box<Execute>,
}

impl Tool for ClosureTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, std::result::Result<ToolOutput, ToolError>> {
        (self.execute)(cx, invocation)
    }
}

/// A tool of that name.
pub fn tool<F, Fut>(name: &str, replay: Replay, execute: F) -> ToolRegistration
where
    F: Fn(Context, ToolInvocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<ToolOutput, ToolError>> + Send + 'static,
{
    let spec = ToolSpec {
        label: name.into(),
        description: "A tool of a measurement.".into(),
        parameters: Arc::new(json!({ "type": "object" })),
        output: None,
        execution_mode: ExecutionMode::Parallel,
        replay,
    };
    ToolRegistration {
        name: name.into(),
        tool: Arc::new(ClosureTool {
            spec,
            execute: Box::new(move |cx, invocation| execute(cx, invocation).boxed()),
        }),
        identity: ToolIdentity::new(name),
        origin: ToolOrigin::default(),
    }
}

struct OneModel(ScriptedProvider);

impl ModelSource for OneModel {
    fn resolve(
        &self,
        _cx: &Context,
        _lane: &LaneName,
    ) -> BoxFuture<'static, std::result::Result<ResolvedModel, ModelSourceError>> {
        let resolved = ResolvedModel {
            provider: Arc::new(self.0.clone()),
            spec: ModelSpec {
                model: ModelRef {
                    provider: "bench".into(),
                    model_id: "scripted".into(),
                },
                name: "Scripted".into(),
                reasoning: false,
                images: false,
                context: 0,
                max_output: 0,
                prices: None,
            },
            thinking: ThinkingLevel::Off,
        };
        async move { Ok(resolved) }.boxed()
    }
}

/// A session that is open.
pub struct Session {
    pub store: Store,
    pub harness: Harness,
    pub model: ScriptedProvider,
    _tasks: TaskScope,
}

/// The session's database in a folder.
pub fn database(folder: &Path) -> PathBuf {
    folder.join("session.db")
}

/// Takes the session in `folder` up.
pub fn take_up(store: Store, folder: &Path, tasks: &TaskScope) -> Result<Harness> {
    Ok(Harness::open(HarnessOptions {
        store,
        session_id: SessionId::new("session"),
        directory: folder.to_owned(),
        output_directory: folder.join("output"),
        spawner: tasks.spawner(),
        config: HarnessConfig::default(),
    })?)
}

impl Session {
    pub fn open(folder: &Path) -> Result<Self> {
        let store = Store::open(database(folder))?;
        let tasks = TaskScope::new();
        let harness = take_up(store.clone(), folder, &tasks)?;
        let model = ScriptedProvider::new(Script::new([]));
        harness.set_model_source(Arc::new(OneModel(model.clone())));
        Ok(Session {
            store,
            harness,
            model,
            _tasks: tasks,
        })
    }

    pub fn set_tools(&self, tools: Vec<ToolRegistration>) {
        self.harness.set_tools(Arc::new(ToolSet::new(tools)));
    }

    /// Begins a turn.
    pub async fn prompt(&self, cx: &Context, command: &str) -> Result<()> {
        let request = PromptRequest {
            command_id: CommandId::new(command),
            message: UserMessage::text("Go."),
            delivery: Delivery::Steer,
            resume: true,
        };
        self.harness.main().prompt(cx, request).await?;
        Ok(())
    }

    /// Runs a turn to its end.
    pub async fn turn(&self, cx: &Context, command: &str) -> Result<()> {
        self.prompt(cx, command).await?;
        self.harness.main().wait_idle(cx).await?;
        Ok(())
    }
}
