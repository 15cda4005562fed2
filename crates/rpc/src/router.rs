//! Routes frames between clients and workers by their headers alone.

mod peer;
mod registry;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bezel_context::{ClientId, Principal};
use bytes::Bytes;

use crate::connection::AttachmentState;
use crate::consumer::Remote;
use crate::control::send_goaway;
use crate::error::RpcError;
use crate::state::Subscription;
use crate::sync::lock;
use crate::wire::{Header, Kind};

use registry::{Bound, ClientEntry, Registry};

pub(crate) use peer::Peer;

/// Knows who is connected and which client is attached to which target. Cheap to clone.
#[derive(Clone, Default)]
pub struct Router(Arc<Inner>);

#[derive(Default)]
struct Inner {
    registry: Mutex<Registry>,
    watchers: Mutex<Watchers>,
}

type WorkerWatcher = dyn Fn(&str, &WorkerEvent) + Send + Sync;
type ClientWatcher = dyn Fn(&ClientId) + Send + Sync;

#[derive(Default)]
struct Watchers {
    worker: Vec<Arc<WorkerWatcher>>,
    client_connected: Vec<Arc<ClientWatcher>>,
    client_gone: Vec<Arc<ClientWatcher>>,
}

/// A worker came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEvent {
    /// It is connected and active: it can be attached to.
    Connected,
    /// Its connection is gone.
    Disconnected {
        /// Why, for a person.
        reason: String,
    },
}

/// A client's choice of target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The target.
    pub target: String,
    /// Names this attachment in frames; `None` until the target's worker is connected.
    pub incarnation: Option<u64>,
}

/// Why a client was not attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The client is not connected.
    #[error("client {0} is not connected")]
    UnknownClient(ClientId),
}

impl Router {
    /// A router without peers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches a client to a target. What it had open at its previous target is closed there.
    ///
    /// Without a connected worker the client is `attaching`; it is attached as soon as one comes.
    pub fn bind(&self, client: &ClientId, target: &str) -> Result<Attachment, RouteError> {
        let mut registry = lock(&self.0.registry);
        registry.unbind(client)?;
        let entry = registry
            .clients
            .get_mut(client)
            .ok_or_else(|| RouteError::UnknownClient(client.clone()))?;
        entry.bound = Some(Bound {
            target: target.to_owned(),
            route: None,
        });
        registry.connect_route(client);
        let entry = &registry.clients[client];
        let incarnation = entry.bound.as_ref().and_then(|bound| bound.route);
        if incarnation.is_none() {
            entry.peer.send_attachment(
                None,
                &AttachmentState::Attaching {
                    target: target.to_owned(),
                },
                None,
            );
        }
        Ok(Attachment {
            target: target.to_owned(),
            incarnation,
        })
    }

    /// Detaches a client from its target, if it has one.
    pub fn unbind(&self, client: &ClientId) -> Result<(), RouteError> {
        let mut registry = lock(&self.0.registry);
        if registry.unbind(client)? {
            registry.clients[client]
                .peer
                .send_attachment(None, &AttachmentState::Detached, None);
        }
        Ok(())
    }

    /// The target that a client is bound to.
    pub fn target_of(&self, client: &ClientId) -> Option<String> {
        lock(&self.0.registry)
            .clients
            .get(client)?
            .bound
            .as_ref()
            .map(|bound| bound.target.clone())
    }

