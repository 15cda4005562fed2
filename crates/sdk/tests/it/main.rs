//! The SDK as a program uses it: real hosts in this process, a fake model behind them.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod children;
mod hooks;
mod opencode;
mod reaching;
mod refusals;
mod secrets;
mod sessions;
mod tools;
mod world;

#[path = "../../examples/twenty_lines.rs"]
#[expect(dead_code, reason = "its main is for the person's own model")]
mod twenty_lines;
