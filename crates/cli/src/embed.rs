//! The product in the process of another program: what the SDK is made from.
//!
//! [`start`] is `bezel --standalone` without a terminal: the same server host, session hosts as threads, over
//! loopback. It reads no argument, writes no log, and takes no signal; spans go where the program's own
//! `tracing` subscriber sends them.

use crate::config::{self, Sources};
use crate::{manifest, setup, standalone};

pub use crate::additions::{Additions, Told};
pub use crate::config::{Given, Permission};
pub use crate::connect::{JoinError, Joined, join_once};
pub use crate::manifest::STAND_IN;
pub use crate::paths::{Paths, PathsError};
pub use crate::scratch::Scratch;
pub use crate::setup::environment;
pub use crate::standalone::{Standalone, throwaway};

/// Why the product did not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The configuration is wrong: every mistake with its place and what to do.
    #[error("the configuration cannot be used:\n{0}")]
    Configuration(String),
    /// The hosts could not start, with what to do.
    #[error("{0}")]
    Start(String),
}

/// Starts the hosts with their files under `paths`. Blocks until the server is ready.
pub fn start(paths: &Paths, additions: Additions) -> Result<Standalone, EmbedError> {
    crate::choose_tls();
    let environment = additions.environment.clone();
    let sources = Sources {
        user: paths.config.clone(),
        directory: None,
        trust: paths.trust(),
        environment: environment.unwrap_or_else(setup::environment),
        given: additions.given.clone(),
        flags: Vec::new(),
    };
    let config = config::load(&sources, manifest::plugins)
        .map_err(|error| EmbedError::Configuration(error.to_string()))?
        .config;
    standalone::start(paths, &config, additions).map_err(|failure| {
        let said = failure.message();
        EmbedError::Start(said.unwrap_or_else(|| "the server ended at once".to_owned()))
    })
}

/// A directory for the user alone, in the system's place for temporary files; gone with the value.
pub fn scratch() -> Result<Scratch, EmbedError> {
    Scratch::new().map_err(|failure| {
        let said = failure.message();
        EmbedError::Start(said.unwrap_or_else(|| "there is no scratch directory".to_owned()))
    })
}
