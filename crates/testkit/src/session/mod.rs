//! One session facet alone: its real bindings over a session that the test plays.

mod agent;
mod requests;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bezel_api_session::{
    FoundSession, Lifecycle, Opening, PromptDraft, ProviderDraft, ProviderSet, SessionContext,
    SessionFacet, SessionParts, SystemPrompt, ToolDraft, ToolSet,
};
use bezel_context::{ClientId, Context, Principal, Scopes, TaskScope, Workspaces};
use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, Failure, Grant, Manifest, ManifestEntry,
    Registry, assemble,
};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Credential, Hello, Limits, Link,
    PeerIdentity, Refusal, Remote, Role, Router, ServiceTable,
};
use bezel_session_types::SessionId;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

pub use agent::{FakeAgent, SentPrompt};

/// Facets under test, assembled as a session host assembles them, and a client of their services.
pub struct FakeSession {
    /// The session that the test plays.
    pub agent: Arc<FakeAgent>,
    /// What the facets contribute as tools.
    pub tools: Registry<ToolDraft>,
    /// What the facets contribute as providers.
    pub providers: Registry<ProviderDraft>,
    /// What the facets contribute to the system prompt.
    pub prompt: Registry<PromptDraft>,
    /// The services that the "server" of this session offers: a test may provide fakes here beforehand.
    pub server: ServiceTable,
    /// What the facets offer to presentations.
    pub table: ServiceTable,
    tree: Arc<tree::Alone>,
    assembled: Assembled,
    client: Link,
    up: Link,
    // Connections last as long as their acceptors.
    _acceptors: [Acceptor; 2],
    _tasks: TaskScope,
}

/// How facets under test are started.
#[derive(Default)]
pub struct FakeSessionOptions {
    /// Configuration per plugin.
    pub config: BTreeMap<&'static str, Value>,
    /// Grants per plugin.
    pub grants: BTreeMap<&'static str, Vec<&'static str>>,
    /// Variables of the shell that started the session.
    pub environment: BTreeMap<String, String>,
    /// The session that began this one.
    pub parent_id: Option<SessionId>,
    /// Services of the server.
    pub server: ServiceTable,
    /// Plays with the session before the facets are set up.
    pub prepare: Option<Prepare>,
}

/// Plays with a fake session before its facets are set up.
pub type Prepare = Box<dyn FnOnce(&FakeAgent) + Send>;

impl FakeSession {
    /// Sets up and activates `facets` in this order, each required, in `directory`.
    pub async fn start(
        facets: Vec<SessionFacet>,
        directory: &Path,
        options: FakeSessionOptions,
    ) -> Result<Self, AssemblyError> {
        let tasks = TaskScope::new();
        let agent = FakeAgent::new(directory, options.environment, options.parent_id);
        if let Some(prepare) = options.prepare {
            prepare(&agent);
        }
        let server = options.server;
        server.activate();
        let (up, up_acceptor) = link(&tasks, &server);
        let table = ServiceTable::new();
        let tools = Registry::new(ToolSet::default());
        let providers = Registry::new(ProviderSet::default());
        let prompt = Registry::new(SystemPrompt::default());
        let lifecycle = Lifecycle::default();
        let backend = Arc::new(agent::Backend(Arc::clone(&agent)));
        let tree = Arc::new(tree::Alone::new(Arc::clone(&backend) as Arc<_>));
        let parts = SessionParts {
            backend,
            lifecycle: lifecycle.clone(),
            opening: Opening::default(),
            tree: Arc::clone(&tree) as Arc<_>,
            server: up.server(),
            connection: up.connection(),
            table: table.clone(),
            tools: tools.clone(),
            providers: providers.clone(),
            prompt: prompt.clone(),
        };
        let entries = facets.iter().map(|facet| {
            let id = facet.plugin().as_str();
            let mut entry = ManifestEntry::required(id, "1.0.0");
            entry.config = options.config.get(id).cloned().unwrap_or_default();
            let grants = options.grants.get(id).into_iter().flatten();
            entry.grants = grants.map(|grant| Grant::new(*grant)).collect();
            entry
        });
        let (open_tools, open_providers, open_prompt) =
            (tools.clone(), providers.clone(), prompt.clone());
        let assembled = assemble(AssembleOptions {
            manifest: Manifest {
                plugins: entries.collect(),
            },
            facets,
            table: table.clone(),
            context: Arc::new(move |scope| SessionContext::new(scope, &parts)),
            before_activation: Box::new(move || {
                open_providers.open();
                open_tools.open();
                open_prompt.open();
            }),
            deadlines: Deadlines::default(),
        })
        .await?;
        let found = FoundSession::New;
        let deadline = Deadlines::default().activation;
        lifecycle
            .start(&Context::background(), found, deadline)
            .await;
        table.activate();
        let (client, client_acceptor) = link(&tasks, &table);
        Ok(FakeSession {
            agent,
            tools,
            providers,
            prompt,
            server,
            table,
            tree,
            assembled,
            client,
            up,
            _acceptors: [up_acceptor, client_acceptor],
            _tasks: tasks,
        })
    }

    /// Has these children live in the session's process, and no other. They do nothing.
    pub fn host_children(&self, children: &[&str]) {
        self.tree.host(children);
    }

    /// Resolves once the presentation's connection stands, for tests that begin with a call.
    pub async fn connected(&self) {
        let settled = self.client.settled(&Context::background()).await;
        settled.expect("a connection over loopback stands");
    }

    /// The facets' services as a presentation reaches them: over a connection.
    pub fn remote(&self) -> Remote {
        self.client.server()
    }

    /// Removes one plugin as a host does.
    pub async fn remove(&mut self, plugin: &str) -> Vec<Failure> {
        self.assembled.remove(plugin).await
    }

    /// Ends the facets. Returns every failed disposer.
    pub async fn stop(self) -> Vec<Failure> {
        let failures = self.assembled.dispose().await;
        self.client.stop().await;
        self.up.stop().await;
        failures
    }
}

/// A connection to `table` over loopback, for a client that may do everything.
fn link(tasks: &TaskScope, table: &ServiceTable) -> (Link, Acceptor) {
    let acceptor = Acceptor::new(
        table.clone(),
        Arc::new(Everyone),
        Router::new(),
        Limits::default(),
    );
    let connect = acceptor.local(PeerIdentity::local());
    let hello = Hello {
        role: Role::Presentation,
        product_version: "test".into(),
        credential: Credential::none(),
    };
    (
        Link::start(&tasks.spawner(), connect, hello, ServiceTable::new()),
        acceptor,
    )
}

/// Lets everyone in, as the owner.
struct Everyone;

impl Authenticate for Everyone {
    fn authenticate<'a>(
        &'a self,
        _hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        async {
            let principal = Principal {
                client: ClientId::new("client-under-test"),
                owner: "owner".into(),
                workspaces: Workspaces::All,
                scopes: Scopes::all(),
                credential: None,
            };
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        }
        .boxed()
    }
}
