//! The real terminal: raw mode, input, frames, signals, suspension, and giving all of it back.

mod backend;
pub(crate) mod event;
mod options;
mod parser;
mod restore;
mod tty;
mod unsure;

pub use options::TerminalOptions;
pub use restore::install_panic_hook;
pub(crate) use tty::Tty;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// None of the standard streams is a terminal.
    #[error("there is no terminal to draw on; use `bezel run` without one")]
    NoTerminal,
    /// It could not be used.
    #[error("could not {attempt} the terminal: {source}")]
    Unusable {
        /// What was attempted: `open`, `read the size of`, `set up`.
        attempt: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}
