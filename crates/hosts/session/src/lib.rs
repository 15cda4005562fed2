//! The session host: owns the harness of one session and hands session facets their bindings.
//!
//! It opens the session's database, assembles the facets over it, connects to the server once they are
//! active, and goes on with what a crash left open. The harness and the facets meet only here.

mod backend;
mod events;
mod gate;
mod hooks;
mod lane;
mod requests;
mod sources;
mod start;

pub use bezel_api_session::SessionIdentity;
pub use bezel_harness::{HarnessConfig, RetryConfig};
pub use start::{RunningSession, SessionHost, SessionHostOptions, StartError};

/// Sessions' files, apart from any session that runs.
pub mod upkeep {
    pub use bezel_harness::{
        ImportError, ImportPlace, PackageError, PackageFacts, check, export, import,
    };
}
