//! The context of a session facet.

use std::ops::Deref;
use std::sync::Arc;

use bezel_context::{ClientId, Principal};
use bezel_plugin::{Contributions, FacetScope, Registry};
use bezel_rpc::{ConnectionState, Remote, ServiceTable, State};

use crate::agent::Agent;
use crate::backend::{AgentBackend, TreeBackend};
use crate::catalogue::{ProviderCatalogue, ProviderDraft};
use crate::events::AgentEvents;
use crate::hooks::Hooks;
use crate::lifecycle::Lifecycle;
use crate::opening::Opening;
use crate::prompt::PromptDraft;
use crate::requests::{DurableRequestDefinition, DurableRequests, OpenRequestsError, RequestValue};
use crate::sessions::Sessions;
use crate::tools::ToolDraft;

/// What a session facet may touch.
#[derive(Clone)]
pub struct SessionContext {
    scope: FacetScope,
    table: ServiceTable,
    backend: Arc<dyn AgentBackend>,
    /// The session that this process owns.
    pub agent: Agent,
    /// All sessions: the records of any, actions on those of this worker's tree.
    pub session: Sessions,
    /// Services of the managing server.
    pub server: Remote,
    /// Whether the server can be reached.
    pub connection: State<ConnectionState>,
    /// Tools that the model may call.
    pub tools: Contributions<ToolDraft>,
    /// Model providers.
    pub providers: Contributions<ProviderDraft>,
    /// Sections of the system prompt.
    pub prompt: Contributions<PromptDraft>,
    /// The providers that all contributions add up to.
    pub catalogue: ProviderCatalogue,
}

/// The grant that [`SessionContext::retirement`] needs.
pub const RETIRE: &str = "session.retire";

/// The right to end this worker.
#[derive(Clone)]
pub struct Retirement(Arc<dyn AgentBackend>);

impl Retirement {
    /// Ends the worker in an orderly way, with nothing lost: the next attachment starts another.
    pub fn retire(&self, reason: &str) {
        self.0.retire(reason);
    }
}

/// What a host builds contexts from.
#[doc(hidden)]
#[derive(Clone)]
pub struct SessionParts {
    pub backend: Arc<dyn AgentBackend>,
    pub lifecycle: Lifecycle,
    pub opening: Opening,
    pub tree: Arc<dyn TreeBackend>,
    pub server: Remote,
    pub connection: State<ConnectionState>,
    pub table: ServiceTable,
    pub tools: Registry<ToolDraft>,
    pub providers: Registry<ProviderDraft>,
    pub prompt: Registry<PromptDraft>,
}

impl SessionContext {
    #[doc(hidden)]
    pub fn new(scope: FacetScope, parts: &SessionParts) -> Self {
        let backend = Arc::clone(&parts.backend);
        let hooks = Hooks::new(Arc::clone(&backend), parts.lifecycle.clone(), scope.clone());
        let events = AgentEvents::new(Arc::clone(&backend), scope.clone());
        SessionContext {
            agent: Agent {
                backend: Arc::clone(&backend),
                hooks,
                events,
            },
            session: Sessions::new(
                backend.identity().session_id.clone(),
                Arc::clone(&parts.tree),
                parts.opening.clone(),
                &parts.server,
                parts.connection.clone(),
            ),
            backend,
            server: parts.server.clone(),
            connection: parts.connection.clone(),
            table: parts.table.clone(),
            tools: parts.tools.contributions(&scope),
            providers: parts.providers.contributions(&scope),
            prompt: parts.prompt.contributions(&scope),
            catalogue: ProviderCatalogue(parts.providers.clone()),
            scope,
        }
    }

    /// Binds a declared kind of durable request to this session. What an earlier process left asked is
    /// pending as soon as this returns, so that whoever attaches finds it. Bound twice, it is the same.
    pub fn durable_requests<Request: RequestValue, Response: RequestValue>(
        &self,
        definition: &DurableRequestDefinition<Request, Response>,
    ) -> Result<DurableRequests<Request, Response>, OpenRequestsError> {
        DurableRequests::open(definition, &*self.backend, &self.scope)
    }

    /// The right to end this worker, where the manifest grants `session.retire`.
    pub fn retirement(&self) -> Option<Retirement> {
        self.scope
            .is_granted(RETIRE)
            .then(|| Retirement(Arc::clone(&self.backend)))
    }

    /// Calls `callback` when a client selects this session.
    pub fn on_client_attach(
        &self,
        callback: impl Fn(&ClientId, &Principal) + Send + Sync + 'static,
    ) {
        self.scope.own(self.table.on_attach(callback));
    }

    /// Calls `callback` when a client leaves this session.
    pub fn on_client_detach(
        &self,
        callback: impl Fn(&ClientId, &Principal) + Send + Sync + 'static,
    ) {
        self.scope.own(self.table.on_detach(callback));
    }
}

impl Deref for SessionContext {
    type Target = FacetScope;

    fn deref(&self) -> &FacetScope {
        &self.scope
    }
}
