//! The session host over real databases, with a scripted model or a scripted engine.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod bad_tools;
mod children;
mod closing;
mod coordinator;
mod engines;
mod evaluations;
mod hooks;
mod lifecycle;
mod next_request;
mod permissions;
mod projections;
mod setup;
mod tools;
mod tree_world;
mod world;
