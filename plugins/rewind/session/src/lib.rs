//! Checkpoints of the session's directory, and the way back to them.
//!
//! Before the first tool of a turn that may change files, the directory is recorded in an object store of git
//! that belongs to this session alone and lies with its other files, so that deleting the session deletes it.
//! After the turn it is recorded again: what differs is what the turn changed, and nothing else is ever
//! written. Unchanged files are known by their size and times and not read again.
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
mod tree;
mod view;

pub use facet::facet;

#[cfg(test)]
mod tests;
