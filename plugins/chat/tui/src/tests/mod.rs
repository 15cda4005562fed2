//! The chat screen in a terminal, before a server that the test plays.

mod blobs;
mod composing;
mod pictures;
mod running;
mod sending;
mod support;