    /// The clients that are bound to a target.
    pub fn clients_of(&self, target: &str) -> Vec<ClientId> {
        let registry = lock(&self.0.registry);
        let bound = |entry: &ClientEntry| {
            entry
                .bound
                .as_ref()
                .is_some_and(|bound| bound.target == target)
        };
        registry
            .clients
            .iter()
            .filter(|(_, entry)| bound(entry))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// How many clients are connected, bound or not.
    pub fn client_count(&self) -> usize {
        lock(&self.0.registry).clients.len()
    }

    /// The targets whose workers are connected.
    pub fn workers(&self) -> Vec<String> {
        lock(&self.0.registry).workers.keys().cloned().collect()
    }

    /// Whether a target's worker is connected.
    pub fn is_connected(&self, target: &str) -> bool {
        lock(&self.0.registry).workers.contains_key(target)
    }

    /// The services that a worker provides to the server itself.
    pub fn worker(&self, target: &str) -> Option<Remote> {
        let registry = lock(&self.0.registry);
        registry.workers.get(target).map(|peer| peer.remote())
    }

    /// Ends a worker's connection. Answers whether there was one.
    pub fn disconnect_worker(&self, target: &str) -> bool {
        let registry = lock(&self.0.registry);
        let Some(peer) = registry.workers.get(target) else {
            return false;
        };
        peer.outbox.close();
        true
    }

    /// Ends a client's connection. Answers whether there was one.
    pub fn disconnect_client(&self, client: &ClientId) -> bool {
        let registry = lock(&self.0.registry);
        let Some(entry) = registry.clients.get(client) else {
            return false;
        };
        entry.peer.outbox.close();
        true
    }

    /// Ends a client's connection and tells it why. Nothing that it still sends is acted on. Answers
    /// whether there was one.
    pub fn dismiss_client(&self, client: &ClientId, reason: &RpcError) -> bool {
        let registry = lock(&self.0.registry);
        let Some(entry) = registry.clients.get(client) else {
            return false;
        };
        send_goaway(&entry.peer.outbox, reason);
        entry.peer.outbox.close();
        true
    }

    /// For whom each connected client acts.
    pub fn principals(&self) -> Vec<Principal> {
        let registry = lock(&self.0.registry);
        let principals = registry.clients.values();
        principals.map(|entry| entry.principal.clone()).collect()
    }

    /// Calls `watcher` when a worker connects or disconnects.
    pub fn on_worker(
        &self,
        watcher: impl Fn(&str, &WorkerEvent) + Send + Sync + 'static,
    ) -> Subscription {
        let watcher: Arc<WorkerWatcher> = Arc::new(watcher);
        lock(&self.0.watchers).worker.push(Arc::clone(&watcher));
        let router = self.clone();
        Subscription::new(move || {
            lock(&router.0.watchers)
                .worker
                .retain(|other| !Arc::ptr_eq(other, &watcher))
        })
    }

    /// On whose behalf a connected presentation calls.
    pub fn principal_of(&self, client: &ClientId) -> Option<Principal> {
        lock(&self.0.registry)
            .clients
            .get(client)
            .map(|entry| entry.principal.clone())
    }

    /// The target whose worker this client is; `None` for everybody else.
    pub fn worker_target(&self, client: &ClientId) -> Option<String> {
        lock(&self.0.registry).worker_clients.get(client).cloned()
    }

    /// Calls `watcher` when a client has connected.
    pub fn on_client_connected(
        &self,
        watcher: impl Fn(&ClientId) + Send + Sync + 'static,
    ) -> Subscription {
        let watcher: Arc<ClientWatcher> = Arc::new(watcher);
        lock(&self.0.watchers)
            .client_connected
            .push(Arc::clone(&watcher));
        let router = self.clone();
        Subscription::new(move || {
            lock(&router.0.watchers)
                .client_connected
                .retain(|other| !Arc::ptr_eq(other, &watcher));
        })
    }

    /// Calls `watcher` when a client's connection has ended.
    pub fn on_client_gone(
        &self,
        watcher: impl Fn(&ClientId) + Send + Sync + 'static,
    ) -> Subscription {
        let watcher: Arc<ClientWatcher> = Arc::new(watcher);
        lock(&self.0.watchers)
            .client_gone
            .push(Arc::clone(&watcher));
        let router = self.clone();
        Subscription::new(move || {
            lock(&router.0.watchers)
                .client_gone
                .retain(|other| !Arc::ptr_eq(other, &watcher))
        })
    }

    pub(crate) fn client_connected(&self, id: &ClientId, principal: &Principal, peer: &Arc<Peer>) {
        let entry = ClientEntry {
            peer: Arc::clone(peer),
            principal: principal.clone(),
            bound: None,
        };
        lock(&self.0.registry).clients.insert(id.clone(), entry);
        let watchers = lock(&self.0.watchers).client_connected.clone();
        for watcher in watchers {
            if catch_unwind(AssertUnwindSafe(|| watcher(id))).is_err() {
                tracing::error!(client = %id, "a client watcher panicked");
            }
        }
    }

    pub(crate) fn is_worker(&self, client: &ClientId, target: Option<&str>) {
        let mut registry = lock(&self.0.registry);
        match target {
            Some(target) => registry
                .worker_clients
                .insert(client.clone(), target.to_owned()),
            None => registry.worker_clients.remove(client),
        };
    }

    pub(crate) fn client_gone(&self, id: &ClientId) {
        {
            let mut registry = lock(&self.0.registry);
            if let Err(error) = registry.unbind(id) {
                tracing::debug!(%error, "a client had left already");
            }
            registry.clients.remove(id);
        }
        let watchers = lock(&self.0.watchers).client_gone.clone();
        for watcher in watchers {
            if catch_unwind(AssertUnwindSafe(|| watcher(id))).is_err() {
                tracing::error!(client = %id, "a client watcher panicked");
            }
        }
    }

    pub(crate) fn worker_connected(&self, target: &str, peer: &Arc<Peer>) {
        let mut registry = lock(&self.0.registry);
        if let Some(previous) = registry.workers.insert(target.to_owned(), Arc::clone(peer)) {
            // A worker that comes again has lost its old connection, whether that was noticed or not.
            previous.outbox.close();
            registry.lose_routes(target);
        }
        for client in registry.bound_to(target) {
            registry.connect_route(&client);
        }
        drop(registry);
        self.tell(target, &WorkerEvent::Connected);
    }

    pub(crate) fn worker_gone(&self, target: &str, peer: &Arc<Peer>, reason: String) {
        let mut registry = lock(&self.0.registry);
        if !registry
            .workers
            .get(target)
            .is_some_and(|current| Arc::ptr_eq(current, peer))
        {
            return;
        }
        registry.workers.remove(target);
        registry.lose_routes(target);
        drop(registry);
        self.tell(target, &WorkerEvent::Disconnected { reason });
    }

    /// A worker's services changed: its clients are told.
    pub(crate) fn worker_services(&self, target: &str, payload: &Bytes) {
        let registry = lock(&self.0.registry);
        for client in registry.bound_to(target) {
            let entry = &registry.clients[&client];
            if let Some(route) = entry.bound.as_ref().and_then(|bound| bound.route) {
                entry
                    .peer
                    .send(&Header::of(Kind::Services, 0, Some(route)), payload.clone());
            }
        }
    }

    fn tell(&self, target: &str, event: &WorkerEvent) {
        let watchers = lock(&self.0.watchers).worker.clone();
        for watcher in watchers {
            if catch_unwind(AssertUnwindSafe(|| watcher(target, event))).is_err() {
                tracing::error!(target_id = target, "a worker watcher panicked");
            }
        }
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registry = lock(&self.0.registry);
        formatter
            .debug_struct("Router")
            .field("clients", &registry.clients.len())
            .field("workers", &registry.workers.len())
            .finish()
    }
}
