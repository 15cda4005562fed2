//! A server and its sessions, played by a test: real acceptor, router and links, no process and no socket.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_context::{ClientId, Context, Principal, Scopes, TaskScope, Workspaces};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, ConnectError, Credential,
    ErrorCode, Hello, Limits, Link, PeerIdentity, ProvideError, Refusal, Role, RouteError, Router,
    ServiceClient, ServiceTable, Subscription, Transport,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// A server that a presentation under test connects to. Its services are what the test provides.
pub struct FakeServer {
    table: ServiceTable,
    router: Router,
    acceptor: Acceptor,
    gate: Arc<Gate>,
    /// The presentation that connected last.
    client: watch::Sender<Option<ClientId>>,
    _watches: [Subscription; 2],
}

/// The services of one session, in a worker that is connected until [`FakeWorker::stop`].
pub struct FakeWorker {
    table: ServiceTable,
    link: Link,
    _tasks: TaskScope,
}

/// Whether attempts to connect succeed.
struct Gate {
    open: AtomicBool,
    revoked: AtomicBool,
    inner: Arc<dyn Connect>,
}

impl FakeServer {
    /// A server without services of its own.
    pub fn new() -> Self {
        let (table, router) = (ServiceTable::new(), Router::new());
        table.activate();
        let acceptor = Acceptor::new(
            table.clone(),
            Arc::new(Anyone),
            router.clone(),
            Limits::default(),
        );
        let inner = acceptor.local(PeerIdentity::local());
        let gate = Arc::new(Gate {
            open: AtomicBool::new(true),
            revoked: AtomicBool::new(false),
            inner,
        });
        let client = watch::Sender::new(None);
        let connected: watch::Sender<Option<ClientId>> = client.clone();
        let came = router.on_client_connected(move |id| {
            connected.send_replace(Some(id.clone()));
        });
        let gone = client.clone();
        let went = router.on_client_gone(move |id| {
            gone.send_if_modified(|client| client.take_if(|client| client == id).is_some());
        });
        FakeServer {
            table,
            router,
            acceptor,
            gate,
            client,
            _watches: [came, went],
        }
    }

    /// Offers a service of the server.
    pub fn provide<S: ServiceClient>(&self, service: &S) -> Result<(), ProvideError> {
        self.table.provide(service.exposed())
    }

    /// The way to it.
    pub fn connect(&self) -> Arc<dyn Connect> {
        Arc::clone(&self.gate) as Arc<dyn Connect>
    }

    /// The presentation that connected last; waits until there is one.
    pub async fn client(&self) -> ClientId {
        let mut client = self.client.subscribe();
        let connected = client
            .wait_for(Option::is_some)
            .await
            .expect("the sender lives as long as this");
        connected.clone().expect("that was waited for")
    }

    /// Selects a session for the presentation that connected last; waits until there is one.
    pub async fn attach(&self, session: &str) -> Result<(), RouteError> {
        self.router.bind(&self.client().await, session).map(drop)
    }

    /// Selects none.
    pub async fn detach(&self) -> Result<(), RouteError> {
        self.router.unbind(&self.client().await)
    }

    /// The session that the presentation has selected.
    pub async fn attached(&self) -> Option<String> {
        self.router.target_of(&self.client().await)
    }

    /// Cuts the presentation's connection; attempts to connect again fail until [`FakeServer::restore`].
    pub async fn cut(&self) -> bool {
        self.gate.open.store(false, Ordering::SeqCst);
        self.router.disconnect_client(&self.client().await)
    }

    /// Cuts the presentation's connection; attempts to connect again are refused for good, because its access was taken back.
    pub async fn revoke(&self) -> bool {
        self.gate.revoked.store(true, Ordering::SeqCst);
        self.router.disconnect_client(&self.client().await)
    }

    /// Lets attempts to connect succeed again.
    pub fn restore(&self) {
        self.gate.open.store(true, Ordering::SeqCst);
    }

    /// Starts the worker of a session; it can be attached to once [`FakeWorker::activate`] was called.
    pub fn worker(&self, session: &str) -> FakeWorker {
        let tasks = TaskScope::new();
        let table = ServiceTable::new();
        let hello = Hello {
            role: Role::Worker,
            product_version: "0.0.0".into(),
            credential: Credential::token(session),
        };
        let connect = self.acceptor.local(PeerIdentity::local());
        let link = Link::start(&tasks.spawner(), connect, hello, table.clone());
        FakeWorker {
            table,
            link,
            _tasks: tasks,
        }
    }
}

impl Default for FakeServer {
    fn default() -> Self {
        FakeServer::new()
    }
}

impl FakeWorker {
    /// Offers a service of the session.
    pub fn provide<S: ServiceClient>(&self, service: &S) -> Result<(), ProvideError> {
        self.table.provide(service.exposed())
    }

    /// Lets snapshots and calls through.
    pub fn activate(&self) {
        self.table.activate();
    }

    /// Ends the worker's connection, as if its process had died.
    pub async fn stop(self) {
        self.link.stop().await;
    }
}

impl Connect for Gate {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        if self.revoked.load(Ordering::SeqCst) {
            let refusal = Refusal::new(ErrorCode::NotAuthorized, "access was taken back");
            return async { Err(refusal.into()) }.boxed();
        }
        if self.open.load(Ordering::SeqCst) {
            return self.inner.connect(cx);
        }
        let cause = io::Error::from(io::ErrorKind::ConnectionRefused);
        async move {
            Err(ConnectError::Unreachable {
                endpoint: "the test's server".into(),
                cause,
            })
        }
        .boxed()
    }
}

/// Takes everybody; a worker's credential names its session.
struct Anyone;

impl Authenticate for Anyone {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let role = match (&hello.role, hello.credential.reveal()) {
            (Role::Worker, Some(session)) => AcceptedRole::Worker {
                target: session.to_owned(),
            },
            _ => AcceptedRole::Presentation,
        };
        let principal = Principal {
            // The acceptor names its connections itself.
            client: ClientId::new(""),
            owner: "me".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        let issued = None;
        async move {
            Ok(Authenticated {
                principal,
                role,
                issued,
            })
        }
        .boxed()
    }
}
