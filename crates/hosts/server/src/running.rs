//! A server from its start to its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bezel_api_server::host::Bindings;
use bezel_api_server::{AuthenticationPolicy, AuthorizationPolicy, ServerCounts, WorkerPolicy};
use bezel_context::{Context, TaskScope};
use bezel_plugin::{AssembleOptions, Assembled, AssemblyError, FacetReport, Registry, assemble};
use bezel_rpc::{
    Acceptor, Connect, ConnectError, Limits, PeerIdentity, Router, ServiceTable, Subscription,
    Transport, WorkerEvent, loopback,
};
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::authenticate::HostAuthenticate;
use crate::feed::Feed;
use crate::fleet::{Creating, HostFleet};
use crate::lock::{LockError, ServerLock};
use crate::records::{Records, RecordsError};
use crate::status::{ExitReason, HostControl, Need};
use crate::workers::Workers;
use crate::{Listener, ServerOptions};

/// How long connections get for their goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// After an accept that failed; the system may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The server host.
#[derive(Debug)]
pub struct ServerHost;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// Another server uses the same records.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The records cannot be read.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The facets cannot be assembled.
    #[error("the server's plugins cannot be started: {0}")]
    Assembly(#[from] AssemblyError),
}

/// A server that runs. Dropping it cuts connections and leaves workers alone; [`RunningServer::stop`]
/// ends them.
pub struct RunningServer {
    acceptor: Acceptor,
    table: ServiceTable,
    router: Router,
    control: HostControl,
    assembled: Assembled,
    exit: watch::Receiver<Option<ExitReason>>,
    idle: watch::Receiver<bool>,
    local: Arc<dyn Connect>,
    _router_watchers: [Subscription; 3],
    tasks: TaskScope,
    _lock: ServerLock,
}

impl ServerHost {
    /// Starts a server: it is ready once this resolves.
    pub async fn start(options: ServerOptions) -> Result<RunningServer, ServerStartError> {
        let ServerOptions {
            manifest,
            facets,
            paths,
            launcher,
            listener,
            local_token,
            owner,
            product_version,
            clock,
            deadlines,
            idle_after,
        } = options;
        let lock = ServerLock::acquire(&paths.database)?;
        let started_at = clock.now();
        let (records, rows) = Records::load(&paths.database, paths.sessions, clock.clone())?;

        let tasks = TaskScope::new();
        let (table, router) = (ServiceTable::new(), Router::new());
        let authentication = Registry::new(AuthenticationPolicy::closed());
        let authorization = Registry::new(AuthorizationPolicy::closed());
        let policy = Registry::new(WorkerPolicy::default());
        let workers = Workers::new(
            records.clone(),
            launcher,
            policy.clone(),
            router.clone(),
            tasks.spawner(),
        );
        let owner: Arc<str> = owner.into();
        let product_version: Arc<str> = product_version.into();
        let (exit, exit_requested) = watch::channel(None);
        let control = HostControl {
            version: Arc::clone(&product_version),
            started_at,
            clock,
            router: router.clone(),
            clients: Feed::default(),
            workers: workers.clone(),
            exit,
        };
        let fleet = HostFleet {
            owner: Arc::clone(&owner),
            version: Arc::clone(&product_version),
            records: records.clone(),
            workers: workers.clone(),
            router: router.clone(),
            authorization: authorization.clone(),
            spawner: tasks.spawner(),
            creating: Creating::default(),
        };
        let bindings = Bindings {
            fleet: Arc::new(fleet.clone()),
            upkeep: Arc::new(fleet),
            status: Arc::new(control.clone()),
            control: Arc::new(control.clone()),
            processes: Arc::new(control.clone()),
            connections: Arc::new(control.clone()),
            authentication: authentication.clone(),
            authorization: authorization.clone(),
            workers: policy.clone(),
        };
        let assembled = assemble(AssembleOptions {
            manifest,
            facets,
            table: table.clone(),
            context: Arc::new(move |scope| bindings.context(scope)),
            before_activation: Box::new({
                let (authentication, policy) = (authentication.clone(), policy.clone());
                move || {
                    authentication.open();
                    authorization.open();
                    policy.open();
                }
            }),
            deadlines,
        })
        .await?;

        let authenticate = HostAuthenticate {
            owner: Arc::clone(&owner),
            user: rustix::process::getuid().as_raw(),
            token: local_token,
            product_version,
            methods: authentication,
            records: records.clone(),
            workers: workers.clone(),
        };
        let acceptor = Acceptor::new(
            table.clone(),
            Arc::new(authenticate),
            router.clone(),
            Limits::default(),
        );
        let local: Arc<dyn Connect> = Arc::new(Local {
            runtime: Handle::current(),
            acceptor: acceptor.clone(),
        });
        let [came, gone] = follow_clients(&router, &control);
        let watchers = [follow_workers(&router, &workers), came, gone];
        workers.open(&local);
        let gone = workers.adopt(rows);
        if let Err(error) = records.adopt(&owner).await {
            tracing::warn!(%error, "session files without a record cannot be looked for");
        }
        table.activate();
        workers.resume_left(gone);
        if let Some(listener) = listener {
            // The task ends with the server's scope.
            drop(tasks.spawn("accept connections", accept(listener, acceptor.clone())));
        }
        let (idle, idle_now) = watch::channel(false);
        if let Some(after) = idle_after {
            let need = Need::follow(&control, &records);
            drop(tasks.spawn(
                "watch for idleness",
                need.watch(after, idle, control.exit.clone()),
            ));
        }
        Ok(RunningServer {
            acceptor,
            table,
            router,
            control,
            assembled,
            exit: exit_requested,
            idle: idle_now,
            local,
            _router_watchers: watchers,
            tasks,
            _lock: lock,
        })
    }
}

