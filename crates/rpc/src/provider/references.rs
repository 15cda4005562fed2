//! References that a client holds: given with results, given back, expired.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::CancelGuard;

use super::client::Client;
use super::serve::Provider;
use crate::error::{ErrorCode, RpcError};
use crate::service::{Exposed, completed};
use crate::sync::lock;
use crate::wire::{Header, Kind};

/// A complete object may still be read for this long.
const GRACE: Duration = Duration::from_secs(5 * 60);

/// One client's references, by ids that are its own and never used twice.
#[derive(Default)]
pub(super) struct References {
    last: u64,
    /// Calls that run and may each end in one more.
    promised: usize,
    held: HashMap<u64, Granted>,
}

/// One object that the client may call.
pub(super) struct Granted {
    exposed: Exposed,
    /// The service that it came from: it goes with that.
    service: &'static str,
    /// Ends the wait for its completion.
    _watch: Option<CancelGuard>,
}

/// Room for one reference, kept free while the call that may return it runs.
pub(super) struct Room(Arc<Client>);

impl Room {
    /// Keeps room for one more, or says that there is none.
    pub(super) fn reserve(client: &Arc<Client>, most: usize) -> Result<Self, RpcError> {
        let mut running = lock(&client.inner);
        let references = &mut running.references;
        if references.held.len() + references.promised >= most {
            let text = format!(
                "this client holds {} references; give some back first",
                references.held.len() + references.promised
            );
            return Err(RpcError::new(ErrorCode::ResourceExhausted, text));
        }
        references.promised += 1;
        Ok(Room(Arc::clone(client)))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        lock(&self.0.inner).references.promised -= 1;
    }
}

impl References {
    /// The object behind `id` and the service that it came from.
    pub(super) fn find(&self, id: u64) -> Result<(Exposed, &'static str), RpcError> {
        match self.held.get(&id) {
            Some(granted) => Ok((granted.exposed.clone(), granted.service)),
            None => Err(stale()),
        }
    }

    /// Forgets all; what is returned is to be dropped without the lock, for objects may do anything then.
    pub(super) fn clear(&mut self) -> HashMap<u64, Granted> {
        std::mem::take(&mut self.held)
    }
}

impl Provider {
    /// Gives the client a reference to `exposed`, in the room that the call kept; `None`: the client has gone.
    pub(super) fn grant(
        self: &Arc<Self>,
        client: &Arc<Client>,
        service: &'static str,
        exposed: Exposed,
        room: Room,
    ) -> Option<u64> {
        let completion = exposed
            .dispatch()
            .and_then(|dispatch| dispatch.completion());
        let watch = completion.map(|completion| (completion, client.context.with_cancel()));
        let mut running = lock(&client.inner);
        if running.gone {
            return None;
        }
        let references = &mut running.references;
        references.last += 1;
        let id = references.last;
        let (waiting, guard) = match watch {
            Some((completion, (cx, cancel))) => (Some((completion, cx)), Some(cancel.drop_guard())),
            None => (None, None),
        };
        let granted = Granted {
            exposed,
            service,
            _watch: guard,
        };
        references.held.insert(id, granted);
        drop(running);
        drop(room);
        if self.table.find(service).is_err() {
            // The service was withdrawn while the call ran.
            self.release(client, id);
        }
        if let Some((completion, cx)) = waiting {
            let (provider, client) = (Arc::downgrade(self), Arc::downgrade(client));
            drop(self.spawner.spawn("rpc reference", async move {
                if completed(&cx, &completion).await
                    && cx.run(tokio::time::sleep(GRACE)).await.is_ok()
                    && let (Some(provider), Some(client)) = (provider.upgrade(), client.upgrade())
                {
                    provider.release(&client, id);
                }
            }));
        }
        Some(id)
    }

    /// The client gave a reference back, or its grace period is over: what follows it ends.
    pub(super) fn release(&self, client: &Client, id: u64) {
        let mut running = lock(&client.inner);
        let Some(granted) = running.references.held.remove(&id) else {
            return;
        };
        let ended: Vec<_> = running
            .subscriptions
            .extract_if(|_, served| served.reference == Some(id))
            .collect();
        drop(running);
        for (_, served) in ended {
            served.close(stale());
        }
        drop(granted);
    }

    /// A service was withdrawn: what it gave out goes with it.
    pub(super) fn release_of_service(&self, client: &Client, service: &str) {
        let gone: Vec<_> = lock(&client.inner)
            .references
            .held
            .extract_if(|_, granted| granted.service == service)
            .collect();
        drop(gone);
    }
}

/// The answer to a call whose result is a reference.
pub(super) fn granted(id: u64, route: Option<u64>, reference: u64) -> Header<'static> {
    Header {
        reference: Some(reference),
        ..Header::of(Kind::Ok, id, route)
    }
}

fn stale() -> RpcError {
    RpcError::new(
        ErrorCode::StaleReference,
        "this reference was given back or has expired; ask its service for a new one",
    )
}
