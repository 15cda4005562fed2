//! The product's server over scratch files, workers that are links of this process, and clients.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_server::{Attempt, Granted, ServerContext, Verdict};
use bezel_context::{Context, Scope, Scopes, TaskScope, WorkspaceId, Workspaces};
use bezel_host_server::{
    Clock, LaunchError, LaunchedWorker, Listener, LocalToken, RunningServer, ServerHost,
    ServerOptions, ServerPaths, WorkerExit, WorkerLauncher, WorkerStart,
};
use bezel_plugin::{Deadlines, Facet, Manifest, ManifestEntry};
use bezel_rpc::{
    AttachmentState, Connect, Credential, Hello, Link, PeerIdentity, Role, ServiceClient,
    ServiceTable, Transport,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{CreateSession, SessionDirectoryClient, SessionManagementClient};
use bezel_sockets::{UnixListener, dial_unix};
use futures::FutureExt;
use futures::future::BoxFuture;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::probe::{Object, ProbeClient};
use crate::taps::Tap;

pub const TOKEN: &str = "the-token-of-this-server";
pub const OWNER: &str = "owner-name-that-never-leaves";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Loopback,
    Socket,
}

pub struct World {
    pub scratch: TempDir,
    pub launcher: Arc<Launcher>,
    pub server: RunningServer,
    pub via: Via,
    pub tasks: TaskScope,
    /// The one that those who show `paired` are bound to.
    pub workspace: Arc<Mutex<Option<WorkspaceId>>>,
}

/// A context that no test outlives.
pub fn cx() -> Context {
    Context::background().with_timeout(Duration::from_secs(30))
}

pub async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what}: it did not come true");
}

fn granted(attempt: &Attempt, workspaces: Workspaces, scope: Scope) -> Verdict {
    Verdict::Granted(Granted {
        owner: attempt.local_owner().into(),
        workspaces,
        scopes: Scopes::of([scope]),
        credential: None,
        issued: None,
    })
}

fn pairing(workspace: &Arc<Mutex<Option<WorkspaceId>>>) -> Facet<ServerContext> {
    let workspace = Arc::clone(workspace);
    Facet::new("pairing", move |cx: ServerContext| {
        let workspace = Arc::clone(&workspace);
        async move {
            let method = move |attempt: Attempt| match attempt.bearer() {
                Some("paired") => {
                    let bound = workspace.lock().unwrap().iter().cloned().collect();
                    granted(&attempt, Workspaces::Only(bound), Scope::Operate)
                }
                Some("operator" | "another operator") => {
                    granted(&attempt, Workspaces::All, Scope::Operate)
                }
                Some("reader") => granted(&attempt, Workspaces::All, Scope::Read),
                _ => Verdict::Unrecognised,
            };
            let method = Arc::new(method);
            cx.authentication
                .add(move |draft| draft.set("pairing", method.clone()));
            Ok(())
        }
    })
}

struct Socket(UnixListener);

impl Listener for Socket {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        self.0.accept().boxed()
    }
}

impl World {
    pub async fn start(via: Via) -> Self {
        World::start_with(via, None).await
    }

    /// With connections that come another way too; only where workers come over loopback.
    pub async fn start_with(via: Via, listener: Option<Box<dyn Listener>>) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let launcher = Arc::new(Launcher::new());
        let socket = scratch.path().join("server.sock");
        let mut manifest = Manifest {
            plugins: bezel_dist_server::manifest_entries(),
        };
        let policy = manifest.entry_mut("policy").unwrap();
        policy.config = serde_json::json!({ "start_timeout_seconds": 5, "stop_grace_seconds": 0 });
        // Lets in whoever shows `paired`, bound to one workspace.
        let workspace = Arc::<Mutex<Option<WorkspaceId>>>::default();
        manifest
            .plugins
            .push(ManifestEntry::required("pairing", "1.0.0"));
        let mut facets = bezel_dist_server::facets();
        facets.push(pairing(&workspace));
        let listener = (via == Via::Socket)
            .then(|| {
                let listener = UnixListener::bind(&socket).unwrap();
                Box::new(Socket(listener)) as Box<dyn Listener>
            })
            .or(listener);
        let server = ServerHost::start(ServerOptions {
            manifest,
            facets,
            paths: ServerPaths {
                database: scratch.path().join("server.db"),
                sessions: scratch.path().join("sessions"),
            },
            launcher: Arc::clone(&launcher) as Arc<dyn WorkerLauncher>,
            listener,
            local_token: Some(LocalToken::new(TOKEN)),
            owner: OWNER.into(),
            product_version: "0.1.0".into(),
            clock: Clock::system(),
            deadlines: Deadlines::default(),
            idle_after: None,
        });
        let server = server.await.unwrap();
        if via == Via::Socket {
            *launcher.address.lock().unwrap() = Some(dial_unix(&socket));
        }
        World {
            scratch,
            launcher,
            server,
            via,
            tasks: TaskScope::new(),
            workspace,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.scratch.path().join("server.sock")
    }

    pub fn connect(&self) -> Arc<dyn Connect> {
        match self.via {
            Via::Loopback => self.server.local(),
            Via::Socket => dial_unix(self.socket()),
        }
    }

