//! A process of sessions beside a server that a test plays.

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_api_session::{SessionFacet, SessionIdentity};
use bezel_context::{ClientId, Context, Principal, Scopes, WorkspaceId, Workspaces};
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RunningSession, SessionHost, SessionHostOptions,
    StartChild, WorkerTree,
};
use bezel_plugin::{Deadlines, Manifest, ManifestEntry};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, Credential, Hello, Limits,
    PeerIdentity, Refusal, Role, Router, ServiceClient, ServiceTable, State, StateCell,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    ChildEnd, ChildStart, ChildrenState, CreateChild, SessionChildren, SessionChildrenClient,
    SessionError, SessionStatus, SessionSummary,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

/// The server's part: what it wants, and what it was told.
#[derive(Clone)]
pub struct Server {
    state: StateCell<ChildrenState>,
    pub told: watch::Sender<Vec<String>>,
}

impl Server {
    fn tell(&self, what: String) {
        self.told.send_modify(|told| told.push(what));
    }

    pub fn want(&self, wanted: &[&str], unwanted: &[&str]) {
        let ids = |ids: &[&str]| ids.iter().map(|id| SessionId::new(*id)).collect();
        let state = ChildrenState {
            wanted: ids(wanted),
            unwanted: ids(unwanted),
        };
        self.state.set(&Context::background(), state);
    }

    pub async fn hears(&self, times: usize, what: &str) {
        let mut told = self.told.subscribe();
        let heard = |told: &Vec<String>| told.iter().filter(|told| *told == what).count() >= times;
        told.wait_for(heard).await.unwrap();
    }
}

impl SessionChildren for Server {
    fn state(&self) -> State<ChildrenState> {
        self.state.state()
    }

    async fn create(&self, _: &Context, _: CreateChild) -> Result<SessionSummary, SessionError> {
        unreachable!("nobody creates a child here")
    }

    async fn tree(&self, _: &Context) -> Result<Vec<SessionSummary>, SessionError> {
        Ok(vec![summary("root", None), summary("child", Some("root"))])
    }

    async fn claim(&self, _: &Context, session_id: SessionId) -> Result<ChildStart, SessionError> {
        if session_id.as_str() == "elsewhere" {
            return Err(SessionError::NotAuthorized { session_id });
        }
        self.tell(format!("claim {session_id}"));
        Ok(ChildStart(Value::from(session_id.as_str())))
    }

    async fn released(&self, _: &Context, id: SessionId, _: ChildEnd) -> Result<(), SessionError> {
        self.tell(format!("released {id}"));
        Ok(())
    }

    async fn hosted(&self, _: &Context, _: Vec<SessionId>) -> Result<(), SessionError> {
        Ok(())
    }
}

struct Everyone;

impl Authenticate for Everyone {
    fn authenticate<'a>(
        &'a self,
        _: &'a Hello,
        _: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let principal = Principal {
            client: ClientId::new("worker"),
            owner: "owner".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        async move {
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        }
        .boxed()
    }
}

fn summary(id: &str, parent: Option<&str>) -> SessionSummary {
    SessionSummary {
        session_id: SessionId::new(id),
        title: String::new(),
        workspace_id: WorkspaceId::new("workspace"),
        workspace_name: "workspace".into(),
        status: SessionStatus::Idle,
        parent_id: parent.map(SessionId::new),
        agent: None,
        model: None,
        created_at: String::new(),
        updated_at: String::new(),
        archived_at: None,
    }
}

/// Hosts sessions with these facets, in databases of one folder.
pub struct Hosts {
    folder: TempDir,
    connect: Arc<dyn Connect>,
    facets: Vec<SessionFacet>,
    _acceptor: Acceptor,
}

impl Hosts {
    pub fn new(facets: Vec<SessionFacet>) -> (Server, Arc<Self>, WorkerTree) {
        let server = Server {
            state: StateCell::new(ChildrenState::default()),
            told: watch::Sender::default(),
        };
        let table = ServiceTable::new();
        table
            .provide(SessionChildrenClient::new(server.clone()).exposed())
            .unwrap();
        table.activate();
        let acceptor = Acceptor::new(table, Arc::new(Everyone), Router::new(), Limits::default());
        let hosts = Arc::new(Hosts {
            folder: tempfile::tempdir().unwrap(),
            connect: acceptor.local(PeerIdentity::local()),
            facets,
            _acceptor: acceptor,
        });
        let tree = WorkerTree::new(Arc::clone(&hosts) as Arc<dyn StartChild>);
        (server, hosts, tree)
    }

    pub async fn host(&self, tree: WorkerTree, id: &str, parent: Option<&str>) -> RunningSession {
        let entry =
            |facet: &SessionFacet| ManifestEntry::required(facet.plugin().as_str(), "1.0.0");
        let started = SessionHost::start(SessionHostOptions {
            manifest: Manifest {
                plugins: self.facets.iter().map(entry).collect(),
            },
            facets: self.facets.clone(),
            connect: Arc::clone(&self.connect),
            hello: Hello {
                role: Role::Worker,
                product_version: "1.0.0".into(),
                credential: Credential::none(),
            },
            identity: SessionIdentity {
                session_id: SessionId::new(id),
                parent_id: parent.map(SessionId::new),
                workspace_id: WorkspaceId::new("workspace"),
                directory: self.folder.path().to_owned(),
                output_directory: self.folder.path().join("output"),
            },
            environment: BTreeMap::new(),
            database: self.folder.path().join(format!("{id}.db")),
            tree,
            engine: Arc::new(HarnessEngine(HarnessConfig::default())),
            deadlines: Deadlines::default(),
        });
        started.await.unwrap()
    }
}

impl StartChild for Hosts {
    fn start(
        &self,
        tree: WorkerTree,
        start: Value,
    ) -> BoxFuture<'_, Result<RunningSession, ChildStartError>> {
        async move {
            let id = start.as_str().unwrap().to_owned();
            Ok(self.host(tree, &id, Some("root")).await)
        }
        .boxed()
    }
}
