//! The server host: records, workers, attachment, routing.
//!
//! [`ServerHost::start`] assembles the server facets over this host's runtime and accepts connections.
//! What it owns:
//!
//! - *records* of sessions and workspaces, in memory and in one SQLite file that nobody else writes; a
//!   record without a session file is an empty session, a session file without a record is adopted;
//! - *workers*, one per session, launched on demand through a [`WorkerLauncher`], each with a credential
//!   of its own that is valid until it ends; a launch environment is passed on and kept nowhere;
//! - *connections*: who they speak for is decided by contributed policy, where their frames go by the
//!   router of `rpc`, which reads headers alone.
//!
//! It knows no address, no socket and no process: [`Listener`] and [`WorkerLauncher`] are given to it.

mod authenticate;
mod blocking;
mod errand;
mod feed;
mod fleet;
mod launch;
mod lock;
mod options;
mod reading;
mod records;
mod running;
mod status;
mod upkeep;
mod workers;
mod workspace;

pub use errand::{Errand, ErrandOutcome};
pub use launch::{
    LaunchError, LaunchedWorker, WorkerCredential, WorkerExit, WorkerLauncher, WorkerStart,
};
pub use lock::LockError;
pub use options::{Clock, Listener, LocalToken, ServerOptions, ServerPaths};
pub use records::RecordsError;
pub use running::{RunningServer, ServerHost, ServerStartError};
pub use status::ExitReason;
