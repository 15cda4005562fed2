//! The services that a host exposes to its peers.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};

use bezel_context::{ClientId, Principal};

use super::serve::Provider;
use crate::descriptor::ServiceSummary;
use crate::error::{ErrorCode, RpcError};
use crate::service::Exposed;
use crate::state::Subscription;
use crate::sync::lock;

/// The allowlist of a host: what is not in it does not exist for a peer. Cheap to clone.
#[derive(Clone, Default)]
pub struct ServiceTable(Arc<Table>);

#[derive(Default)]
struct Table {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    services: BTreeMap<&'static str, Exposed>,
    active: bool,
    ends: bool,
    providers: Vec<Weak<Provider>>,
    attached: Vec<Arc<Watcher>>,
    detached: Vec<Arc<Watcher>>,
}

type Watcher = dyn Fn(&ClientId, &Principal) + Send + Sync;

/// Why a service was not provided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvideError {
    /// The id is taken.
    #[error("service {id} is provided already; a service has one owner")]
    Duplicate {
        /// The service's id.
        id: &'static str,
    },
    /// The handle stands for something elsewhere.
    #[error(
        "service {id} cannot be provided: this handle has no object in this process, and nobody re-provides another host's service"
    )]
    NotLocal {
        /// The service's id.
        id: &'static str,
    },
}

impl ServiceTable {
    /// An empty table, not active.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service; connected peers are told.
    pub fn provide(&self, exposed: Exposed) -> Result<(), ProvideError> {
        let id = exposed.descriptor().id;
        if exposed.dispatch().is_none() {
            return Err(ProvideError::NotLocal { id });
        }
        let mut inner = lock(&self.0.inner);
        if inner.services.contains_key(id) {
            return Err(ProvideError::Duplicate { id });
        }
        inner.services.insert(id, exposed);
        drop(inner);
        self.announce();
        Ok(())
    }

    /// Takes a service away: its subscriptions are closed, running calls may finish. Answers whether it was there.
    pub fn withdraw(&self, id: &str) -> bool {
        if lock(&self.0.inner).services.remove(id).is_none() {
            return false;
        }
        for provider in self.providers() {
            provider.close_service(id);
        }
        if !lock(&self.0.inner).ends {
            self.announce();
        }
        true
    }

    /// The host ends: calls and subscriptions from now on fail with `session_unavailable`, as they do once the
    /// connection is gone, which alone tells peers of it. What runs may finish.
    pub fn end(&self) {
        lock(&self.0.inner).ends = true;
    }

    /// Lets calls in and snapshots out. Before, calls fail with `not_active` and subscriptions wait, and nobody is
    /// attached to a worker that has this table: it is connected, and uses its server's services.
    pub fn activate(&self) {
        lock(&self.0.inner).active = true;
        for provider in self.providers() {
            provider.start_held();
            provider.announce();
        }
    }

    /// Whether [`ServiceTable::activate`] was called.
    pub fn is_active(&self) -> bool {
        lock(&self.0.inner).active
    }

    /// What a peer is told.
    pub fn descriptors(&self) -> Vec<ServiceSummary> {
        lock(&self.0.inner)
            .services
            .values()
            .map(|exposed| exposed.descriptor().summary())
            .collect()
    }

    /// Calls `watcher` for each client that is routed to this host.
    pub fn on_attach(
        &self,
        watcher: impl Fn(&ClientId, &Principal) + Send + Sync + 'static,
    ) -> Subscription {
        let watcher: Arc<Watcher> = Arc::new(watcher);
        lock(&self.0.inner).attached.push(Arc::clone(&watcher));
        let table = Arc::clone(&self.0);
        Subscription::new(move || {
            lock(&table.inner)
                .attached
                .retain(|other| !Arc::ptr_eq(other, &watcher))
        })
    }

    /// Calls `watcher` for each routed client that has gone or chose another target.
    pub fn on_detach(
        &self,
        watcher: impl Fn(&ClientId, &Principal) + Send + Sync + 'static,
    ) -> Subscription {
        let watcher: Arc<Watcher> = Arc::new(watcher);
        lock(&self.0.inner).detached.push(Arc::clone(&watcher));
        let table = Arc::clone(&self.0);
        Subscription::new(move || {
            lock(&table.inner)
                .detached
                .retain(|other| !Arc::ptr_eq(other, &watcher))
        })
    }

    /// A service to call, or why there is none.
    pub(super) fn find(&self, id: &str) -> Result<Exposed, RpcError> {
        let inner = lock(&self.0.inner);
        if !inner.active {
            return Err(RpcError::new(
                ErrorCode::NotActive,
                "the host is still starting; call again once it is active",
            ));
        }
        if inner.ends {
            return Err(RpcError::new(
                ErrorCode::SessionUnavailable,
                format!("the host of {id:.64} ends; call again once it is back"),
            ));
        }
        inner.services.get(id).cloned().ok_or_else(|| {
            RpcError::new(
                ErrorCode::UnknownService,
                format!("there is no service {id:.64}"),
            )
        })
    }

    pub(super) fn register(&self, provider: Weak<Provider>) {
        let mut inner = lock(&self.0.inner);
        inner.providers.retain(|other| other.strong_count() > 0);
        inner.providers.push(provider);
    }

    pub(super) fn announce_attach(&self, client: &ClientId, principal: &Principal, attached: bool) {
        let watchers = {
            let inner = lock(&self.0.inner);
            if attached {
                inner.attached.clone()
            } else {
                inner.detached.clone()
            }
        };
        for watcher in watchers {
            if catch_unwind(AssertUnwindSafe(|| watcher(client, principal))).is_err() {
                tracing::error!(%client, attached, "an attachment watcher panicked");
            }
        }
    }

    fn announce(&self) {
        for provider in self.providers() {
            provider.announce();
        }
    }

    fn providers(&self) -> Vec<Arc<Provider>> {
        lock(&self.0.inner)
            .providers
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

impl std::fmt::Debug for ServiceTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_list()
            .entries(lock(&self.0.inner).services.keys())
            .finish()
    }
}
