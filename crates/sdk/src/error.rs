//! What can go wrong, with what to do about it.

use std::fmt;
use std::path::PathBuf;

use bezel_cli::embed::{EmbedError, JoinError, PathsError};
use bezel_host_headless::PermissionAsked;
use bezel_session_types::SessionId;

/// Why Bezel did not do what the program asked for. Its `Debug` is its text: a `main` that returns it tells a person
/// what to do.
#[derive(thiserror::Error)]
pub enum Error {
    /// The configuration is wrong, or another instance has the home, or the disk does not take it.
    #[error(transparent)]
    Start(#[from] EmbedError),
    /// Where the person's own files are cannot be told.
    #[error(transparent)]
    Home(#[from] PathsError),
    /// A tool was not registered.
    #[error(transparent)]
    Tool(#[from] ToolRefused),
    /// The hosts of this process cannot be reached: they have ended, or were stopped.
    #[error("the hosts of this program cannot be reached: {0}")]
    Connection(String),
    /// The directory cannot be worked in.
    #[error("cannot work in {}: {error}; give an existing directory", path.display())]
    Directory {
        /// As it was given.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A session could not be made, opened or asked for something.
    #[error("{attempt}: {reason}")]
    Session {
        /// What was attempted, on which session.
        attempt: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A prompt was not answered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<JoinError> for Error {
    fn from(error: JoinError) -> Self {
        Error::Connection(error.to_string())
    }
}

/// Why a tool was not registered. Nothing else is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolRefused {
    /// Its name or its description of itself is not one.
    #[error("tool `{name}` was not registered: {reason}")]
    Invalid {
        /// As it was given.
        name: String,
        /// What is wrong with it, and what is right.
        reason: String,
    },
    /// Its schema is no JSON Schema.
    #[error(
        "tool `{name}` was not registered: its schema is not a valid JSON Schema ({reason}); correct it there"
    )]
    Schema {
        /// Which tool.
        name: String,
        /// Where it is wrong.
        reason: String,
    },
    /// Another tool has its name.
    #[error(
        "tool `{name}` is there already, from {by}: choose another name for this program's, or `Tool::replacing` where it is to take that one's place"
    )]
    Taken {
        /// Which name.
        name: String,
        /// Whose it is.
        by: String,
    },
}

/// Why a prompt was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The turn failed.
    #[error("the turn failed: {0}")]
    Failed(String),
    /// There is no model, or no key for it.
    #[error("no model answers: {0}")]
    NoModel(String),
    /// Somebody interrupted the turn.
    #[error("the turn was interrupted")]
    Interrupted,
    /// The prompt makes no sense, or its session is gone.
    #[error("the prompt was not sent: {0}")]
    Refused(String),
    /// A call needs a permission and nobody answers: the turn was interrupted.
    #[error(
        "tool `{tool}` needs a permission that nobody gives ({}): answer with `Prompt::on_permission`, allow it with `Builder::allow`, let the tool say what it touches, or choose another permission mode",
        listed(asked)
    )]
    NeedsPermission {
        /// The tool that was called.
        tool: String,
        /// What it needs a permission for.
        asked: Vec<PermissionAsked>,
        /// In which session.
        session: SessionId,
    },
    /// The agent asks a question and nobody answers: the turn was interrupted.
    #[error("the agent asks, and nobody answers: {question:?}; answer with `Prompt::on_question`")]
    NeedsAnswer {
        /// The question, Markdown.
        question: String,
        /// In which session.
        session: SessionId,
    },
    /// The hosts of this process cannot be reached.
    #[error("the hosts of this program cannot be reached: {0}")]
    Connection(String),
}

fn listed(asked: &[PermissionAsked]) -> String {
    let each = asked.iter().map(|asked| {
        let (action, resource, reason) = (&asked.action, &asked.resource, &asked.reason);
        format!("{action} `{resource}`: {reason}")
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_main_prints_of_an_error_is_its_text() {
        let error = Error::Connection("they were stopped".into());
        let told = "the hosts of this program cannot be reached: they were stopped";
        assert_eq!(format!("{error:?}"), told);
    }
}
