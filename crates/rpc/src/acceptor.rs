//! The accepting side: authenticates peers, serves its own table, routes the rest.

use core::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bezel_context::{ClientId, Context, Principal, TaskScope};
use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::connection::{Connect, ConnectError};
use crate::consumer::{Line, Namespace, Reach};
use crate::control::{answer_ping, goaway_reason, read, send_goaway, violation};
use crate::error::{ErrorCode, RpcError};
use crate::handshake::{
    Credential, Hello, HelloPayload, Refusal, WelcomePayload, control, read_hello, refusal,
};
use crate::limits::Limits;
use crate::provider::{Provider, ServiceTable, Told};
use crate::router::{Peer, Router};
use crate::sync::lock;
use crate::wire::drive::{Connection, End};
use crate::wire::{Frame, Header, Kind, Outbox, Transport, loopback};

/// A peer has this long to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// Peers from the network that may be between their connection and their welcome at once, in all and from
/// one address.
const MOST_STRANGERS: usize = 64;
const MOST_STRANGERS_OF_ONE: usize = 16;

/// What a stranger may send before it is let in.
const HELLO_BYTES: usize = 256 * 1024;

/// What the transport itself knows of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerIdentity {
    /// The user that the peer's process runs as, where the operating system says so.
    pub uid: Option<u32>,
    /// Where the peer is, where it came over a network.
    pub address: Option<IpAddr>,
}

impl PeerIdentity {
    /// A peer inside this process.
    pub fn local() -> Self {
        PeerIdentity::default()
    }

    /// A peer that came over a network.
    pub fn network(address: IpAddr) -> Self {
        PeerIdentity {
            uid: None,
            address: Some(address),
        }
    }
}

/// Decides who a peer is. The only place that reads a credential.
pub trait Authenticate: Send + Sync + 'static {
    /// Turns a credential into a principal and a role, or the peer away.
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>>;
}

/// Who a peer is.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// On whose behalf it calls. Its client id is replaced by one that the acceptor gives out.
    pub principal: Principal,
    /// What it may be.
    pub role: AcceptedRole,
    /// What it shows from now on, where the credential that it showed is used up with this connection.
    /// It crosses in the welcome, and nowhere else.
    pub issued: Option<Credential>,
}

/// What an accepted peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedRole {
    /// Uses services, and can be attached to a target.
    Presentation,
    /// Serves one target to those who are attached to it.
    Worker {
        /// The target, from the credential.
        target: String,
    },
}

/// Accepts connections. Cheap to clone; dropping the last clone ends the connections that it spawned.
#[derive(Clone)]
pub struct Acceptor(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    scope: Mutex<Option<TaskScope>>,
}

/// What connections need of their acceptor; they do not keep its scope alive.
struct Shared {
    table: ServiceTable,
    authenticate: Arc<dyn Authenticate>,
    router: Router,
    limits: Limits,
    last_client: AtomicU64,
    connections: Mutex<Vec<Outbox>>,
    /// Where the peers from the network are that have no welcome yet.
    strangers: Mutex<Vec<IpAddr>>,
}

impl Acceptor {
    /// An acceptor for `table`, which also holds the connections that it serves.
    pub fn new(
        table: ServiceTable,
        authenticate: Arc<dyn Authenticate>,
        router: Router,
        limits: Limits,
    ) -> Self {
        let shared = Shared {
            table,
            authenticate,
            router,
            limits,
            last_client: AtomicU64::new(0),
            connections: Mutex::default(),
            strangers: Mutex::default(),
        };
        Acceptor(Arc::new(Owner {
            shared: Arc::new(shared),
            scope: Mutex::new(Some(TaskScope::new())),
        }))
    }

    /// The router that this acceptor's peers are known to.
    pub fn router(&self) -> &Router {
        &self.0.shared.router
    }

    /// Serves one connection until it ends or `cx` does.
    pub async fn serve(&self, cx: &Context, transport: Transport, peer: PeerIdentity) {
        let shared = Arc::clone(&self.0.shared);
        shared.accept(cx, transport, peer).await;
    }

    /// Serves one connection on a task of this acceptor.
    pub fn spawn(&self, transport: Transport, peer: PeerIdentity) {
        let spawner = lock(&self.0.scope).as_ref().map(TaskScope::spawner);
        let Some(spawner) = spawner else {
            transport.outgoing.close();
            return;
        };
        let shared = Arc::clone(&self.0.shared);
        drop(spawner.spawn("rpc connection", async move {
            shared.accept(&Context::background(), transport, peer).await;
        }));
    }

    /// A way to connect from inside this process: the same handshake, services and routing, no socket.
    ///
    /// It does not keep the acceptor alive: once that has gone, attempts fail as to a server that is down.
    pub fn local(&self, peer: PeerIdentity) -> Arc<dyn Connect> {
        Arc::new(Local {
            acceptor: Arc::downgrade(&self.0),
            peer,
        })
    }

