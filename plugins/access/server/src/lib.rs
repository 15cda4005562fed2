//! Remote access: who may connect beside the owner's own clients.
//!
//! - A *pairing code* works once, for five minutes, and lives in memory alone. It is shown as the
//!   credential of a hello; what it gives is a client of its own, whose *token* the welcome brings. There is
//!   no other channel for either.
//! - A *token* is 256 random bits; only its digest is kept, in a file for the user alone. It gives what its
//!   code gave: scopes and workspaces that its maker had, or fewer.
//! - *Taking access back* ends the client's connections at once, refuses its token from then on, and does
//!   the same to all whom it let in.
//! - Wrong codes and tokens are counted, by place and in all; too many are not looked at for a minute.
//!
//! It takes the grant `server.connections`, for ending connections.

mod attempts;
mod clients;
mod codes;
mod file;
mod ledger;
mod secret;
mod service;

use std::path::PathBuf;
use std::sync::Arc;

use bezel_access_contract::AccessClient;
use bezel_api_server::{Attempt, AuthenticationMethod, ServerContext, Verdict};
use bezel_plugin::{Facet, FacetError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Deserialize;

use crate::ledger::{Ledger, Reach};
use crate::service::Service;

/// The plugin's name in a manifest.
pub const ID: &str = "access";

/// The plugin's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the paired clients are kept; none for as long as the server lives.
    pub file: Option<PathBuf>,
}

/// The facet.
pub fn facet() -> Facet<ServerContext> {
    Facet::new(ID, set_up)
        .configured::<Settings>()
        .provides::<AccessClient>()
}

async fn set_up(cx: ServerContext) -> Result<(), FacetError> {
    let Settings { file } = cx.config()?;
    let clients = match file.clone() {
        Some(file) => tokio::task::spawn_blocking(move || file::read(&file)).await??,
        None => clients::Clients::default(),
    };
    let reach = Reach {
        file,
        status: cx.status.clone(),
        connections: cx.connections()?,
        spawner: cx.spawner().clone(),
    };
    let ledger = Ledger::new(clients, reach);
    let method: Arc<dyn AuthenticationMethod> = Arc::new(Paired(ledger.clone()));
    cx.authentication
        .add(move |draft| draft.set("paired", Arc::clone(&method)));
    // One that was let in before a revocation and comes after it.
    let late = ledger.clone();
    cx.status.on_changed(move |_| late.end_revoked());
    let managed = cx.fleet.managed.clone();
    cx.provide(AccessClient::new(Service { ledger, managed }));
    Ok(())
}

/// Recognises codes and tokens.
struct Paired(Ledger);

impl AuthenticationMethod for Paired {
    fn authenticate(&self, attempt: Attempt) -> BoxFuture<'static, Verdict> {
        let ledger = self.0.clone();
        async move { ledger.judge(attempt).await }.boxed()
    }
}
