//! A played session with agents, permissions and models, and the server's record of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_agents_contract::{AgentsClient, AgentsState};
use bezel_api_session::{
    ApproveTool, Availability, Facet, ProviderEntry, SessionContext, SessionFacet,
};
use bezel_context::{Context, WorkspaceId};
use bezel_permissions_contract::{PermissionMode, PermissionsClient};
use bezel_rpc::{ServiceClient as _, ServiceTable, State, StateCell};
use bezel_session_types::{
    Access, ExecutionMode, InvocationId, ModelRef, ModelSpec, Replay, SessionId, ThinkingLevel,
    Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_sessions_contract::{
    ChildEnd, ChildStart, ChildrenState, CommitReport, CreateChild, SessionChildren,
    SessionChildrenClient, SessionError, SessionRecord, SessionRecordClient, SessionStatus,
    SessionSummary, WorkerRecord,
};
use bezel_testkit::{FakeSession, FakeSessionOptions, Script, ScriptedProvider};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

/// The server's side of the session: its record, and the tree that it is in.
#[derive(Clone)]
pub struct Server {
    pub record: StateCell<WorkerRecord>,
    pub tree: watch::Sender<Vec<SessionSummary>>,
    pub refuses: watch::Sender<bool>,
}

impl SessionRecord for Server {
    fn state(&self) -> State<WorkerRecord> {
        self.record.state()
    }

    async fn current(&self, _cx: &Context) -> Result<WorkerRecord, SessionError> {
        Ok(WorkerRecord::clone(&self.record.get()))
    }

    async fn committed(&self, _cx: &Context, _report: CommitReport) -> Result<(), SessionError> {
        Ok(())
    }

    async fn switch_model(
        &self,
        cx: &Context,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<(), SessionError> {
        self.record.update(cx, |record| {
            record.model = Some(model);
            record.thinking_level = thinking_level;
        });
        Ok(())
    }

    async fn switch_agent(&self, cx: &Context, agent: Option<String>) -> Result<(), SessionError> {
        if *self.refuses.borrow() {
            return Err(SessionError::Storage {
                message: "the disk is full".into(),
            });
        }
        self.record.update(cx, |record| record.agent = agent);
        Ok(())
    }

    async fn switch_permission_mode(
        &self,
        cx: &Context,
        mode: PermissionMode,
    ) -> Result<(), SessionError> {
        self.record
            .update(cx, |record| record.permission_mode = mode);
        Ok(())
    }
}

impl SessionChildren for Server {
    fn state(&self) -> State<ChildrenState> {
        State::constant(ChildrenState::default())
    }

    async fn create(
        &self,
        _cx: &Context,
        options: CreateChild,
    ) -> Result<SessionSummary, SessionError> {
        Err(missing(options.parent_id))
    }

    async fn tree(&self, _cx: &Context) -> Result<Vec<SessionSummary>, SessionError> {
        match self.tree.borrow().clone() {
            tree if tree.is_empty() => Err(missing(SessionId::new("session-under-test"))),
            tree => Ok(tree),
        }
    }

    async fn claim(
        &self,
        _cx: &Context,
        session_id: SessionId,
    ) -> Result<ChildStart, SessionError> {
        Err(missing(session_id))
    }

    async fn released(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _end: ChildEnd,
    ) -> Result<(), SessionError> {
        Err(missing(session_id))
    }

    async fn hosted(&self, _cx: &Context, _children: Vec<SessionId>) -> Result<(), SessionError> {
        Ok(())
    }
}

fn missing(session_id: SessionId) -> SessionError {
    SessionError::NotAuthorized { session_id }
}

/// A session of a tree, as the server lists it.
pub fn session(id: &str, parent: Option<&str>, agent: Option<&str>) -> SessionSummary {
    SessionSummary {
        session_id: SessionId::new(id),
        title: String::new(),
        workspace_id: WorkspaceId::new("w"),
        workspace_name: "w".into(),
        status: SessionStatus::Idle,
        parent_id: parent.map(SessionId::new),
        agent: agent.map(str::to_owned),
        model: None,
        created_at: String::new(),
        updated_at: String::new(),
        archived_at: None,
    }
}

struct Named(ToolSpec);

impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn execute(
        &self,
        _cx: Context,
        _invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async { Ok(ToolOutput::text("done")) }.boxed()
    }
}

/// A facet that sets tools of these names.
fn tools(plugin: &'static str, names: &'static [&'static str]) -> SessionFacet {
    Facet::new(plugin, move |cx: SessionContext| async move {
        let named = |name: &&'static str| {
            let tool = Named(ToolSpec {
                label: (*name).into(),
                description: format!("Does {name}").into(),
                parameters: Arc::new(json!({ "type": "object" })),
                output: None,
                execution_mode: ExecutionMode::default(),
                replay: Replay::default(),
            });
            (*name, Arc::new(tool) as Arc<dyn Tool>)
        };
        let all: Vec<_> = names.iter().map(named).collect();
        cx.tools.add(move |draft| {
            for (name, tool) in &all {
                draft.set(name, Arc::clone(tool));
            }
        });
        Ok(())
    })
}

fn providers() -> SessionFacet {
    Facet::new("fakes", |cx: SessionContext| async move {
        let spec = |id: &str| ModelSpec {
            model: format!("acme::{id}").parse().expect("a model"),
            name: id.into(),
            reasoning: true,
            images: false,
            context: 0,
            max_output: 0,
            prices: None,
        };
        let entry = ProviderEntry {
            provider: Arc::new(ScriptedProvider::new(Script::new([]))),
            models: ["first", "deep", "swift"].map(spec).to_vec(),
            availability: Availability::Available,
            key_origin: None,
            listing: None,
        };
        cx.providers
            .add(move |draft| draft.set("acme", entry.clone()));
        Ok(())
    })
}

/// How a session begins.
#[derive(Default)]
pub struct Begin {
    pub agent: Option<&'static str>,
    pub configured: Option<&'static str>,
    pub mode: PermissionMode,
    pub rules: Value,
    pub model: Option<&'static str>,
    pub tree: Vec<SessionSummary>,
    /// The agents of sessions above that work in the directory `elsewhere`, from the root on.
    pub elsewhere: Vec<Option<&'static str>>,
}

pub struct Fixture {
    pub session: FakeSession,
    pub agents: AgentsClient,
    pub permissions: PermissionsClient,
    pub server: Server,
    pub cx: Context,
    home: TempDir,
}

/// A place for definitions, before the session.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        for directory in ["user", "project", "elsewhere", "work"] {
            std::fs::create_dir(place.0.path().join(directory)).unwrap();
        }
        place
    }

    pub fn with(self, file: &str, text: &str) -> Self {
        std::fs::write(self.0.path().join(file), text).unwrap();
        self
    }

    pub async fn begin(self, begin: Begin) -> Fixture {
        let Place(home) = self;
        let server = Server {
            record: StateCell::new(WorkerRecord {
                agent: begin.agent.map(str::to_owned),
                permission_mode: begin.mode,
                ..WorkerRecord::default()
            }),
            tree: watch::Sender::new(begin.tree.clone()),
            refuses: watch::Sender::new(false),
        };
        let table = ServiceTable::new();
        let record = SessionRecordClient::new(server.clone());
        table.provide(record.exposed()).unwrap();
        let children = SessionChildrenClient::new(server.clone());
        table.provide(children.exposed()).unwrap();
        let own = begin
            .tree
            .iter()
            .find(|session| session.session_id.as_str() == "session-under-test");
        let rules = match begin.rules {
            Value::Null => json!([]),
            rules => rules,
        };
        let model: Option<ModelRef> = begin.model.map(|model| model.parse().unwrap());
        let directory = |name: &str| json!({ "path": home.path().join(name), "origin": name });
        let elsewhere = begin.elsewhere.iter().map(|configured| {
            let place = json!({ "path": home.path().join("elsewhere"), "origin": "project" });
            json!({ "directories": [place], "configured": configured })
        });
        let options = FakeSessionOptions {
            config: BTreeMap::from([
                ("permissions", json!({ "mode": begin.mode, "rules": rules })),
                (
                    "models",
                    json!({ "model": model, "chosen": model.is_some() }),
                ),
                (
                    "agents",
                    json!({
                        "agent": begin.agent,
                        "configured": begin.configured,
                        "directories": [directory("user"), directory("project")],
                        "above": elsewhere.collect::<Vec<_>>(),
                    }),
                ),
            ]),
            parent_id: own.and_then(|own| own.parent_id.clone()),
            server: table,
            ..FakeSessionOptions::default()
        };
        let facets = vec![
            tools("early", &["read", "grep", "edit", "bash"]),
            providers(),
            bezel_models_session::facet(),
            bezel_permissions_session::facet(),
            bezel_agents_session::facet(),
            tools("late", &["late_read", "late_write"]),
        ];
        let session = FakeSession::start(facets, &home.path().join("work"), options)
            .await
            .unwrap();
        session.connected().await;
        let cx = Context::background();
        let agents: AgentsClient = session.remote().use_service();
        let permissions: PermissionsClient = session.remote().use_service();
        agents.state().ready(&cx).await.unwrap();
        permissions.state().ready(&cx).await.unwrap();
        Fixture {
            session,
            agents,
            permissions,
            server,
            cx,
            home,
        }
    }
}

