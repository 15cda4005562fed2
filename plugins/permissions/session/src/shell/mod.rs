//! Command lines in the grammar of bash, taken apart into everything that they would run.
//!
//! What the grammar does not take, or takes otherwise than the strict reading of the line beside it, what is deeper or longer than anybody can judge, and what hides a command in a
//! place that the grammar overlooks is not taken apart: it is asked for as a whole. Of commands, options, builtins and
//! expansions those are known that are written down here; any other may do anything.

mod builds;
mod builtins;
mod command;
mod found;
mod git;
mod globs;
mod known;
mod looks;
mod marks;
mod options;
mod prefix;
mod redirects;
mod script;
mod strict;
mod table;
mod words;
mod wrappers;

pub(crate) use found::{Depth, Ground, Judged, Touch};
pub(crate) use known::Class;
pub(crate) use script::parse;

/// A text as a word of a command line.
pub(crate) fn quoted(text: &str) -> String {
    words::Word::plain(text).shown()
}

#[cfg(test)]
mod tests;
