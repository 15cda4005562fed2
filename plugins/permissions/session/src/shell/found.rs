//! What is found in a command line: its commands and what they touch.

use std::path::{Path, PathBuf};

use super::known::Class;

/// Where a command line is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The person's home, for `~`.
    pub(crate) home: Option<&'a Path>,
    /// The session's directory, which says which repository is its own.
    pub(crate) session: &'a Path,
}

/// Everything that a command line would run and touch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Script {
    /// Its commands, also those within others, in the order in which they stand.
    pub(crate) commands: Vec<Judged>,
    /// Files that redirections read and write.
    pub(crate) touches: Vec<Touch>,
    /// Why it cannot be told what it runs; empty where it can.
    pub(crate) unclear: Vec<String>,
}

/// One command, ready to be judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    /// Its words as a rule names them.
    pub(crate) text: String,
    /// Other ways in which a rule may mean it: by its bare name, without what stands before it.
    pub(crate) forms: Vec<String>,
    /// Whether another command of the list is what it runs, so that only rules against it count.
    pub(crate) wraps: bool,
    /// What is known of it.
    pub(crate) class: Class,
    /// Files that it reads or changes, as far as that is known; every path among the words of one that is not.
    pub(crate) touches: Vec<Touch>,
    /// Whether its text is all that there is to it: the same words do the same.
    pub(crate) told: bool,
    /// Whether some of its words cannot be told, so that it may be other than its text says.
    pub(crate) open: bool,
    /// The words that name what it does, for a rule that is to cover its like.
    pub(crate) prefix: Vec<String>,
    /// Where it runs, absolute; `None` where that cannot be told.
    pub(crate) directory: Option<PathBuf>,
    /// Whether its words mean the same wherever it runs: it names files, all of them from the root on.
    pub(crate) anywhere: bool,
    /// Commands that it might run in its turn: what stands in the words of one of which nothing is known.
    pub(crate) within: Vec<String>,
}

/// A path that is touched.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Touch {
    /// As it was named.
    pub(crate) path: PathBuf,
    /// Where it is named from, absolute; `None` where that cannot be told.
    pub(crate) from: Option<PathBuf>,
    /// Whether it is changed and not just read.
    pub(crate) changes: bool,
    /// How much of what lies below is read too.
    pub(crate) depth: Depth,
}

/// What of a directory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Its names.
    Names,
    /// Every file below that a search by files of rules finds: none that is hidden or ignored.
    Visible,
    /// Every file below that git does not ignore.
    Added,
    /// Every file below.
    Whole,
    /// Every file below, and what links lead to.
    Followed,
}

impl Script {
    /// What all of it touches.
    pub(super) fn all_touches(&self) -> impl Iterator<Item = &Touch> {
        let of_commands = self.commands.iter().flat_map(|command| &command.touches);
        of_commands.chain(&self.touches)
    }
}
