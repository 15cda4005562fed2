//! The terminal host: owns the screen and hands terminal facets their bindings.
//!
//! [`TuiHost::start`] takes the terminal, assembles the facets of a manifest and connects to a server. One
//! task, the presenter, reads input, handles it, draws and writes, without a hop between a key and its echo.
//! Facets reach the screen through handles only (`bezel-api-tui`).
//!
//! - The host reads no address, no argument and no environment variable: [`TerminalOptions`] and
//!   `Launch` carry what the starting program knows.
//! - Nothing wakes up when nothing happens: a frame is drawn when something changed, at most 60 times a
//!   second, and at once after a key.
//! - The terminal is given back at the end, on a signal, on ctrl+z and when the presenter unwinds.

mod device;
mod dialogs;
mod harness;
mod host;
mod mailbox;
mod presenter;
mod programs;
mod screen;
mod stage;
mod terminal;
#[cfg(test)]
mod tests;

pub use bezel_api_tui::{Chord, Launch, LaunchSession, ThemeChoice};
pub use harness::{HarnessOptions, Screen, TuiHarness};
pub use host::{RunningTui, StartError, TuiExit, TuiHost, TuiOptions};
pub use terminal::{TerminalError, TerminalOptions, install_panic_hook};
