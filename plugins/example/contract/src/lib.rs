//! Comments of a project that say what is left to do: an example of every kind of member.
//!
//! [`Todos`] has a call, a state, events and a job. [`ProjectTree`] is a local service: it holds the
//! project's directory and reads any file of it, and so it never leaves its process; the calls of
//! [`Todos`] are the narrow part of it that a presentation may use.

mod tree;

use bezel_rpc::{Context, Events, JobError, Reference, State, reference, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use tree::{ProjectTree, TreeError};

/// What is left to do in the session's project.
#[service("todos", version = "1.0")]
pub trait Todos {
    /// What the last complete scan found.
    fn found(&self) -> State<TodoList>;

    /// What a scan finds, while it runs. Nothing of this is repeated: the state has it all in the end.
    fn events(&self) -> Events<TodoEvent>;

    /// A comment and up to 20 lines on each side of it. Only lines around known comments can be read.
    #[scope(read)]
    async fn excerpt(
        &self,
        cx: &Context,
        place: Place,
        around: Option<u32>,
    ) -> Result<Excerpt, ExcerptError>;

    /// Begins a scan, which ends one that still runs.
    ///
    /// `words` are what such a comment begins with; without them the usual ones.
    async fn scan(
        &self,
        cx: &Context,
        words: Option<Vec<String>>,
    ) -> Result<Reference<ScanClient>, ScanRefused>;

    /// The newest scan, running or not.
    #[scope(read)]
    async fn newest(&self, cx: &Context) -> Option<Reference<ScanClient>>;
}

/// One scan of the project. It goes on when nobody waits for it.
#[reference]
pub trait Scan {
    /// How far it is.
    fn progress(&self) -> State<ScanProgress>;

    /// Waits for the end. Ending the wait leaves the scan running.
    #[scope(read)]
    async fn wait(&self, cx: &Context) -> Result<ScanReport, JobError>;

    /// Ends the scan for everyone.
    async fn cancel(&self, cx: &Context);
}

/// What a complete scan found, by path and line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoList {
    /// At most 1,000.
    pub todos: Vec<Todo>,
    /// Files that were read.
    pub files: u32,
}

/// A comment that says what is left to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// Where it is.
    pub place: Place,
    /// The word that it begins with.
    pub word: String,
    /// The rest of its line, at most 200 characters.
    pub text: String,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Relative to the project, with `/` between its parts.
    pub path: String,
    /// Counted from 1.
    pub line: u32,
}

/// What happens in a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TodoEvent {
    /// A comment was found.
    Found {
        /// Which.
        todo: Todo,
    },
    /// A scan is complete.
    Complete {
        /// How many comments it found.
        found: u32,
    },
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The number of the first line.
    pub first: u32,
    /// The lines, without their ends.
    pub lines: Vec<String>,
}

/// How far a scan is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScanProgress {
    /// Files that were read.
    pub read: u32,
    /// Files there are; 0 while that is not known yet.
    pub files: u32,
    /// Comments that were found.
    pub found: u32,
}

/// What a scan came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScanReport {
    /// Files that were read.
    pub files: u32,
    /// Comments that were found.
    pub found: u32,
}

/// Why no excerpt was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ExcerptError {
    /// No comment is known there.
    #[error("no comment is known at {}:{}; scan again", place.path, place.line)]
    UnknownPlace {
        /// Where one was looked for.
        place: Place,
    },
    /// The file cannot be read any more.
    #[error("could not read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// What the system said.
        reason: String,
    },
}

/// Why no scan was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ScanRefused {
    /// There is nothing to look for.
    #[error("{word:?} is no word to look for: write one of 2 to 20 letters, such as TODO")]
    NoWord {
        /// What was given.
        word: String,
    },
}
