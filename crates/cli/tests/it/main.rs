//! The started binary, in a home of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod agents;
mod archiving;
mod configuration;
mod context;
mod deaths;
mod files;
mod following;
mod home;
mod http;
mod keys;
mod many;
mod namespaces;
mod opencode;
mod permissions;
mod pictures;
mod questions;
mod remote;
mod rewinding;
mod runs;
mod servers;
mod sharing;
mod subagents;
mod telemetry;
mod terminal;
