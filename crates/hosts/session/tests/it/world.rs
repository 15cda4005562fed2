//! A session host whose server cannot be reached, a facet that hands its agent out, and tools made of closures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_session::{
    Agent, Availability, Engine, Facet, FacetError, Lane, ProviderEntry, SessionContext,
    SessionFacet, ToolDraft,
};
use bezel_context::{Context, WorkspaceId};
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RunningSession, SessionHost, SessionHostOptions,
    SessionIdentity, StartChild, WorkerTree,
};
use bezel_plugin::{Contribution, Deadlines, Manifest, ManifestEntry};
use bezel_rpc::{Connect, ConnectError, Credential, Hello, Role, Transport};
use bezel_session_types::{
    CommandId, Delivery, Message, ModelRef, ResultContent, SessionId, ThinkingLevel, Tool,
    ToolError, ToolInvocation, ToolOutput, ToolResultMessage, ToolSpec, UserMessage,
};
use bezel_testkit::ScriptedProvider;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server that is never there.
struct Nowhere;

impl Connect for Nowhere {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        std::future::pending().boxed()
    }
}

/// A place on the disk that a session comes back to.
pub struct Place(TempDir);

/// A session that is open.
pub struct Opened {
    pub host: RunningSession,
    pub agent: Agent,
    pub lane: Lane,
    pub cx: Context,
    tree: WorkerTree,
}

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// The session's directory.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn database(&self) -> PathBuf {
        self.0.path().join("session.db")
    }

    pub async fn open(&self, model: &ScriptedProvider) -> Opened {
        let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
        self.open_with(engine, model, vec![]).await
    }

    /// The whole outputs of tools.
    pub fn output(&self) -> PathBuf {
        self.0.path().join("output")
    }

    /// With Bezel's own harness and these facets.
    pub async fn open_facets(&self, model: &ScriptedProvider, facets: Vec<SessionFacet>) -> Opened {
        let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
        self.open_with(engine, model, facets).await
    }

    pub async fn open_with(
        &self,
        engine: Arc<dyn Engine>,
        model: &ScriptedProvider,
        more: Vec<SessionFacet>,
    ) -> Opened {
        self.open_configured(engine, model, more, BTreeMap::new())
            .await
    }

    /// With configuration of plugins by their name.
    pub async fn open_configured(
        &self,
        engine: Arc<dyn Engine>,
        model: &ScriptedProvider,
        more: Vec<SessionFacet>,
        config: BTreeMap<&str, Value>,
    ) -> Opened {
        let tree = WorkerTree::new(Arc::new(NoChildren));
        let who = (SessionId::new("session"), None);
        self.open_in(tree, who, engine, model, more, config).await
    }

    /// A child of `parent`, in its process.
    pub async fn open_child(
        &self,
        parent: &Opened,
        model: &ScriptedProvider,
        facets: Vec<SessionFacet>,
        config: BTreeMap<&str, Value>,
    ) -> Opened {
        let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
        let parent_id = parent.agent.identity().session_id.clone();
        let who = (SessionId::new("child"), Some(parent_id));
        self.open_in(parent.tree.clone(), who, engine, model, facets, config)
            .await
    }

    async fn open_in(
        &self,
        tree: WorkerTree,
        (session_id, parent_id): (SessionId, Option<SessionId>),
        engine: Arc<dyn Engine>,
        model: &ScriptedProvider,
        more: Vec<SessionFacet>,
        config: BTreeMap<&str, Value>,
    ) -> Opened {
        let database = match parent_id {
            None => self.database(),
            Some(_) => self.0.path().join("child.db"),
        };
        let handed = Arc::new(Mutex::new(None));
        let mut facets = vec![probe(model.clone(), Arc::clone(&handed))];
        facets.extend(more);
        let entry = |facet: &SessionFacet| ManifestEntry {
            config: config
                .get(facet.plugin().as_str())
                .cloned()
                .unwrap_or_default(),
            ..ManifestEntry::required(facet.plugin().as_str(), "1.0.0")
        };
        let host = SessionHost::start(SessionHostOptions {
            manifest: Manifest {
                plugins: facets.iter().map(entry).collect(),
            },
            facets,
            connect: Arc::new(Nowhere),
            hello: Hello {
                role: Role::Worker,
                product_version: "1.0.0".into(),
                credential: Credential::token("none"),
            },
            identity: SessionIdentity {
                session_id,
                parent_id,
                workspace_id: WorkspaceId::new("workspace"),
                directory: self.0.path().to_owned(),
                output_directory: self.output(),
            },
            environment: BTreeMap::new(),
            database,
            tree: tree.clone(),
            engine,
            deadlines: Deadlines::default(),
        });
        let host = host.await.unwrap();
        let agent: Agent = handed.lock().unwrap().take().unwrap();
        Opened {
            host,
            lane: agent.main(),
            agent,
            cx: Context::background().with_timeout(Duration::from_secs(3_600)),
            tree,
        }
    }
}

/// For sessions that begin no other.
struct NoChildren;

impl StartChild for NoChildren {
    fn start(
        &self,
        _tree: WorkerTree,
        _start: serde_json::Value,
    ) -> BoxFuture<'_, Result<RunningSession, ChildStartError>> {
        async { Err(ChildStartError("nothing is started here".into())) }.boxed()
    }
}

