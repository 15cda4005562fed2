//! Tool calls: which tools there are, what a call may be given, running it, what it may return.

mod arguments;
mod bound;
mod call;
mod output;
mod permission;
mod save;
mod set;
mod step;

pub use set::{ToolIdentity, ToolOrigin, ToolRegistration, ToolSet};

pub(crate) use call::{Interruption, interrupted};
pub(crate) use set::Lookup;
