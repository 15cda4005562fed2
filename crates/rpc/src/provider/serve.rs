//! Calls and subscriptions of one connection's clients: the peer itself, and those routed through it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context as Poller, Poll};

use bezel_context::{Principal, Spawner};
use bytes::Bytes;
use tokio::time::Instant;

use super::client::Client;
use super::publish::{Publisher, send_failure};
use super::table::ServiceTable;
use crate::descriptor::ServiceSummary;
use crate::limits::Limits;
use crate::sync::lock;
use crate::wire::{Header, Kind, Outbox};

/// Serves a [`ServiceTable`] over one connection.
pub(crate) struct Provider {
    pub(super) table: ServiceTable,
    pub(super) publisher: Arc<Publisher>,
    pub(super) spawner: Spawner,
    pub(super) limits: Limits,
    pub(super) clients: Mutex<HashMap<Option<u64>, Arc<Client>>>,
    /// The client that frames without a route come from: the peer itself.
    direct: OnceLock<Arc<Client>>,
    /// What the peer was told of the table.
    told: Mutex<Told>,
}

/// What a peer was told of a table.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) services: Vec<ServiceSummary>,
    /// That it is active, or that it need not be told: only a server has to know it, of its workers.
    pub(crate) active: bool,
}

impl Default for Told {
    fn default() -> Self {
        Told {
            services: Vec::new(),
            active: true,
        }
    }
}

impl Told {
    /// All services.
    pub(crate) fn of(table: &ServiceTable) -> Self {
        Told {
            services: table.descriptors(),
            ..Told::default()
        }
    }

    /// As a worker tells its server: while it is not active it has none.
    pub(crate) fn of_worker(table: &ServiceTable) -> Self {
        match table.is_active() {
            true => Told::of(table),
            false => Told {
                active: false,
                ..Told::default()
            },
        }
    }
}

impl Provider {
    /// Serves `table`; `peer` is whom frames without a route speak for.
    pub(crate) fn new(
        table: ServiceTable,
        outbox: Outbox,
        spawner: Spawner,
        limits: Limits,
        peer: Principal,
        told: Told,
    ) -> Arc<Self> {
        let provider = Arc::new(Provider {
            table,
            publisher: Publisher::new(outbox, limits.message),
            spawner,
            limits,
            clients: Mutex::default(),
            direct: OnceLock::new(),
            told: Mutex::new(told),
        });
        let direct = Client::new(None, peer);
        lock(&provider.clients).insert(None, Arc::clone(&direct));
        provider.direct.get_or_init(|| direct);
        provider.table.register(Arc::downgrade(&provider));
        provider
    }

    fn client(&self, route: Option<u64>) -> Option<Arc<Client>> {
        match route {
            None => self.direct.get().map(Arc::clone),
            Some(_) => lock(&self.clients).get(&route).map(Arc::clone),
        }
    }

    /// Takes a frame that a consumer sends; answers whether the kind is one of those.
    pub(crate) fn take(self: &Arc<Self>, header: &Header<'_>, payload: &Bytes) -> bool {
        if !matches!(
            header.kind,
            Kind::Call
                | Kind::Cancel
                | Kind::Subscribe
                | Kind::Unsubscribe
                | Kind::Credit
                | Kind::Release
        ) {
            return false;
        }
        // Frames of a closed attachment are dropped.
        let Some(client) = self.client(header.route) else {
            return true;
        };
        match header.kind {
            Kind::Call => {
                if let Err(failure) = self.call(&client, header, payload) {
                    send_failure(&self.publisher, Kind::Err, header.id, header.route, failure);
                }
            }
            Kind::Cancel => {
                let handle = lock(&client.inner).calls.remove(&header.id);
                if let Some(handle) = handle {
                    handle.cancel();
                }
            }
            Kind::Subscribe => {
                if let Err(error) = self.subscribe(&client, header) {
                    send_failure(
                        &self.publisher,
                        Kind::Closed,
                        header.id,
                        header.route,
                        error.into(),
                    );
                }
            }
            Kind::Unsubscribe => {
                let mut running = lock(&client.inner);
                running.held.retain(|held| held.id != header.id);
                let served = running.subscriptions.remove(&header.id);
                drop(running);
                if let Some(served) = served {
                    served.end();
                }
            }
            Kind::Credit => {
                let served = lock(&client.inner)
                    .subscriptions
                    .get(&header.id)
                    .map(Arc::clone);
                if let Some(served) = served {
                    served.credit(header.credit.unwrap_or(0));
                }
            }
            _ => {
                if let Some(reference) = header.reference {
                    self.release(&client, reference);
                }
            }
        }
        true
    }

    /// Tells the peer which services there are and that the host is active, unless it knows. A server is told of
    /// its worker's services once that one is active: nobody is attached to it before.
    pub(crate) fn announce(&self) {
        // Held while sending, so that the last list sent is the last one made.
        let mut told = lock(&self.told);
        let activates = !told.active;
        if activates && !self.table.is_active() {
            return;
        }
        let services = self.table.descriptors();
        if told.services != services {
            match serde_json::to_vec(&services) {
                Ok(payload) => self
                    .publisher
                    .send(&Header::new(Kind::Services), payload.into()),
                Err(error) => tracing::error!(%error, "the service descriptors have no JSON form"),
            }
            told.services = services;
        }
        if activates {
            self.send(&Header::new(Kind::Active));
            told.active = true;
        }
    }

    /// Sends a frame of the connection itself.
    pub(crate) fn send(&self, header: &Header<'_>) {
        self.publisher.send(header, Bytes::new());
    }

    /// A client is routed to this host from now on.
    pub(crate) fn attach(&self, route: u64, principal: Principal) {
        let client = Client::new(Some(route), principal);
        lock(&self.clients).insert(Some(route), Arc::clone(&client));
        self.table
            .announce_attach(&client.principal.client, &client.principal, true);
    }

    /// A routed client has gone: its calls are cancelled, its subscriptions closed.
    pub(crate) fn detach(&self, route: u64) {
        let Some(client) = lock(&self.clients).remove(&Some(route)) else {
            return;
        };
        client.leave();
        self.table
            .announce_attach(&client.principal.client, &client.principal, false);
    }

    /// The connection has ended.
    pub(crate) fn close(&self) {
        let clients = std::mem::take(&mut *lock(&self.clients));
        for client in clients.values() {
            client.leave();
            if client.route.is_some() {
                self.table
                    .announce_attach(&client.principal.client, &client.principal, false);
            }
        }
    }

    /// When [`Provider::flush`] is due next.
    pub(crate) fn poll_due(&self, poller: &mut Poller<'_>) -> Poll<Instant> {
        self.publisher.poll_due(poller)
    }

    /// Sends the snapshots that there is room for by now; answers whether there were any.
    pub(crate) fn start_waiting(&self) -> bool {
        self.publisher.start_waiting()
    }

    /// Sends the changes that waited for more of their kind.
    pub(crate) fn flush(&self) {
        self.publisher.flush();
    }
}
