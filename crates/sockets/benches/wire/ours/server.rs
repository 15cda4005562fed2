//! The server: authenticates, serves its own service and routes the rest.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use bezel_context::{ClientId, Context, Principal, Scopes, Workspaces};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, ErrorCode, Hello, Limits, PeerIdentity,
    Refusal, Router, ServiceClient as _, ServiceTable,
};
use bezel_sockets::UnixListener;
use futures::future::BoxFuture;

use super::client::{PRESENTATION, WORKER};
use super::contract::{Control, ControlClient};
use super::meter::{Meter, metered};
use crate::process::ready;
use crate::raw::evented::runtime;

/// `counted`: whether it looks at what it receives, which costs a little.
pub fn server(socket: &str, counted: bool) -> Result<()> {
    runtime()?.block_on(async {
        let (router, table) = (Router::new(), ServiceTable::new());
        let received = Arc::new(Meter::default());
        let control = Controls {
            router: router.clone(),
            received: Arc::clone(&received),
        };
        table.provide(ControlClient::new(control).exposed())?;
        table.activate();
        let acceptor = Acceptor::new(table, Arc::new(Tokens), router, Limits::default());
        let listener = UnixListener::bind(socket)?;
        ready()?;
        loop {
            let (transport, peer) = listener.accept().await.context("accept")?;
            let transport = match counted {
                true => metered(transport, &received),
                false => transport,
            };
            acceptor.spawn(transport, peer);
        }
    })
}

struct Controls {
    router: Router,
    /// What all peers sent; state comes from workers alone.
    received: Arc<Meter>,
}

impl Control for Controls {
    async fn attach(&self, cx: &Context, target: String) {
        let principal = cx.principal().expect("every call has its principal");
        if let Err(error) = self.router.bind(&principal.client, &target) {
            tracing::debug!(%error, "a client left while it was attached");
        }
    }

    async fn encodings(&self, _cx: &Context) -> u64 {
        self.received.updates()
    }
}

/// Knows the credentials of this measurement.
struct Tokens;

impl Authenticate for Tokens {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let secret = hello.credential.reveal().unwrap_or_default();
        let role = match secret.strip_prefix(WORKER) {
            Some(target) => Some(AcceptedRole::Worker {
                target: target.to_owned(),
            }),
            None => (hello.credential.matches(PRESENTATION)).then_some(AcceptedRole::Presentation),
        };
        let found = role.map(|role| Authenticated {
            principal: Principal {
                client: ClientId::new("to be given out"),
                owner: "owner".to_owned(),
                workspaces: Workspaces::All,
                scopes: Scopes::all(),
                credential: None,
            },
            role,
            issued: None,
        });
        Box::pin(async {
            found.ok_or_else(|| Refusal::new(ErrorCode::NotAuthorized, "this token is not known"))
        })
    }
}
