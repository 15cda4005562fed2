//! One client of a provider, and what it has open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bezel_context::{CancelHandle, ClientId, Context, Principal};
use serde::{Deserialize, Serialize};

use super::references::References;
use super::served::Served;
use crate::error::{ErrorCode, RpcError};
use crate::sync::lock;

/// One client: its principal, what it runs, what it follows.
pub(super) struct Client {
    pub(super) route: Option<u64>,
    pub(super) principal: Arc<Principal>,
    /// Parent of every call's context; cancelled when the client goes.
    pub(super) context: Context,
    cancel: CancelHandle,
    pub(super) inner: Mutex<Running>,
}

#[derive(Default)]
pub(super) struct Running {
    pub(super) calls: HashMap<u64, CancelHandle>,
    pub(super) subscriptions: HashMap<u64, Arc<Served>>,
    /// Subscriptions from before the host was activated.
    pub(super) held: Vec<Held>,
    pub(super) references: References,
    pub(super) gone: bool,
}

pub(super) struct Held {
    pub(super) id: u64,
    pub(super) service: String,
    pub(super) window: u64,
}

/// What the router tells a worker about a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttachPayload {
    pub principal: Principal,
}

impl Client {
    pub(super) fn new(route: Option<u64>, principal: Principal) -> Arc<Self> {
        let principal = Arc::new(principal);
        let (context, cancel) = Context::background()
            .with_principal(Arc::clone(&principal))
            .with_cancel();
        Arc::new(Client {
            route,
            principal,
            context,
            cancel,
            inner: Mutex::default(),
        })
    }

    pub(super) fn leave(&self) {
        let mut running = lock(&self.inner);
        running.gone = true;
        running.calls.clear();
        running.held.clear();
        let references = running.references.clear();
        let subscriptions = std::mem::take(&mut running.subscriptions);
        drop(running);
        self.cancel.cancel();
        for served in subscriptions.values() {
            served.end();
        }
        drop(references);
    }
}

/// Says which scope is missing without saying what the member would have done.
pub(super) fn not_authorized(service: &str, member: &str) -> RpcError {
    RpcError::new(
        ErrorCode::NotAuthorized,
        format!("this client's credential does not allow {service}.{member}"),
    )
}

/// The principal that a worker sees behind its server's own frames.
pub(crate) fn server_principal() -> Principal {
    Principal {
        client: ClientId::new("server"),
        owner: String::new(),
        workspaces: bezel_context::Workspaces::All,
        scopes: bezel_context::Scopes::all(),
        credential: None,
    }
}
