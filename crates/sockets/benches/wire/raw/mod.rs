//! Bare sockets: what the same bytes cost without anything around them.

pub mod blocking;
pub mod broadcast;
pub mod delay;
pub mod evented;
pub mod frames;
