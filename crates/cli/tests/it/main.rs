//! The started binary, in a home of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod configuration;
mod home;
mod runs;
mod servers;
mod terminal;
