//! A server with its scratch directory, and the clients that connect to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bezel_context::{Context, TaskScope};
use bezel_host_server::{
    Clock, Listener, LocalToken, RunningServer, ServerHost, ServerOptions, ServerPaths,
    ServerStartError,
};
use bezel_plugin::{Deadlines, Manifest};
use bezel_policy_contract::ServerControlClient;
use bezel_rpc::{
    AttachmentState, CallError, Connect, ConnectionState, Credential, Hello, Link, PeerIdentity,
    Role, ServiceTable, Transport,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    CreateSession, DirectoryState, SessionDirectoryClient, SessionError, SessionManagementClient,
    SessionStatus, SessionSummary,
};
use bezel_sockets::{UnixListener, dial_unix};
use futures::FutureExt;
use futures::future::BoxFuture;
use tempfile::TempDir;

use crate::launcher::{FakeLauncher, ProbeClient};

pub const TOKEN: &str = "the-token-of-this-server";
pub const OWNER: &str = "owner-name-that-never-leaves";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Loopback,
    Socket,
}

pub struct World {
    pub scratch: TempDir,
    pub launcher: Arc<FakeLauncher>,
    pub server: RunningServer,
    pub via: Via,
    pub tasks: TaskScope,
}

/// A context that no test outlives.
pub fn cx() -> Context {
    Context::background().with_timeout(Duration::from_secs(20))
}

struct Socket(UnixListener);

impl Listener for Socket {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        self.0.accept().boxed()
    }
}

pub fn manifest() -> Manifest {
    Manifest {
        plugins: bezel_dist_server::manifest_entries(),
    }
}

/// The policy's configuration in these tests: short times, where a test has to wait for one.
fn quick(manifest: &mut Manifest) {
    let policy = manifest.entry_mut("policy").unwrap();
    policy.config = serde_json::json!({ "start_timeout_seconds": 1, "stop_grace_seconds": 0 });
}

pub fn options(scratch: &Path, launcher: &Arc<FakeLauncher>, via: Via) -> ServerOptions {
    let mut manifest = manifest();
    quick(&mut manifest);
    let listener = (via == Via::Socket).then(|| {
        let listener = UnixListener::bind(scratch.join("server.sock")).unwrap();
        Box::new(Socket(listener)) as Box<dyn Listener>
    });
    ServerOptions {
        manifest,
        facets: bezel_dist_server::facets(),
        paths: ServerPaths {
            database: scratch.join("server.db"),
            sessions: scratch.join("sessions"),
        },
        launcher: Arc::clone(launcher) as Arc<dyn bezel_host_server::WorkerLauncher>,
        listener,
        local_token: Some(LocalToken::new(TOKEN)),
        owner: OWNER.into(),
        product_version: "0.1.0".into(),
        clock: Clock::system(),
        deadlines: Deadlines::default(),
        idle_after: None,
    }
}

impl World {
    pub async fn start(via: Via) -> Self {
        World::start_with(via, |_| ()).await
    }

    pub async fn start_with(via: Via, adjust: impl FnOnce(&mut ServerOptions)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        World::again(scratch, Arc::default(), via, adjust)
            .await
            .unwrap()
    }

    /// A server over what an earlier one left.
    pub async fn again(
        scratch: TempDir,
        launcher: Arc<FakeLauncher>,
        via: Via,
        adjust: impl FnOnce(&mut ServerOptions),
    ) -> Result<Self, ServerStartError> {
        let mut options = options(scratch.path(), &launcher, via);
        adjust(&mut options);
        let server = ServerHost::start(options).await?;
        if via == Via::Socket {
            launcher.dial(dial_unix(scratch.path().join("server.sock")));
        }
        Ok(World {
            scratch,
            launcher,
            server,
            via,
            tasks: TaskScope::new(),
        })
    }

