//! Server facets alone: their real bindings over a fleet that the test plays.

mod fleet;
mod reading;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_server::host::{
    Bindings, ConnectionBackend, ControlBackend, CountsListener, ProcessBackend, StatusBackend,
    Subscription,
};
use bezel_api_server::{
    AuthenticationDraft, AuthenticationPolicy, AuthorizationDraft, AuthorizationPolicy,
    ServerContext, ServerCounts, WorkerPolicy, WorkerPolicyDraft, WorkerProcess,
};
use bezel_context::{ClientId, Context, Principal, TaskScope};
use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, Facet, Failure, Grant, Manifest,
    ManifestEntry, Registry, assemble,
};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, ConnectionState, Credential, ErrorCode,
    Hello, Limits, Link, PeerIdentity, Refusal, Role, Router, ServiceTable,
};
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

pub use fleet::FakeFleet;

/// Server facets under test, assembled as a server assembles them, and clients of their services.
pub struct FakeServerHost {
    /// The sessions that the test plays.
    pub fleet: Arc<FakeFleet>,
    /// The server that the test plays.
    pub status: Arc<FakeStatus>,
    /// What the facets contribute to who may connect.
    pub authentication: Registry<AuthenticationDraft>,
    /// What the facets contribute to who may reach a session.
    pub authorization: Registry<AuthorizationDraft>,
    /// What the facets contribute to how workers are treated.
    pub workers: Registry<WorkerPolicyDraft>,
    /// What the facets offer.
    pub table: ServiceTable,
    assembled: Assembled,
    tasks: TaskScope,
    known: Arc<Known>,
    acceptor: Acceptor,
}

/// How server facets under test are started.
#[derive(Default)]
pub struct FakeServerOptions {
    /// Configuration per plugin.
    pub config: BTreeMap<&'static str, Value>,
    /// Grants per plugin.
    pub grants: BTreeMap<&'static str, Vec<&'static str>>,
}

/// A server's counts, its end and its worker processes, as the test sets and sees them.
#[derive(Default)]
pub struct FakeStatus {
    counts: Mutex<Option<ServerCounts>>,
    listeners: Mutex<Vec<CountsListener>>,
    stop_requested: AtomicBool,
    killed: Mutex<Vec<SessionId>>,
}

impl FakeStatus {
    /// Sets the counts. Listeners hear of it.
    pub fn set_counts(&self, counts: ServerCounts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for listener in listeners {
            listener(counts);
        }
    }

    /// Whether a facet asked for the server's end.
    pub fn is_stop_requested(&self) -> bool {
        self.stop_requested.load(Ordering::Acquire)
    }

    /// Whose workers facets killed, in order.
    pub fn killed(&self) -> Vec<SessionId> {
        self.killed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

struct Host(Arc<FakeStatus>);

impl StatusBackend for Host {
    fn version(&self) -> String {
        "test".into()
    }

    fn started_at(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn counts(&self) -> ServerCounts {
        let counts = *self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.unwrap_or(ServerCounts {
            clients: 0,
            workers: 0,
        })
    }

    fn on_changed(&self, listener: CountsListener) -> Subscription {
        let mut listeners = self
            .0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::clone(&listener));
        Box::new(Counting {
            status: Arc::clone(&self.0),
            listener,
        })
    }
}

struct Counting {
    status: Arc<FakeStatus>,
    listener: CountsListener,
}

impl Drop for Counting {
    fn drop(&mut self) {
        let mut listeners = self
            .status
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|other| !Arc::ptr_eq(other, &self.listener));
    }
}

impl ControlBackend for Host {
    fn request_stop(&self) {
        self.0.stop_requested.store(true, Ordering::Release);
    }
}

impl ConnectionBackend for Host {
    fn principals(&self) -> Vec<Principal> {
        Vec::new()
    }

    fn end(&self, _client: &ClientId, _reason: &str) -> bool {
        false
    }
}

impl ProcessBackend for Host {
    fn processes(&self) -> Vec<WorkerProcess> {
        Vec::new()
    }

