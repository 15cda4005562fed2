//! The session host: hands one session to an engine and hands session facets their bindings.
//!
//! The engine takes the session up, the server is connected, the facets are assembled over both, and the engine
//! goes on with what a crash left open; from then on the session can be attached to. [`HarnessEngine`] is Bezel's
//! own; the harness and the facets meet only here.

mod backend;
mod engine;
mod events;
mod hooks;
mod lane;
mod requests;
mod sources;
mod start;
mod tree;

pub use bezel_api_session::{SessionFacet, SessionIdentity};
pub use bezel_harness::{HarnessConfig, RetryConfig};
pub use engine::HarnessEngine;
pub use start::{RunningSession, SessionHost, SessionHostOptions, StartError};
pub use tree::{ChildStartError, StartChild, WorkerTree};

/// Sessions' files, apart from any session that runs.
pub mod upkeep {
    pub use bezel_harness::{
        ImportError, ImportPlace, PackageError, PackageFacts, check, export, import,
    };
}
