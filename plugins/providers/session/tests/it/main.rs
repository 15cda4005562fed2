//! Providers against a real HTTP server that speaks every format.

#![expect(clippy::unwrap_used, reason = "what a test cannot do, fails it")]

mod answers;
mod errors;
mod genai_kinds;
mod listing;
mod sending;
mod streams;
mod support;
