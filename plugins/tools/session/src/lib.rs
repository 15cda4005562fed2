//! The built-in tools: read, write, edit, apply_patch, bash, grep, glob, ls, todo.

mod apply_patch;
mod atomic;
mod bash;
mod bash_kill;
mod bash_output;
mod blocking;
mod bound;
mod command;
mod diff;
mod edit;
mod environment;
mod facet;
mod failure;
mod gone;
mod ledger;
mod paths;
mod read;
mod schema;
mod search;
mod shared;
mod target;
mod text;
mod todo;
mod write;

pub use command::Commands;
pub use environment::Environment;
pub use facet::{ToolsConfig, facet};
pub use ledger::{FileLedger, FileLocks, Standing};
pub use search::SearchLimits;
pub use shared::{ToolShared, tools};
pub use todo::TodoList;
