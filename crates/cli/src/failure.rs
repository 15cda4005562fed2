//! How a command fails: what is printed, and the exit status.

use std::fmt;
use std::io::{self, Write as _};

use crate::config::LoadError;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked for.
    Done = 0,
    /// It did not.
    Failed = 1,
    /// It was asked wrongly, or the configuration is wrong.
    Usage = 2,
    /// There is no model or no key.
    NoModel = 3,
    /// Somebody interrupted it.
    Interrupted = 130,
}

/// Why a command ends without its result.
#[derive(Debug)]
pub enum Failure {
    /// With a message for the person.
    Message(Exit, anyhow::Error),
    /// Whoever read the output has gone; nobody is there to be told.
    BrokenPipe,
}

/// A command's result.
pub type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    /// A failure of what was attempted.
    pub fn failed(error: impl Into<anyhow::Error>) -> Self {
        Failure::Message(Exit::Failed, error.into())
    }

    /// A failure of how it was asked.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure::Message(Exit::Usage, error.into())
    }

    /// What would be printed; none where nobody would read it.
    pub fn message(&self) -> Option<String> {
        match self {
            Failure::BrokenPipe => None,
            Failure::Message(_, error) => Some(Shown(error).to_string()),
        }
    }

    /// Prints the message to standard error and tells the exit status.
    pub fn report(self) -> Exit {
        match self {
            Failure::BrokenPipe => Exit::Done,
            Failure::Message(exit, error) => {
                let text = Shown(&error).to_string();
                // Configuration errors bring their own heading, one for each mistake.
                let heading = if text.starts_with("error: ") {
                    ""
                } else {
                    "error: "
                };
                // Standard error may be closed; then there is nobody to tell.
                writeln!(io::stderr(), "{heading}{text}").ok();
                exit
            }
        }
    }
}

/// An error with its causes on one line; a cause that the text already tells is left out.
struct Shown<'a>(&'a anyhow::Error);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = self.0.to_string();
        for cause in self.0.chain().skip(1).map(ToString::to_string) {
            if !told.contains(&cause) {
                told = format!("{told}: {cause}");
            }
        }
        formatter.write_str(&told)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Failure::usage(error)
    }
}

/// A failed write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::failed(anyhow::Error::new(error).context("cannot write the output"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no such file")
            .context("cannot read x: no such file")
            .context("cannot start");
        assert_eq!(
            Shown(&error).to_string(),
            "cannot start: cannot read x: no such file"
        );
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(failure.report(), Exit::Done);
    }
}