impl Fixture {
    pub fn write(&self, file: &str, text: &str) {
        std::fs::write(self.home.path().join(file), text).unwrap();
    }

    pub fn remove(&self, file: &str) {
        std::fs::remove_file(self.home.path().join(file)).unwrap();
    }

    pub fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// The names of the tools that a request would have.
    pub fn tools(&self) -> Vec<String> {
        let set = self.session.tools.current();
        set.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    pub fn prompt(&self) -> String {
        self.session.prompt.current().text.clone()
    }

    pub fn model(&self) -> (String, ThinkingLevel) {
        let (model, thinking) = self.session.agent.model();
        (model.unwrap().to_string(), thinking)
    }

    /// What is said to a call of `bash`, which would ask a person only where nothing decides it.
    pub async fn shell(&self, line: &str) -> ApproveTool {
        let accesses = Some(vec![Access::shell(line, self.work())]);
        let arguments = json!({ "command": line });
        let invocation = InvocationId::new(line);
        self.session
            .agent
            .approve_tool(&self.cx, &invocation, "bash", arguments, accesses)
            .await
    }

    pub async fn edit(&self) -> ApproveTool {
        let accesses = Some(vec![Access::edit(self.work().join("file"))]);
        let invocation = InvocationId::new("edit");
        self.session
            .agent
            .approve_tool(&self.cx, &invocation, "edit", json!({}), accesses)
            .await
    }

    pub async fn select(&self, name: &str) {
        self.agents.select(&self.cx, name.into()).await.unwrap();
    }

    /// What clients see once it is so.
    pub async fn sees(&self, condition: impl Fn(&AgentsState) -> bool) -> Arc<AgentsState> {
        let state = self.agents.state();
        state.wait_for(&self.cx, condition).await.unwrap()
    }
}
