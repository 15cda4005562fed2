//! The three processes of a measurement: this program as the product's server, as its worker, and as a client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_context::{Context, TaskScope};
use bezel_host_server::{
    Clock, LaunchError, LaunchedWorker, Listener, LocalToken, ServerHost, ServerOptions,
    ServerPaths, WorkerExit, WorkerLauncher, WorkerStart,
};
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RunningSession, SessionHost, SessionHostOptions,
    SessionIdentity, StartChild, WorkerTree,
};
use bezel_plugin::{Deadlines, Manifest, ManifestEntry};
use bezel_rpc::{
    AttachmentState, Connect, Credential, Hello, Link, PeerIdentity, Role, ServiceTable, Transport,
};
use bezel_session_types::{PermissionMode, SessionId};
use bezel_sessions_contract::{
    CreateSession, LaunchEnvironment, SessionDirectoryClient, SessionManagementClient,
};
use bezel_sockets::{UnixListener, dial_unix};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{Result, facet};

pub const SERVER: &str = "as-server";
pub const WORKER: &str = "as-worker";
const TOKEN: &str = "the-token-of-this-server";
const READY: &str = "ready";
/// What this build is to its server.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// One thread, as the product's processes have.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
}

/// A folder for sockets and databases: short, for the sockets' sake, and on the disk that is measured.
pub fn scratch() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("bz").tempdir_in(".")?)
}

/// A server in a process of its own, ended with this value.
pub struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts one that keeps everything in `folder`.
    pub fn start(folder: &Path) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SERVER)
            .arg(".")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("its output is piped")?;
        BufReader::new(output).read_line(&mut line)?;
        if line.trim_end() != READY {
            return Err(format!("the server said `{line}`").into());
        }
        Ok(Server {
            child,
            folder: folder.to_owned(),
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

struct Socket(UnixListener);

impl Listener for Socket {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        self.0.accept().boxed()
    }
}

/// In the server's process.
pub fn serve(folder: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let folder = std::path::absolute(folder)?;
    runtime()?.block_on(async {
        let manifest = Manifest {
            plugins: bezel_dist_server::manifest_entries(),
        };
        let listener = UnixListener::bind(folder.join("s"))?;
        let _server = ServerHost::start(ServerOptions {
            manifest,
            facets: bezel_dist_server::facets(),
            paths: ServerPaths {
                database: folder.join("server.db"),
                sessions: folder.join("sessions"),
            },
            launcher: Arc::new(Launcher {
                socket: folder.join("s"),
                tasks: TaskScope::new(),
            }),
            listener: Some(Box::new(Socket(listener))),
            local_token: Some(LocalToken::new(TOKEN)),
            owner: OWNER.into(),
            product_version: VERSION.into(),
            clock: Clock::system(),
            deadlines: Deadlines::default(),
            idle_after: None,
        })
        .await?;
        println!("{READY}");
        std::io::stdout().flush()?;
        std::future::pending().await
    })
}

/// Whose sessions a server started here has.
pub const OWNER: &str = "owner";

struct Launcher {
    socket: PathBuf,
    tasks: TaskScope,
}

/// A worker's process; it ends with the server's.
struct Worker {
    id: Option<u32>,
    child: Arc<Mutex<Child>>,
    exited: tokio::sync::watch::Receiver<bool>,
}

impl WorkerLauncher for Launcher {
    fn launch(
        &self,
        _cx: &Context,
        start: WorkerStart,
        _server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, std::result::Result<Box<dyn LaunchedWorker>, LaunchError>> {
        let launched = || -> Result<Box<dyn LaunchedWorker>> {
            let mut child = Command::new(std::env::current_exe()?)
                .arg(WORKER)
                .arg(&self.socket)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()?;
            let mut input = child.stdin.take().ok_or("its input is piped")?;
            input.write_all(&serde_json::to_vec(&start)?)?;
            drop(input);
            let id = Some(child.id());
            let child = Arc::new(Mutex::new(child));
            let watched = Arc::clone(&child);
            let (sender, exited) = tokio::sync::watch::channel(false);
            self.tasks.spawn("worker process", async move {
                let ended = || {
                    let mut child = watched.lock().unwrap_or_else(PoisonError::into_inner);
                    !matches!(child.try_wait(), Ok(None))
                };
                while !ended() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                sender.send_replace(true);
            });
            Ok(Box::new(Worker { id, child, exited }))
        };
        let launched = launched().map_err(|error| LaunchError(error.to_string()));
        std::future::ready(launched).boxed()
    }
}

impl LaunchedWorker for Worker {
    fn process_id(&self) -> Option<u32> {
        self.id
    }

    fn exited(&self) -> BoxFuture<'static, WorkerExit> {
        let mut exited = self.exited.clone();
        async move {
            let ended = exited.wait_for(|exited| *exited).await.is_ok();
            WorkerExit {
                orderly: false,
                description: format!("ended: {ended}"),
            }
        }
        .boxed()
    }

    fn request_stop(&self) {
        self.kill();
    }

    fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = child.kill() {
            tracing::debug!(%error, "a worker had ended");
        }
    }
}

