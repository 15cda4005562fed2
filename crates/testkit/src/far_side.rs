//! Services of a test on the other side of a real connection, for one principal or several.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_context::{ClientId, Context, Principal, Scopes, TaskScope, Workspaces};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Credential, ErrorCode, Hello, Limits,
    Link, PeerIdentity, ProvideError, Refusal, Remote, Role, Router, ServiceClient, ServiceTable,
};
use futures::future::BoxFuture;

/// A host that provides what the test says, and connections to it. All of it lives in this process, but
/// every call, value and event is written, sent and read.
pub struct FarSide {
    table: ServiceTable,
    router: Router,
    acceptor: Acceptor,
    known: Arc<Known>,
    links: Mutex<Vec<Link>>,
    tasks: TaskScope,
}

impl FarSide {
    /// A host that provides nothing yet.
    pub fn new() -> Self {
        let (table, router, known) = (
            ServiceTable::new(),
            Router::new(),
            Arc::new(Known::default()),
        );
        table.activate();
        let authenticate: Arc<dyn Authenticate> = Arc::<Known>::clone(&known);
        let acceptor = Acceptor::new(
            table.clone(),
            authenticate,
            router.clone(),
            Limits::default(),
        );
        FarSide {
            table,
            router,
            acceptor,
            known,
            links: Mutex::default(),
            tasks: TaskScope::new(),
        }
    }

    /// A host that provides `service`, and a handle to it over a connection that may do everything.
    pub async fn of<S: ServiceClient>(service: &S) -> Result<(Self, S), ProvideError> {
        let far = FarSide::new();
        far.provide(service)?;
        let remote = far.connect(FarSide::principal("owner")).await;
        Ok((far, remote.use_service()))
    }

    /// Provides a service.
    pub fn provide<S: ServiceClient>(&self, service: &S) -> Result<(), ProvideError> {
        self.table.provide(service.exposed())
    }

    /// Takes a service away, as the end of its plugin does.
    pub fn withdraw<S: ServiceClient>(&self) -> bool {
        self.table.withdraw(S::ID)
    }

    /// Somebody who may do everything in all of its own workspaces.
    pub fn principal(owner: &str) -> Principal {
        Principal {
            // The acceptor names its connections itself.
            client: ClientId::new(""),
            owner: owner.to_owned(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        }
    }

    /// Connects as `principal`, and waits until that is done.
    pub async fn connect(&self, principal: Principal) -> Remote {
        let token = self.known.add(principal);
        let hello = Hello {
            role: Role::Presentation,
            product_version: "test".into(),
            credential: Credential::token(token),
        };
        let connect = self.acceptor.local(PeerIdentity::local());
        let link = Link::start(&self.tasks.spawner(), connect, hello, ServiceTable::new());
        link.settled(&Context::background())
            .await
            .expect("there is no deadline");
        let remote = link.server();
        lock(&self.links).push(link);
        remote
    }

    /// Breaks every connection. They come back by themselves; [`FarSide::restored`] waits for that.
    pub async fn cut(&self) {
        let links = lock(&self.links).clone();
        for link in links {
            if let Some(client) = link.client_id() {
                self.router.disconnect_client(&client);
            }
            let lost = link.connection();
            lost.wait_for(&Context::background(), |state| !state.is_connected())
                .await
                .expect("there is no deadline");
        }
    }

    /// Waits until every connection is up.
    pub async fn restored(&self) {
        let links = lock(&self.links).clone();
        for link in links {
            link.settled(&Context::background())
                .await
                .expect("there is no deadline");
        }
    }
}

impl Default for FarSide {
    fn default() -> Self {
        FarSide::new()
    }
}

/// Who the test let in, by what stands in for a secret.
#[derive(Default)]
struct Known(Mutex<BTreeMap<String, Principal>>);

impl Known {
    fn add(&self, principal: Principal) -> String {
        let mut known = lock(&self.0);
        let token = format!("visitor-{}", known.len());
        known.insert(token.clone(), principal);
        token
    }
}

impl Authenticate for Known {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let principal = hello
            .credential
            .reveal()
            .and_then(|token| lock(&self.0).get(token).cloned());
        Box::pin(async {
            let principal = principal.ok_or_else(|| {
                Refusal::new(
                    ErrorCode::NotAuthorized,
                    "the test does not know this token",
                )
            })?;
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