    pub fn connect(&self) -> Arc<dyn Connect> {
        match self.via {
            Via::Loopback => self.server.local(),
            Via::Socket => dial_unix(self.scratch.path().join("server.sock")),
        }
    }

    /// A local user's client.
    pub async fn client(&self) -> Client {
        self.client_over(self.connect()).await
    }

    pub async fn client_over(&self, connect: Arc<dyn Connect>) -> Client {
        let client = self.knock(connect, Credential::token(TOKEN), "0.1.0");
        let settled = client.link.settled(&cx()).await.unwrap();
        assert!(settled.is_connected(), "{settled:?}");
        client
    }

    pub fn knock(
        &self,
        connect: Arc<dyn Connect>,
        credential: Credential,
        version: &str,
    ) -> Client {
        let hello = Hello {
            role: Role::Presentation,
            product_version: version.into(),
            credential,
        };
        let link = Link::start(&self.tasks.spawner(), connect, hello, ServiceTable::new());
        Client {
            directory: link.server().use_service(),
            management: link.server().use_service(),
            control: link.server().use_service(),
            probe: link.attached().use_service(),
            link,
        }
    }

    /// Why a connection is refused.
    pub async fn refusal(&self, credential: Credential, version: &str) -> String {
        let client = self.knock(self.connect(), credential, version);
        match &*client.link.settled(&cx()).await.unwrap() {
            ConnectionState::Disconnected { reason, .. } => reason.clone(),
            state => panic!("not refused: {state:?}"),
        }
    }

    /// A new directory to work in.
    pub fn project(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Ends the server and keeps what it left.
    pub async fn stop(self) -> (TempDir, Arc<FakeLauncher>) {
        assert_eq!(self.server.stop().await, Vec::<String>::new());
        (self.scratch, self.launcher)
    }
}

pub struct Client {
    pub link: Link,
    pub directory: SessionDirectoryClient,
    pub management: SessionManagementClient,
    pub control: ServerControlClient,
    pub probe: ProbeClient,
}

pub fn begin_in(directory: &Path) -> CreateSession {
    CreateSession {
        directory: directory.to_str().unwrap().into(),
        ..CreateSession::default()
    }
}

impl Client {
    pub async fn create(&self, directory: &Path) -> SessionSummary {
        self.management
            .create(&cx(), begin_in(directory))
            .await
            .unwrap()
    }

    pub async fn attach(&self, session_id: &SessionId) {
        self.management
            .attach(&cx(), session_id.clone(), None)
            .await
            .unwrap();
        self.until_attachment(|state| state.is_attached()).await;
    }

    pub async fn until_attachment(
        &self,
        condition: impl Fn(&AttachmentState) -> bool,
    ) -> AttachmentState {
        let reached = self
            .link
            .attached()
            .attachment()
            .wait_for(&cx(), condition)
            .await;
        AttachmentState::clone(&reached.expect("the attachment gets there"))
    }

    pub async fn until(&self, condition: impl Fn(&DirectoryState) -> bool) -> Arc<DirectoryState> {
        self.directory.state().ready(&cx()).await.unwrap();
        self.directory
            .state()
            .wait_for(&cx(), condition)
            .await
            .expect("the directory gets there")
    }

    pub async fn until_status(&self, session_id: &SessionId, status: SessionStatus) {
        self.until(|directory| {
            let mut sessions = directory.sessions.iter();
            sessions.any(|session| session.session_id == *session_id && session.status == status)
        })
        .await;
    }

    pub async fn list(&self) -> Vec<SessionSummary> {
        self.directory
            .state()
            .ready(&cx())
            .await
            .unwrap()
            .sessions
            .clone()
    }
}

/// The contract's error of a failed call.
pub fn refused<T: std::fmt::Debug>(outcome: Result<T, CallError<SessionError>>) -> SessionError {
    match outcome {
        Err(CallError::Service(error)) => error,
        other => panic!("not an error of the contract: {other:?}"),
    }
}
