//! The tools as the harness calls them: through the `Tool` trait, with a fake host, in scratch directories.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod background;
mod bash;
mod edit;
mod fixture;
mod gone;
mod output;
mod patch;
mod processes;
mod read;
mod schemas;
mod search;
mod todo;
mod write;
