//! What cards of the built-in tools look like.

mod commands;
mod files;
mod others;
mod support;