impl RunningServer {
    /// Connects presentations of this process: the same authentication, services and routing.
    pub fn local(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.local)
    }

    /// The services that this server offers.
    pub fn table(&self) -> &ServiceTable {
        &self.table
    }

    /// How many it serves now.
    pub fn status(&self) -> ServerCounts {
        self.control.counts_now()
    }

    /// What became of every plugin of the manifest.
    pub fn report(&self) -> Vec<FacetReport> {
        self.assembled.report()
    }

    /// True while nothing has needed the server for as long as the options say.
    pub fn idle(&self) -> watch::Receiver<bool> {
        self.idle.clone()
    }

    /// Resolves once the server wants to exit; its owner then calls [`RunningServer::stop`]. It stays
    /// resolved.
    pub async fn exit_requested(&self) -> ExitReason {
        let mut exit = self.exit.clone();
        let asked = exit
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|reason| *reason);
        match asked {
            Some(reason) => reason,
            // The sender lives in the server itself.
            None => std::future::pending().await,
        }
    }

    /// Takes no more connections, ends workers, says goodbye to clients and disposes the facets.
    /// Returns what went wrong on the way, for the log.
    pub async fn stop(self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        problems.extend(
            self.control
                .workers
                .close()
                .await
                .iter()
                .map(ToString::to_string),
        );
        self.acceptor.shutdown(GOODBYE).await;
        problems.extend(
            self.assembled
                .dispose()
                .await
                .iter()
                .map(ToString::to_string),
        );
        let overran = self.tasks.shutdown(Duration::ZERO).await;
        tracing::debug!(?overran, router = ?self.router, "the server has stopped");
        problems
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RunningServer")
            .field("counts", &self.status())
            .finish_non_exhaustive()
    }
}

/// Connects hosts of this process. The server's side runs where the server does, whichever runtime the
/// other host has: one that blocks or ends takes nothing of the server with it.
struct Local {
    runtime: Handle,
    acceptor: Acceptor,
}

impl Connect for Local {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        async {
            let (ours, theirs) = loopback();
            let _server_runtime = self.runtime.enter();
            self.acceptor.spawn(theirs, PeerIdentity::local());
            Ok(ours)
        }
        .boxed()
    }
}

fn follow_workers(router: &Router, workers: &Workers) -> Subscription {
    let workers = workers.clone();
    router.on_worker(move |target, event| {
        workers.connection(
            &SessionId::new(target),
            matches!(event, WorkerEvent::Connected),
        );
    })
}

fn follow_clients(router: &Router, control: &HostControl) -> [Subscription; 2] {
    let (came, gone) = (control.clients.clone(), control.clients.clone());
    [
        router.on_client_connected(move |_| came.publish(())),
        router.on_client_gone(move |_| gone.publish(())),
    ]
}

async fn accept(mut listener: Box<dyn Listener>, acceptor: Acceptor) {
    loop {
        match listener.accept().await {
            // Only a peer of this process has no user: nobody else may look like one.
            Ok((transport, peer)) if peer == PeerIdentity::local() => {
                tracing::warn!("a connection was refused: the system does not say whose it is");
                drop(transport);
            }
            Ok((transport, peer)) => acceptor.spawn(transport, peer),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
