//! Checkpoints of the session's directory, and the way back to them.
//!
//! Only what the agent changed is ever written. So it is recorded call by call: what a call names is looked at
//! before it runs and after it has ended; where a call may change anything, everything is. What differs between
//! the two looks is the agent's. What changed between calls is somebody else's, also in the middle of a turn.
//! Contents are kept in an object store of git that belongs to this session alone and lies with its other
//! files, so that deleting the session deletes it. Unchanged files are known by their size and times and not
//! read again.
//!
//! The conversation goes along where that is wanted: while staged the session is told where its next run
//! begins, and it goes there in the commit that delivers the next message, or with a navigation when what is
//! staged is kept. So neither waits for the other: what was staged is settled from where the conversation is.
//!
//! Git stores contents and knows nothing of the directory: what is ignored is found out here, by the rules of
//! git (`.gitignore`, `.git/info/exclude`, the global excludes; also where there is no repository). Nested
//! repositories and submodules are directories like others; no `.git` is ever looked into. Permissions,
//! links, empty directories and names of any bytes are kept; owners, extended attributes and hard links are
//! not. Other file systems mounted below the directory, and files outside of it, are not covered.

mod brackets;
mod contents;
mod conversation;
mod desk;
mod facet;
mod git;
mod history;
mod index;
mod plan;
mod record;
mod restore;
mod rewinder;
mod scan;
mod service;
mod snapshot;
mod staging;
mod tree;
mod turns;
mod view;

pub use facet::facet;

#[cfg(test)]
mod tests;
