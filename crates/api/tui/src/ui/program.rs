//! Programs that get the terminal, and the end.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program to give the terminal to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Name or path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs; the presentation's own directory if none.
    pub directory: Option<PathBuf>,
}

impl Program {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Program {
            program: program.into(),
            arguments: Vec::new(),
            directory: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

/// Why a program did not run, or its result is not there.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("could not start `{program}`: {source}")]
    Start {
        /// What was to be started.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Neither `VISUAL` nor `EDITOR` is set.
    #[error("no editor is set; set VISUAL or EDITOR, for example to `vim` or `code --wait`")]
    NoEditor,
    /// The text could not be handed to the editor or read back.
    #[error("could not exchange the text with the editor: {0}")]
    File(#[source] std::io::Error),
    /// The editor ended with a failure: the text stays as it was.
    #[error("the editor ended with {0}; the text is unchanged")]
    Failed(std::process::ExitStatus),
    /// The screen has closed, or the one who asked no longer waits.
    #[error("the screen has closed")]
    Closed,
}

/// How the presentation ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quit {
    /// The process's exit status.
    pub code: u8,
    /// What is printed below the prompt after the screen has gone; empty for nothing.
    pub message: String,
}
