//! What the server is doing, and the two capabilities over it that only the manifest grants.

use std::sync::Arc;

use bezel_plugin::{FacetScope, PluginId};
use bezel_session_types::SessionId;

use crate::host::{ControlBackend, ProcessBackend, StatusBackend};

/// The grant for [`WorkerProcesses`].
pub const WORKERS_GRANT: &str = "server.workers";

/// The grant for [`Shutdown`].
pub const STOP_GRANT: &str = "server.stop";

/// A capability that the manifest does not grant to this plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}` needs the grant `{grant}`; add it to `grants` of its manifest entry")]
pub struct NotGranted {
    /// Which plugin.
    pub plugin: PluginId,
    /// Which grant.
    pub grant: &'static str,
}

/// What the server is and how many it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerCounts {
    /// Connected presentations.
    pub clients: u32,
    /// Workers that start or run.
    pub workers: u32,
}

/// The server itself, to look at.
#[derive(Clone)]
pub struct HostStatus {
    backend: Arc<dyn StatusBackend>,
    scope: FacetScope,
}

/// Ends the server.
#[derive(Clone)]
pub struct Shutdown {
    backend: Arc<dyn ControlBackend>,
}

/// The worker processes themselves.
#[derive(Clone)]
pub struct WorkerProcesses {
    backend: Arc<dyn ProcessBackend>,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProcess {
    /// Whose worker.
    pub session_id: SessionId,
    /// Its process; none where it is a thread of this one.
    pub process_id: Option<u32>,
    /// Whether it is connected.
    pub connected: bool,
}

impl HostStatus {
    pub(crate) fn new(backend: Arc<dyn StatusBackend>, scope: FacetScope) -> Self {
        HostStatus { backend, scope }
    }

    /// The product's version.
    pub fn version(&self) -> String {
        self.backend.version()
    }

    /// When the server started.
    pub fn started_at(&self) -> jiff::Timestamp {
        self.backend.started_at()
    }

    /// The time, as the server's records bear it.
    pub fn now(&self) -> jiff::Timestamp {
        self.backend.now()
    }

    /// How many it serves now.
    pub fn counts(&self) -> ServerCounts {
        self.backend.counts()
    }

    /// Calls `listener` whenever the counts change, until the facet ends. It must not wait.
    pub fn on_changed(&self, listener: impl Fn(ServerCounts) + Send + Sync + 'static) {
        let subscription = self.backend.on_changed(Arc::new(listener));
        self.scope.own(subscription);
    }
}

impl Shutdown {
    pub(crate) fn new(backend: Arc<dyn ControlBackend>) -> Self {
        Shutdown { backend }
    }

    /// Asks for the server's orderly end. Returns before that.
    pub fn request(&self) {
        self.backend.request_stop();
    }
}

impl WorkerProcesses {
    pub(crate) fn new(backend: Arc<dyn ProcessBackend>) -> Self {
        WorkerProcesses { backend }
    }

    /// The workers that start or run.
    pub fn list(&self) -> Vec<WorkerProcess> {
        self.backend.processes()
    }

    /// Ends a session's worker at once, whatever it does. False where it has none.
    pub fn kill(&self, session_id: &SessionId) -> bool {
        self.backend.kill(session_id)
    }
}
