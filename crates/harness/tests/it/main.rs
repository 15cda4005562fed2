//! The harness from outside: real databases, a scripted model, tools that are watched.

#![expect(clippy::unwrap_used, reason = "what a test cannot do, fails it")]

mod aborting;
mod admission;
mod bounding;
mod compaction;
mod context;
mod crashes;
mod events;
mod forking;
mod hooks;
mod interleavings;
mod kills;
mod memos;
mod model;
mod navigation;
mod racing;
mod requests;
mod retries;
mod running;
mod steps;
mod structured;
mod support;
mod tool_calls;
mod traces;
mod tree_properties;
mod waiting;
