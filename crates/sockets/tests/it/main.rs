//! The network port from outside: what it takes, what it refuses, and what never takes it down.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod frames;
mod hostile;
mod port;
mod site;
mod stage;
