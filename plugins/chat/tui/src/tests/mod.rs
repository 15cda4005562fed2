//! The chat screen in a terminal, before a server that the test plays.

mod composing;
mod running;
mod sending;
mod support;
