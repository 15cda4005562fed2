//! One prompt against fake services behind a real server's acceptor and router, over loopback.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod losses;
mod runs;
mod world;
