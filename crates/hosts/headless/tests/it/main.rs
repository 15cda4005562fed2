//! One prompt against fake services behind a real server's acceptor and router, over loopback.

mod runs;
mod world;
