//! What a server facet may touch.
//!
//! A server facet is set up once per server and shared by every session and presentation that connects
//! to it. Its [`ServerContext`] is a [`FacetScope`] (services, state, events, lifetime) and beside that:
//!
//! - [`Fleet`]: the sessions of this server and which client is attached to which;
//! - policy, as ordered contributions: [`AuthenticationDraft`], [`AuthorizationDraft`] and
//!   [`WorkerPolicyDraft`];
//! - [`HostStatus`]: the server itself, to look at.
//!
//! Out of reach stay the raw records and what stores them, the worker processes, the routing and its
//! table, and the secrets that credentials are measured against. A manifest may grant two capabilities
//! more: [`WORKERS_GRANT`] for [`WorkerProcesses`], [`STOP_GRANT`] for [`Shutdown`]. Built-ins have no
//! other way to them.

use std::ops::Deref;
use std::sync::Arc;

use bezel_plugin::{Contributions, FacetScope};

mod control;
mod fleet;
#[doc(hidden)]
pub mod host;
mod policy;
mod session;

pub use control::{
    HostStatus, NotGranted, STOP_GRANT, ServerCounts, Shutdown, WORKERS_GRANT, WorkerProcess,
    WorkerProcesses,
};
pub use fleet::{Attachments, Fleet, FleetError, ManagedSessions};
pub use policy::{
    Access, AccessRequest, Attempt, AuthenticationDraft, AuthenticationMethod,
    AuthenticationPolicy, AuthorizationDraft, AuthorizationPolicy, AuthorizationRule, Granted,
    Presented, Restart, Verdict, WorkerPolicy, WorkerPolicyDraft,
};
pub use session::{
    Commit, CreateManaged, LaunchEnvironment, ManagedSession, PermissionMode, SessionChange,
    SessionStatus, Workspace,
};

/// A server facet's bindings.
#[derive(Clone)]
pub struct ServerContext {
    scope: FacetScope,
    /// The sessions of this server and their attachments.
    pub fleet: Fleet,
    /// The server itself, to look at.
    pub status: HostStatus,
    /// Who may connect.
    pub authentication: Contributions<AuthenticationDraft>,
    /// Who may reach what.
    pub authorization: Contributions<AuthorizationDraft>,
    /// How workers are kept.
    pub workers: Contributions<WorkerPolicyDraft>,
    control: Arc<dyn host::ControlBackend>,
    processes: Arc<dyn host::ProcessBackend>,
}

impl Deref for ServerContext {
    type Target = FacetScope;

    fn deref(&self) -> &FacetScope {
        &self.scope
    }
}

impl ServerContext {
    /// The worker processes, where the manifest grants [`WORKERS_GRANT`].
    pub fn processes(&self) -> Result<WorkerProcesses, NotGranted> {
        self.granted(WORKERS_GRANT)?;
        Ok(WorkerProcesses::new(Arc::clone(&self.processes)))
    }

    /// The end of the server, where the manifest grants [`STOP_GRANT`].
    pub fn shutdown(&self) -> Result<Shutdown, NotGranted> {
        self.granted(STOP_GRANT)?;
        Ok(Shutdown::new(Arc::clone(&self.control)))
    }

    fn granted(&self, grant: &'static str) -> Result<(), NotGranted> {
        match self.is_granted(grant) {
            true => Ok(()),
            false => Err(NotGranted {
                plugin: self.plugin().clone(),
                grant,
            }),
        }
    }
}
