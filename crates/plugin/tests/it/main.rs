//! Assembly and contributions as a host and its plugins see them.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod assembly;
mod breaking;
mod contributions;
mod support;