fn probe(model: ScriptedProvider, handed: Arc<Mutex<Option<Agent>>>) -> SessionFacet {
    Facet::new("probe", move |cx: SessionContext| {
        let (model, handed) = (model.clone(), Arc::clone(&handed));
        async move {
            let entry = ProviderEntry {
                provider: Arc::new(model),
                models: vec![],
                availability: Availability::Available,
                key_origin: None,
                listing: None,
            };
            cx.providers
                .add(move |draft| draft.set("test", entry.clone()));
            let chosen = ModelRef {
                provider: "test".into(),
                model_id: "model".into(),
            };
            let lane = cx.agent.main();
            lane.set_model(Some(chosen), ThinkingLevel::Off);
            *handed.lock().unwrap() = Some(cx.agent.clone());
            Ok::<(), FacetError>(())
        }
    })
}

impl Opened {
    pub async fn prompt(&self, id: &str, words: &str, delivery: Delivery) {
        let message = UserMessage::text(words);
        let admitted = self
            .lane
            .prompt(&self.cx, CommandId::new(id), message, delivery)
            .await;
        admitted.unwrap();
    }

    pub async fn steer(&self, words: &str) {
        self.prompt(words, words, Delivery::Steer).await;
    }

    pub async fn idle(&self) {
        self.lane.wait_idle(&self.cx).await.unwrap();
    }

    /// Waits until something runs.
    pub async fn runs(&self) {
        let mut activity = self.lane.activity();
        activity.wait_for(|state| !state.is_idle()).await.unwrap();
    }

    /// What was said on the lane's path.
    pub async fn said(&self) -> Vec<String> {
        let (entries, _) = self.agent.tree().recent(None, 1_000).await.unwrap();
        let said = entries.iter().filter_map(|entry| match entry.message() {
            Some(Message::User(user)) => Some(user.to_text()),
            Some(Message::Assistant(answer)) => Some(answer.to_text()),
            _ => None,
        });
        said.collect()
    }

    /// One turn, to its end.
    pub async fn turn(&self, words: &str) {
        self.steer(words).await;
        self.idle().await;
    }

    /// What the calls came to, in order.
    pub async fn results(&self) -> Vec<ToolResultMessage> {
        let (entries, _) = self.agent.tree().recent(None, 1_000).await.unwrap();
        let results = entries.iter().filter_map(|entry| match entry.message() {
            Some(Message::ToolResult(result)) => Some(result.clone()),
            _ => None,
        });
        results.collect()
    }

    /// The codes of what the calls came to: null where they succeeded.
    pub async fn codes(&self) -> Vec<Value> {
        let results = self.results().await;
        let code = |result: ToolResultMessage| result.details["code"].clone();
        results.into_iter().map(code).collect()
    }

    /// What the model read of the calls.
    pub async fn read(&self) -> Vec<String> {
        self.results().await.iter().map(text_of).collect()
    }

    pub fn waiting(&self) -> Vec<String> {
        let queue = self.lane.queue().borrow().clone();
        queue
            .iter()
            .map(|waiting| waiting.message.to_text())
            .collect()
    }

    /// Ends as a kill would: nothing more is written.
    pub async fn dies(self) {
        let Opened {
            host, agent, lane, ..
        } = self;
        drop((agent, lane));
        let failures = host.stop().await;
        assert!(failures.is_empty(), "{failures:?}");
    }
}

type Execute = dyn Fn(Context, ToolInvocation) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// A tool made of a closure.
pub struct TestTool {
    pub spec: ToolSpec,
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
                parameters: Arc::new(json!({ "type": "object" })),
                ..ToolSpec::default()
            },
            execute: Box::new(move |cx, invocation| execute(cx, invocation).boxed()),
        }
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

/// A tool that says `words`.
pub fn says(words: &str) -> Arc<dyn Tool> {
    let words = words.to_owned();
    Arc::new(TestTool::new(move |_, _| {
        std::future::ready(Ok(ToolOutput::text(words.clone())))
    }))
}

/// A tool that says what `within` says in brackets after `name`.
pub fn around(name: &'static str, within: Arc<dyn Tool>) -> Arc<dyn Tool> {
    Arc::new(TestTool::new(move |cx, invocation| {
        let within = Arc::clone(&within);
        async move {
            let mut output = within.execute(cx, invocation).await?;
            if let Some(ResultContent::Text { text }) = output.content.first_mut() {
                *text = format!("{name}({text})");
            }
            Ok(output)
        }
    }))
}

/// Contributions that a test changes or takes out, in the order in which they were added.
pub type Kept = Arc<Mutex<Vec<Option<Contribution<ToolDraft>>>>>;

/// A plugin that contributes tools.
pub fn tools(
    plugin: &'static str,
    kept: &Kept,
    contribute: impl Fn(&mut ToolDraft) + Send + Sync + 'static,
) -> SessionFacet {
    let (kept, contribute) = (Arc::clone(kept), Arc::new(contribute));
    Facet::new(plugin, move |cx: SessionContext| {
        let contribute = Arc::clone(&contribute);
        let added = cx.tools.add(move |draft| contribute(draft));
        kept.lock().unwrap().push(Some(added));
        async { Ok::<(), FacetError>(()) }
    })
}

/// Rebuilds because of the contribution of that place.
pub fn changed(kept: &Kept, place: usize) {
    kept.lock().unwrap()[place].as_ref().unwrap().changed();
}

/// Takes the contribution of that place out.
pub fn dispose(kept: &Kept, place: usize) {
    kept.lock().unwrap()[place].take().unwrap().dispose();
}

pub fn text_of(result: &ToolResultMessage) -> String {
    let texts = result.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    texts.collect()
}
