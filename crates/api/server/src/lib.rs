//! What a server facet may touch.
//!
//! A server facet is set up once per server and shared by every session and presentation that connects
//! to it. Its [`ServerContext`] is a [`FacetScope`] (services, state, events, lifetime) and beside that:
//!
//! - [`Fleet`]: the sessions of this server and which client is attached to which;
//! - [`Upkeep`]: their files, to take in, pack, check and measure;
//! - policy, as ordered contributions: [`AuthenticationDraft`], [`AuthorizationDraft`] and
//!   [`WorkerPolicyDraft`];
//! - [`HostStatus`]: the server itself, to look at.
//!
//! A manifest may grant three capabilities more: [`WORKERS_GRANT`] for [`WorkerProcesses`], [`STOP_GRANT`]
//! for [`Shutdown`], [`CONNECTIONS_GRANT`] for [`Connections`]. Built-ins have no other way to them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bezel_api_server::{Access, ServerContext, Verdict, WorkerPolicy};
//! use bezel_context::{ClientId, Context};
//! use bezel_session_types::SessionId;
//!
//! async fn facet(cx: ServerContext, call: Context, client: ClientId, of: SessionId) {
//!     for session in cx.fleet.managed.snapshot() {
//!         println!("{} is {:?}", session.title, session.status);
//!     }
//!     if let Err(error) = cx.fleet.attachments.bind(&call, &client, &of).await {
//!         println!("{error}");
//!     }
//!     println!("{} workers", cx.status.counts().workers);
//!     cx.authentication.add(|draft| draft.set("badge", Arc::new(|_| Verdict::Unrecognised)));
//!     cx.authorization.add(|draft| draft.set("mine", Arc::new(|_| Access::NoOpinion)));
//!     cx.workers.add(|draft| draft.set(WorkerPolicy::default()));
//!     match cx.processes() {
//!         Ok(workers) => println!("{}", workers.kill(&of)),
//!         Err(missing) => println!("{missing}"),
//!     }
//!     match cx.shutdown() {
//!         Ok(server) => server.request(),
//!         Err(missing) => println!("{missing}"),
//!     }
//!     match cx.connections() {
//!         Ok(connections) => println!("{} are connected", connections.principals().len()),
//!         Err(missing) => println!("{missing}"),
//!     }
//! }
//! ```
//!
//! # Walls
//!
//! The raw records and what stores them stay with the host:
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.fleet.managed.backend;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.fleet.managed.records();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.fleet.managed.database();
//! }
//! ```
//!
//! so do the routing and its table:
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.fleet.attachments.backend;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.fleet.attachments.router();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext, of: &bezel_session_types::SessionId) {
//!     cx.fleet.attachments.of(of);
//! }
//! ```
//!
//! the worker processes and the end of the server, unless they are granted:
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.processes;
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext, of: &bezel_session_types::SessionId) {
//!     cx.fleet.managed.kill(of);
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.control;
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.connections;
//! }
//! ```
//!
//! the registries as a whole:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.authentication.open();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.authorization.current();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.workers.clear();
//! }
//! ```
//!
//! and the secrets that credentials are measured against:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_server::ServerContext) {
//!     cx.local_token();
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(attempt: bezel_api_server::Attempt) {
//!     attempt.presented;
//! }
//! ```
//!
//! A context comes from a host alone:
//!
//! ```compile_fail,E0451
//! fn forge(cx: bezel_api_server::ServerContext) -> bezel_api_server::ServerContext {
//!     bezel_api_server::ServerContext { ..cx }
//! }
//! ```

use std::ops::Deref;
use std::sync::Arc;

use bezel_plugin::{Contributions, FacetScope};

mod children;
mod connections;
mod control;
mod fleet;
#[doc(hidden)]
pub mod host;
mod policy;
mod reading;
mod session;
mod upkeep;

pub use children::{ChildLaunch, ChildWish, Children};
pub use connections::{CONNECTIONS_GRANT, Connections};
pub use control::{
    HostStatus, NotGranted, STOP_GRANT, ServerCounts, Shutdown, WORKERS_GRANT, WorkerProcess,
    WorkerProcesses,
};
pub use fleet::{Attachments, Fleet, FleetError, ManagedSessions};
pub use policy::{
    Access, AccessRequest, Attempt, AuthenticationDraft, AuthenticationMethod,
    AuthenticationPolicy, AuthorizationDraft, AuthorizationPolicy, AuthorizationRule, Granted,
    IssuedCredential, Presented, Restart, Resume, Verdict, WorkerPolicy, WorkerPolicyDraft,
};
pub use session::{
    Commit, CreateManaged, LaunchEnvironment, ManagedSession, SessionChange, SessionStatus,
    Workspace,
};
pub use upkeep::{ImportManaged, Upkeep};

/// A server facet's bindings.
#[derive(Clone)]
pub struct ServerContext {
    scope: FacetScope,
    /// The sessions of this server and their attachments.
    pub fleet: Fleet,
    /// Their files.
    pub upkeep: Upkeep,
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
    connections: Arc<dyn host::ConnectionBackend>,
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

    /// The connected presentations, where the manifest grants [`CONNECTIONS_GRANT`].
    pub fn connections(&self) -> Result<Connections, NotGranted> {
        self.granted(CONNECTIONS_GRANT)?;
        Ok(Connections::new(Arc::clone(&self.connections)))
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