    /// Tells all peers to go, waits up to `grace` for their connections to end, then ends them.
    pub async fn shutdown(&self, grace: Duration) {
        let scope = lock(&self.0.scope).take();
        let connections = std::mem::take(&mut *lock(&self.0.shared.connections));
        let goodbye = RpcError::new(ErrorCode::Disconnected, "the server is shutting down");
        for outbox in connections {
            send_goaway(&outbox, &goodbye);
            outbox.close();
        }
        if let Some(scope) = scope {
            let overran = scope.shutdown(grace).await;
            if !overran.is_empty() {
                tracing::warn!(?overran, "connections had to be cut");
            }
        }
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Acceptor")
            .field("router", self.router())
            .finish_non_exhaustive()
    }
}

struct Local {
    acceptor: Weak<Owner>,
    peer: PeerIdentity,
}

impl Connect for Local {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let acceptor = self
                .acceptor
                .upgrade()
                .map(Acceptor)
                .filter(|acceptor| lock(&acceptor.0.scope).is_some());
            let acceptor = acceptor.ok_or_else(|| ConnectError::Unreachable {
                endpoint: "the server of this process".to_owned(),
                cause: std::io::ErrorKind::ConnectionRefused.into(),
            })?;
            let (ours, theirs) = loopback();
            acceptor.spawn(theirs, self.peer);
            Ok(ours)
        })
    }
}

impl Shared {
    async fn accept(self: &Arc<Self>, cx: &Context, transport: Transport, peer: PeerIdentity) {
        let outbox = transport.outgoing.clone();
        {
            let mut connections = lock(&self.connections);
            connections.retain(|outbox| !outbox.is_closed());
            connections.push(outbox.clone());
        }
        if let Err(reason) = cx.run(self.serve(Connection::new(transport), peer)).await {
            tracing::debug!(%reason, "a connection was given up");
        }
        outbox.close();
    }

    async fn serve(self: &Arc<Self>, mut connection: Connection, peer: PeerIdentity) {
        connection.set_limit(HELLO_BYTES);
        let greeted = match self.greet(&mut connection, &peer).await {
            Ok(greeted) => greeted,
            Err(None) => return,
            Err(Some(refused)) => {
                tracing::debug!(code = %refused.code, message = %refused.message, "a peer was refused");
                if connection.outgoing.send(refusal(&refused)).is_ok() {
                    connection.finish(Duration::from_secs(1)).await;
                }
                return;
            }
        };
        let (
            hello,
            Authenticated {
                mut principal,
                role,
                issued,
            },
        ) = greeted;
        connection.set_limit(self.limits.message);
        let number = self.last_client.fetch_add(1, Ordering::Relaxed) + 1;
        let client = ClientId::new(format!("c{number}"));
        principal.client = client.clone();

        let outbox = connection.outgoing.clone();
        let calls = TaskScope::new();
        let line = Line::new(outbox.clone(), self.limits);
        let namespace = Namespace::new(Reach::up(&line, None, &hello.services));
        let services = serde_json::value::to_raw_value(&hello.services)
            .expect("descriptors are plain structures");
        let node = Peer::new(outbox.clone(), services, Arc::clone(&namespace));
        let told = Told::of(&self.table);
        let welcome = WelcomePayload {
            protocol: crate::PROTOCOL,
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            client: client.clone(),
            limits: self.limits,
            services: told.services.clone(),
            credential: issued,
        };
        if outbox.send(control(Kind::Welcome, &welcome)).is_err() {
            return;
        }
        // Registered after the welcome was queued, so that news of the table come after it.
        let provider = Provider::new(
            self.table.clone(),
            outbox.clone(),
            calls.spawner(),
            self.limits,
            principal.clone(),
            told,
        );
        provider.announce();
        let mut accepted = Accepted {
            shared: Arc::clone(self),
            client,
            role,
            node,
            line,
            namespace,
            provider,
            active: AtomicBool::new(hello.active),
            reason: "its connection was cut".to_owned(),
        };
        accepted.enter(&principal);
        let end = connection
            .run(&accepted.provider, |frame| accepted.act(frame))
            .await;
        tracing::debug!(client = %accepted.client, %end, "a connection ended");
        if let Some(error) = end.fault() {
            send_goaway(&outbox, &error);
        }
        accepted.reason = end.to_string();
        drop(accepted);
        drop(calls);
        connection.finish(Duration::from_secs(1)).await;
    }

    /// The handshake up to the decision. `Err(None)`: the peer left without a word.
    async fn greet(
        &self,
        connection: &mut Connection,
        peer: &PeerIdentity,
    ) -> Result<(HelloPayload, Authenticated), Option<Refusal>> {
        let _stranger = match peer.address {
            Some(address) => Some(Stranger::enter(&self.strangers, address).ok_or_else(|| {
                Some(Refusal::new(
                    ErrorCode::ResourceExhausted,
                    "too many connections wait to be let in; try again later",
                ))
            })?),
            None => None,
        };
        let first = tokio::time::timeout(HELLO, connection.recv())
            .await
            .map_err(|_| {
                Some(Refusal::new(
                    ErrorCode::Protocol,
                    "no hello came; send it first",
                ))
            })?;
        let frame = match first {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(None),
            Err(error) => {
                let code = error.fault().unwrap_or(ErrorCode::Protocol);
                return Err(Some(Refusal::new(code, error.to_string())));
            }
        };
        let hello = read_hello(&frame)?;
        let authenticated = self.authenticate.authenticate(&hello.hello, peer).await?;
        Ok((hello, authenticated))
    }
}