    /// A local user's client, connected.
    pub async fn client(&self) -> Client {
        let client = self.client_over(Tap::new(self.connect()));
        let settled = client.link.settled(&cx()).await.unwrap();
        assert!(settled.is_connected(), "{settled:?}");
        client
    }

    pub fn client_over(&self, tap: Tap) -> Client {
        self.client_with(tap, TOKEN)
    }

    pub fn client_with(&self, tap: Tap, credential: &str) -> Client {
        let hello = Hello {
            role: Role::Presentation,
            product_version: "0.1.0".into(),
            credential: Credential::token(credential),
        };
        let connect = Arc::new(tap.clone());
        let link = Link::start(&self.tasks.spawner(), connect, hello, ServiceTable::new());
        Client {
            directory: link.server().use_service(),
            management: link.server().use_service(),
            probe: link.attached().use_service(),
            link,
            tap,
        }
    }

    /// A new directory to work in.
    pub fn project(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn worker(&self, session: &SessionId) -> Arc<Worker> {
        Arc::clone(&self.launcher.workers.lock().unwrap()[session])
    }
}

pub struct Client {
    pub link: Link,
    pub tap: Tap,
    pub directory: SessionDirectoryClient,
    pub management: SessionManagementClient,
    pub probe: ProbeClient,
}

impl Client {
    pub fn id(&self) -> String {
        self.link.client_id().unwrap().to_string()
    }

    pub async fn create(&self, directory: &Path) -> SessionId {
        let request = CreateSession {
            directory: directory.to_str().unwrap().into(),
            ..CreateSession::default()
        };
        self.management
            .create(&cx(), request)
            .await
            .unwrap()
            .session_id
    }

    pub async fn attach(&self, session: &SessionId) {
        self.management
            .attach(&cx(), session.clone(), None)
            .await
            .unwrap();
        let target = session.as_str().to_owned();
        self.until(move |state| state.is_attached() && state.target() == Some(&*target))
            .await;
    }

    pub async fn until(&self, condition: impl Fn(&AttachmentState) -> bool) {
        let state = self.link.attached().attachment();
        state.wait_for(&cx(), condition).await.unwrap();
    }
}

/// Starts workers as links of this process.
pub struct Launcher {
    address: Mutex<Option<Arc<dyn Connect>>>,
    workers: Mutex<HashMap<SessionId, Arc<Worker>>>,
    pub credentials: Mutex<Vec<String>>,
}

pub struct Worker {
    pub object: Object,
    pub table: ServiceTable,
    pub tap: Tap,
    _link: Link,
    exit: watch::Sender<Option<WorkerExit>>,
    tasks: Mutex<Option<TaskScope>>,
}

struct Handle(Arc<Worker>);

impl Launcher {
    fn new() -> Self {
        Launcher {
            address: Mutex::default(),
            workers: Mutex::default(),
            credentials: Mutex::default(),
        }
    }
}

impl Worker {
    /// As if killed by a signal.
    pub fn kill(&self) {
        self.end(false, "was killed by signal 9");
    }

    fn end(&self, orderly: bool, description: &str) {
        drop(self.tasks.lock().unwrap().take());
        let exit = WorkerExit {
            orderly,
            description: description.into(),
        };
        self.exit.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(exit);
            first
        });
    }
}

impl LaunchedWorker for Handle {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn identity(&self) -> Option<String> {
        None
    }

    fn exited(&self) -> BoxFuture<'static, WorkerExit> {
        let mut exit = self.0.exit.subscribe();
        async move {
            let ended = exit.wait_for(Option::is_some).await;
            ended.ok().and_then(|exit| exit.clone()).unwrap()
        }
        .boxed()
    }

    fn request_stop(&self) {
        self.0.end(true, "exited with status 0");
    }

    fn kill(&self) {
        self.0.kill();
    }
}

impl WorkerLauncher for Launcher {
    fn launch(
        &self,
        _cx: &Context,
        start: WorkerStart,
        server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, Result<Box<dyn LaunchedWorker>, LaunchError>> {
        async move {
            let address = self.address.lock().unwrap().clone();
            let (tasks, table) = (TaskScope::new(), ServiceTable::new());
            let object = Object::new(start.session_id.as_str(), tasks.spawner());
            let probe = ProbeClient::new(object.clone());
            table.provide(probe.exposed()).unwrap();
            table.activate();
            let credential = start.credential.reveal().to_owned();
            self.credentials.lock().unwrap().push(credential.clone());
            let hello = Hello {
                role: Role::Worker,
                product_version: "0.1.0".into(),
                credential: Credential::token(credential),
            };
            let tap = Tap::new(address.unwrap_or(server));
            let connect = Arc::new(tap.clone());
            let link = Link::start(&tasks.spawner(), connect, hello, table.clone());
            let worker = Arc::new(Worker {
                object,
                table,
                tap,
                _link: link,
                exit: watch::Sender::new(None),
                tasks: Mutex::new(Some(tasks)),
            });
            let mut workers = self.workers.lock().unwrap();
            workers.insert(start.session_id, Arc::clone(&worker));
            Ok(Box::new(Handle(worker)) as Box<dyn LaunchedWorker>)
        }
        .boxed()
    }

    fn adopt(&self, _identity: &str) -> Option<Box<dyn LaunchedWorker>> {
        None
    }
}
