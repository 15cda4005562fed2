//! The fakes from outside, as a client of theirs sees them.

#![expect(clippy::unwrap_used, reason = "what a test cannot do, fails it")]

mod client;
mod model_server;
mod program;
