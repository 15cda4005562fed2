//! The transcript in a terminal, before a server that the test plays.

mod following;
pub(crate) mod items;
mod looks;
mod opening;
mod saving;
mod scrolling;
mod support;
