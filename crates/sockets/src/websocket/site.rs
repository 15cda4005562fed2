//! What else a port answers: requests that ask for no connection.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use bezel_rpc::PeerIdentity;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::listen::Place;

/// The paths that belong to a site.
pub(super) const SITE: &str = "/v1/{*rest}";

/// Answers requests under `/v1/`. Requests that name another host or come from a foreign page never reach it.
pub trait Site: Send + Sync + 'static {
    /// Answers one. Dropping the future gives it up: whoever asked has gone.
    fn answer(&self, request: Request, visitor: Visitor) -> BoxFuture<'static, Response>;
}

/// Who asks.
#[derive(Clone)]
pub struct Visitor {
    peer: PeerIdentity,
    standing: Arc<Standing>,
}

impl Visitor {
    /// Where the request came from.
    pub fn peer(&self) -> PeerIdentity {
        self.peer
    }

    pub(super) fn is_let_in(&self) -> bool {
        self.standing.place().is_none()
    }

    /// Says that the request's credential is good: its connection may stay, and makes room for others that
    /// are on their way.
    pub fn let_in(&self) {
        self.standing.let_in();
    }
}

impl std::fmt::Debug for Visitor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Visitor")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// How a connection stands: on its way, with a place among the others, or let in.
pub(super) struct Standing {
    // A plain mutex: held to take what is in it, never across an await.
    place: Mutex<Option<Place>>,
    entered: Notify,
}

impl Standing {
    pub(super) fn new(place: Place) -> Arc<Self> {
        Arc::new(Standing {
            place: Mutex::new(Some(place)),
            entered: Notify::new(),
        })
    }

    pub(super) fn visitor(self: &Arc<Self>, address: IpAddr) -> Visitor {
        Visitor {
            peer: PeerIdentity::network(address),
            standing: Arc::clone(self),
        }
    }

    /// The connection is no longer on its way.
    pub(super) fn let_in(&self) {
        drop(self.place().take());
        self.entered.notify_one();
    }

    /// Ends after `patience`, and never where the connection was let in by then.
    pub(super) async fn overdue(&self, patience: Duration) {
        tokio::select! {
            biased;
            () = self.entered.notified() => std::future::pending().await,
            () = tokio::time::sleep(patience) => {}
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
