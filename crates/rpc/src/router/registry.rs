//! Who is connected, and which client's route leads to which worker.

use std::collections::HashMap;
use std::sync::Arc;

use bezel_context::{ClientId, Principal};
use bytes::Bytes;

use super::RouteError;
use super::peer::Peer;
use crate::connection::AttachmentState;
use crate::provider::AttachPayload;
use crate::sync::lock;
use crate::wire::{Header, Kind};

#[derive(Default)]
pub(super) struct Registry {
    pub(super) last_route: u64,
    pub(super) clients: HashMap<ClientId, ClientEntry>,
    pub(super) workers: HashMap<String, Arc<Peer>>,
    /// Which target's worker a connection is.
    pub(super) worker_clients: HashMap<ClientId, String>,
}

pub(super) struct ClientEntry {
    pub(super) peer: Arc<Peer>,
    pub(super) principal: Principal,
    pub(super) bound: Option<Bound>,
}

pub(super) struct Bound {
    pub(super) target: String,
    /// The incarnation, while the worker is connected.
    pub(super) route: Option<u64>,
}

impl Registry {
    pub(super) fn bound_to(&self, target: &str) -> Vec<ClientId> {
        let bound = |entry: &ClientEntry| {
            entry
                .bound
                .as_ref()
                .is_some_and(|bound| bound.target == target)
        };
        self.clients
            .iter()
            .filter(|(_, entry)| bound(entry))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Opens the route of a bound client, if its target's worker is connected.
    pub(super) fn connect_route(&mut self, client: &ClientId) {
        let Some(entry) = self.clients.get_mut(client) else {
            return;
        };
        let Some(bound) = &mut entry.bound else {
            return;
        };
        let Some(worker) = self.workers.get(&bound.target) else {
            return;
        };
        self.last_route += 1;
        let route = self.last_route;
        bound.route = Some(route);
        lock(&entry.peer.routes).insert(route, worker.outbox.clone());
        lock(&worker.routes).insert(route, entry.peer.outbox.clone());
        let attach = AttachPayload {
            principal: entry.principal.clone(),
        };
        let attach = serde_json::to_vec(&attach).expect("a principal is a plain structure");
        worker.send_beyond(&Header::of(Kind::Attach, 0, Some(route)), attach.into());
        let state = AttachmentState::Attached {
            target: bound.target.clone(),
        };
        entry
            .peer
            .send_attachment(Some(route), &state, Some(&lock(&worker.services)));
    }

    /// Ends a client's attachment at both ends; answers whether there was one.
    pub(super) fn unbind(&mut self, client: &ClientId) -> Result<bool, RouteError> {
        let entry = self
            .clients
            .get_mut(client)
            .ok_or_else(|| RouteError::UnknownClient(client.clone()))?;
        let Some(bound) = entry.bound.take() else {
            return Ok(false);
        };
        if let Some(route) = bound.route {
            lock(&entry.peer.routes).remove(&route);
            if let Some(worker) = self.workers.get(&bound.target) {
                lock(&worker.routes).remove(&route);
                worker.send_beyond(&Header::of(Kind::Detach, 0, Some(route)), Bytes::new());
            }
        }
        Ok(true)
    }

    /// The worker of a target has gone: its clients keep their choice and lose the route.
    pub(super) fn lose_routes(&mut self, target: &str) {
        for client in self.bound_to(target) {
            let Some(entry) = self.clients.get_mut(&client) else {
                continue;
            };
            let Some(bound) = &mut entry.bound else {
                continue;
            };
            let Some(route) = bound.route.take() else {
                continue;
            };
            lock(&entry.peer.routes).remove(&route);
            entry.peer.send_attachment(
                None,
                &AttachmentState::Degraded {
                    target: target.to_owned(),
                },
                None,
            );
        }
    }
}
