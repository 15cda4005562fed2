//! A hosted session's services, for the others of its process: over loopback, as a presentation has them.

use std::sync::Arc;

use bezel_context::{ClientId, Principal, Scopes, Spawner, Workspaces};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Credential, Hello, Limits, Link,
    PeerIdentity, Refusal, Role, Router, ServiceTable,
};
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;

/// A connection to one session's services.
pub(super) struct Services {
    link: Link,
    spawner: Spawner,
    // The connection lasts as long as what accepted it.
    _acceptor: Acceptor,
}

impl Services {
    pub(super) fn open(spawner: &Spawner, session_id: &SessionId, table: &ServiceTable) -> Self {
        let client = ClientId::new(format!("tree-of-{session_id}"));
        let acceptor = Acceptor::new(
            table.clone(),
            Arc::new(OfThisProcess(client)),
            Router::new(),
            Limits::default(),
        );
        let hello = Hello {
            role: Role::Presentation,
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            credential: Credential::none(),
        };
        let connect = acceptor.local(PeerIdentity::local());
        Services {
            spawner: spawner.clone(),
            link: Link::start(spawner, connect, hello, ServiceTable::new()),
            _acceptor: acceptor,
        }
    }

    pub(super) fn link(&self) -> Link {
        self.link.clone()
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let link = self.link.clone();
        // Ends with the root's tasks where those end first.
        drop(
            self.spawner
                .spawn("services of a session", async move { link.stop().await }),
        );
    }
}

/// Nobody else can reach the loopback: it is the process itself, which acts for the session's owner.
struct OfThisProcess(ClientId);

impl Authenticate for OfThisProcess {
    fn authenticate<'a>(
        &'a self,
        _hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let principal = Principal {
            client: self.0.clone(),
            owner: String::new(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        async move {
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        }
        .boxed()
    }
}
