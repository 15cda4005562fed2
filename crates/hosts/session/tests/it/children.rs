//! Children that a server wants, and wants no more, of the process of their root.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_session::SessionIdentity;
use bezel_context::{ClientId, Context, Principal, Scopes, WorkspaceId, Workspaces};
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RunningSession, SessionHost, SessionHostOptions,
    StartChild, WorkerTree,
};
use bezel_plugin::{Deadlines, Manifest};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, Credential, Hello, Limits,
    PeerIdentity, Refusal, Role, Router, ServiceClient, ServiceTable, State, StateCell,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    ChildEnd, ChildStart, ChildrenState, CreateChild, SessionChildren, SessionChildrenClient,
    SessionError, SessionSummary,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

/// The server's part: what it wants, and what it was told.
#[derive(Clone)]
struct Server {
    state: StateCell<ChildrenState>,
    told: watch::Sender<Vec<String>>,
}

impl Server {
    fn tell(&self, what: String) {
        self.told.send_modify(|told| told.push(what));
    }

    fn want(&self, wanted: &[&str], unwanted: &[&str]) {
        let ids = |ids: &[&str]| ids.iter().map(|id| SessionId::new(*id)).collect();
        let state = ChildrenState {
            wanted: ids(wanted),
            unwanted: ids(unwanted),
        };
        self.state.set(&Context::background(), state);
    }

    async fn hears(&self, times: usize, what: &str) {
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
        Ok(Vec::new())
    }

    async fn claim(&self, _: &Context, session_id: SessionId) -> Result<ChildStart, SessionError> {
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

/// Hosts sessions without facets, in databases of one folder.
struct Hosts {
    folder: PathBuf,
    connect: Arc<dyn Connect>,
}

impl Hosts {
    async fn host(&self, tree: WorkerTree, id: &str, parent: Option<&str>) -> RunningSession {
        let started = SessionHost::start(SessionHostOptions {
            manifest: Manifest { plugins: vec![] },
            facets: vec![],
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
                directory: self.folder.clone(),
                output_directory: self.folder.join("output"),
            },
            environment: BTreeMap::new(),
            database: self.folder.join(format!("{id}.db")),
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

#[tokio::test]
async fn a_child_that_is_wanted_again_stays_whatever_is_left_of_its_last_host() {
    let folder = tempfile::tempdir().unwrap();
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
        folder: folder.path().to_owned(),
        connect: acceptor.local(PeerIdentity::local()),
    });
    let tree = WorkerTree::new(Arc::clone(&hosts) as Arc<dyn StartChild>);
    let root = hosts.host(tree, "root", None).await;
    for round in 1..=20 {
        server.want(&["child"], &[]);
        server.hears(round, "claim child").await;
        server.want(&[], &["child"]);
        server.hears(round, "released child").await;
    }
    // Another child comes and goes: what the first one's hosts have left to do is done by then.
    server.want(&["other"], &[]);
    server.hears(1, "claim other").await;
    server.want(&[], &["other"]);
    server.hears(1, "released other").await;
    let told = server.told.borrow().clone();
    let released = told.iter().filter(|told| *told == "released child");
    assert_eq!(released.count(), 20, "each host is told of once: {told:?}");
    assert!(root.stop().await.is_empty());
}