/// The measured session has no children.
struct NoChild;

impl StartChild for NoChild {
    fn start(
        &self,
        _tree: WorkerTree,
        _start: serde_json::Value,
    ) -> BoxFuture<'_, std::result::Result<RunningSession, ChildStartError>> {
        let refused = ChildStartError("no session is started beside the measured one".into());
        std::future::ready(Err(refused)).boxed()
    }
}

/// In the worker's process.
pub fn work(socket: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let start: WorkerStart = serde_json::from_slice(&text)?;
    runtime()?.block_on(async {
        let facets = vec![
            bezel_question_session::facet(),
            bezel_sessions_session::facet(),
            facet::facet(),
        ];
        let plugins = facets
            .iter()
            .map(|facet| ManifestEntry::required(facet.plugin().as_str(), VERSION));
        let session = SessionHost::start(SessionHostOptions {
            manifest: Manifest {
                plugins: plugins.collect(),
            },
            facets,
            connect: dial_unix(socket),
            hello: Hello {
                role: Role::Worker,
                product_version: VERSION.into(),
                credential: Credential::token(start.credential.reveal()),
            },
            identity: SessionIdentity {
                session_id: start.session_id,
                parent_id: None,
                workspace_id: start.workspace_id,
                directory: start.directory,
                output_directory: start.output,
            },
            environment: Default::default(),
            database: start.database,
            engine: Arc::new(HarnessEngine(HarnessConfig::default())),
            deadlines: Deadlines::default(),
            tree: WorkerTree::new(Arc::new(NoChild)),
        })
        .await?;
        session.retired().await;
        Ok(())
    })
}

/// A client of a server.
pub struct Client {
    pub link: Link,
    pub directory: SessionDirectoryClient,
    pub management: SessionManagementClient,
    /// What sessions are started with.
    environment: Option<LaunchEnvironment>,
    _tasks: TaskScope,
}

impl Client {
    /// A client of a server that was started here.
    pub async fn connect(server: &Server) -> Result<Self> {
        Self::over(&server.socket(), TOKEN, None).await
    }

    /// A client of the server at that socket.
    pub async fn over(
        socket: &Path,
        token: &str,
        environment: Option<LaunchEnvironment>,
    ) -> Result<Self> {
        let tasks = TaskScope::new();
        let hello = Hello {
            role: Role::Presentation,
            product_version: VERSION.into(),
            credential: Credential::token(token),
        };
        let link = Link::start(
            &tasks.spawner(),
            dial_unix(socket),
            hello,
            ServiceTable::new(),
        );
        let state = link.settled(&cx()).await?;
        if !state.is_connected() {
            return Err(format!("not connected: {state:?}").into());
        }
        Ok(Client {
            directory: link.server().use_service(),
            management: link.server().use_service(),
            link,
            environment,
            _tasks: tasks,
        })
    }

    /// A new session, attached.
    pub async fn session_in(&self, directory: &Path) -> Result<SessionId> {
        let directory = std::path::absolute(directory)?;
        let options = CreateSession {
            directory: directory.to_string_lossy().into_owned(),
            environment: self.environment.clone(),
            permission_mode: PermissionMode::Full,
            ..CreateSession::default()
        };
        let created = self.management.create(&cx(), options).await?.session_id;
        self.attach(&created).await?;
        Ok(created)
    }

    /// Attaches to a session, whose worker is started where it does not run.
    pub async fn attach(&self, session: &SessionId) -> Result<()> {
        self.management
            .attach(&cx(), session.clone(), self.environment.clone())
            .await?;
        let attached = |state: &AttachmentState| {
            state.is_attached() && state.target() == Some(session.as_str())
        };
        self.link
            .attached()
            .attachment()
            .wait_for(&cx(), attached)
            .await?;
        Ok(())
    }
}

/// A context that no measurement outlives.
pub fn cx() -> Context {
    Context::background().with_timeout(Duration::from_secs(60))
}