    fn kill(&self, session_id: &SessionId) -> bool {
        let mut killed = self.0.killed.lock().unwrap_or_else(PoisonError::into_inner);
        killed.push(session_id.clone());
        true
    }
}

impl FakeServerHost {
    /// Sets up and activates `facets` in this order, each required.
    pub async fn start(
        facets: Vec<Facet<ServerContext>>,
        options: FakeServerOptions,
    ) -> Result<Self, AssemblyError> {
        let (fleet, status) = (Arc::<FakeFleet>::default(), Arc::<FakeStatus>::default());
        let table = ServiceTable::new();
        let bindings = Bindings {
            fleet: Arc::new(fleet::Backend(Arc::clone(&fleet))),
            upkeep: Arc::new(upkeep::Backend(Arc::clone(&fleet))),
            status: Arc::new(Host(Arc::clone(&status))),
            control: Arc::new(Host(Arc::clone(&status))),
            processes: Arc::new(Host(Arc::clone(&status))),
            connections: Arc::new(Host(Arc::clone(&status))),
            authentication: Registry::new(AuthenticationPolicy::closed()),
            authorization: Registry::new(AuthorizationPolicy::closed()),
            workers: Registry::new(WorkerPolicy::default()),
        };
        let entries = facets.iter().map(|facet| {
            let id = facet.plugin().as_str();
            let mut entry = ManifestEntry::required(id, "1.0.0");
            entry.config = options.config.get(id).cloned().unwrap_or_default();
            let grants = options.grants.get(id).into_iter().flatten();
            entry.grants = grants.map(|grant| Grant::new(*grant)).collect();
            entry
        });
        let (open, context) = (bindings.clone(), bindings.clone());
        let assembled = assemble(AssembleOptions {
            manifest: Manifest {
                plugins: entries.collect(),
            },
            facets,
            table: table.clone(),
            context: Arc::new(move |scope| context.context(scope)),
            before_activation: Box::new(move || {
                open.authentication.open();
                open.authorization.open();
                open.workers.open();
            }),
            deadlines: Deadlines::default(),
        })
        .await?;
        table.activate();
        let known = Arc::<Known>::default();
        let acceptor = Acceptor::new(
            table.clone(),
            known.clone(),
            Router::new(),
            Limits::default(),
        );
        Ok(FakeServerHost {
            fleet,
            status,
            authentication: bindings.authentication,
            authorization: bindings.authorization,
            workers: bindings.workers,
            table,
            assembled,
            tasks: TaskScope::new(),
            known,
            acceptor,
        })
    }

    /// Connects a client that acts for `principal`. Its client id is one that the connection gives out.
    ///
    /// # Panics
    ///
    /// Where it is not let in, which no principal is the cause of.
    pub async fn client(&self, principal: Principal) -> Link {
        let secret = {
            let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.push(principal);
            (known.len() - 1).to_string()
        };
        let hello = Hello {
            role: Role::Presentation,
            product_version: "test".into(),
            credential: Credential::token(secret),
        };
        let connect = self.acceptor.local(PeerIdentity::local());
        let link = Link::start(&self.tasks.spawner(), connect, hello, ServiceTable::new());
        let connected =
            |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
        let cx = Context::background();
        let waited = link.connection().wait_for(&cx, connected).await;
        waited.expect("a background context is never cancelled");
        link
    }

    /// Removes one plugin as a server does.
    pub async fn remove(&mut self, plugin: &str) -> Vec<Failure> {
        self.assembled.remove(plugin).await
    }

    /// Ends the facets. Returns every failed disposer.
    pub async fn stop(self) -> Vec<Failure> {
        self.assembled.dispose().await
    }
}

/// The principals of the clients, by the number that is their credential.
#[derive(Default)]
struct Known(Mutex<Vec<Principal>>);

impl Authenticate for Known {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        async move {
            let number = hello
                .credential
                .reveal()
                .and_then(|secret| secret.parse::<usize>().ok());
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let principal = number.and_then(|number| known.get(number).cloned());
            let principal = principal.ok_or_else(|| Refusal {
                code: ErrorCode::NotAuthorized,
                message: "connect through FakeServerHost::client".into(),
            })?;
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        }
        .boxed()
    }
}