/// A peer from the network on its way to a welcome. Dropping it makes room for another.
struct Stranger<'a> {
    all: &'a Mutex<Vec<IpAddr>>,
    address: IpAddr,
}

impl<'a> Stranger<'a> {
    fn enter(all: &'a Mutex<Vec<IpAddr>>, address: IpAddr) -> Option<Self> {
        let mut inside = lock(all);
        let of_one = inside.iter().filter(|other| **other == address).count();
        if inside.len() >= MOST_STRANGERS || of_one >= MOST_STRANGERS_OF_ONE {
            return None;
        }
        inside.push(address);
        drop(inside);
        Some(Stranger { all, address })
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        let mut inside = lock(self.all);
        let own = inside.iter().position(|other| *other == self.address);
        own.map(|own| inside.swap_remove(own));
    }
}

/// An accepted connection. Dropping it leaves, so that a cut task leaves no trace.
struct Accepted {
    shared: Arc<Shared>,
    client: ClientId,
    role: AcceptedRole,
    node: Arc<Peer>,
    line: Arc<Line>,
    namespace: Arc<Namespace>,
    provider: Arc<Provider>,
    /// Whether the peer's host is active.
    active: AtomicBool,
    /// Why it ended, for those who watch workers.
    reason: String,
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.namespace.point(Reach::Down {
            code: ErrorCode::Disconnected,
            message: "the peer is no longer connected",
        });
        self.line.close();
        self.provider.close();
        self.namespace.refollow();
        let router = &self.shared.router;
        match &self.role {
            AcceptedRole::Presentation => router.client_gone(&self.client),
            AcceptedRole::Worker { target } => {
                router.is_worker(&self.client, None);
                router.worker_gone(target, &self.node, std::mem::take(&mut self.reason));
            }
        }
    }
}

impl Accepted {
    fn enter(&self, principal: &Principal) {
        match &self.role {
            AcceptedRole::Presentation => {
                self.shared
                    .router
                    .client_connected(&self.client, principal, &self.node)
            }
            AcceptedRole::Worker { target } => {
                self.shared.router.is_worker(&self.client, Some(target));
                if self.active.load(Ordering::Relaxed) {
                    self.shared.router.worker_connected(target, &self.node);
                }
            }
        }
    }

    /// The peer's host is active: a worker can be attached to from now on.
    fn activate(&self) {
        let first = !self.active.swap(true, Ordering::Relaxed);
        if let AcceptedRole::Worker { target } = &self.role
            && first
        {
            self.shared.router.worker_connected(target, &self.node);
        }
    }

    fn act(&self, frame: Frame) -> Result<(), End> {
        let header_bytes = frame.header.clone();
        let header = Header::parse(&header_bytes).map_err(|error| violation(error.to_string()))?;
        if let Some(route) = header.route {
            return self.forward(route, &header, frame);
        }
        let payload = &frame.payload;
        match header.kind {
            Kind::Ok | Kind::Err => self.line.reply(&header, payload.clone()),
            Kind::Snapshot | Kind::State | Kind::Event | Kind::Closed => {
                self.line.deliver(&header, payload)
            }
            Kind::Services => {
                let services: Box<RawValue> = read(payload)?;
                self.namespace.set_services(&read::<Vec<_>>(payload)?);
                self.node.set_services(services);
                if let AcceptedRole::Worker { target } = &self.role {
                    self.shared.router.worker_services(target, payload);
                }
            }
            Kind::Active => self.activate(),
            Kind::Ping => answer_ping(&self.provider),
            Kind::Pong => {}
            Kind::Goaway => return Err(End::Goaway(goaway_reason(payload))),
            _ if self.provider.take(&header, payload) => {}
            kind => {
                return Err(violation(format!(
                    "a peer does not send {} to a server",
                    kind.as_str()
                )));
            }
        }
        Ok(())
    }

    fn forward(&self, route: u64, header: &Header<'_>, frame: Frame) -> Result<(), End> {
        match (&self.role, header.kind) {
            (
                AcceptedRole::Presentation,
                Kind::Call
                | Kind::Cancel
                | Kind::Subscribe
                | Kind::Unsubscribe
                | Kind::Credit
                | Kind::Release,
            ) => self.node.forward_to_worker(route, header, frame),
            (
                AcceptedRole::Worker { .. },
                Kind::Ok | Kind::Err | Kind::Snapshot | Kind::State | Kind::Event | Kind::Closed,
            ) => self.node.forward_to_clients(route, header, frame),
            (_, kind) => {
                return Err(violation(format!(
                    "this peer may not route {}",
                    kind.as_str()
                )));
            }
        }
        Ok(())
    }
}
