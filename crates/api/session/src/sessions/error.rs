//! Why something could not be done with a session.

use bezel_rewind_contract::RewindError;
use bezel_rpc::{CallError, ErrorCode};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{ForkError, SessionError};

use crate::agent::{LaneError, PromptError};

/// Why something could not be done with a session.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SessionsError {
    /// There is no such session within reach: for a record, of this workspace; for what acts on a session, in this
    /// worker's tree, whatever there is elsewhere.
    #[error("there is no session {session_id} within reach of this worker")]
    NotFound {
        /// Which.
        session_id: SessionId,
    },
    /// The facets of a session are still being set up: nothing can be done in it, or from it, yet.
    #[error(
        "the facets of session {session_id} are not active yet; do this from a task that waits until they are"
    )]
    NotActive {
        /// Whose facets.
        session_id: SessionId,
    },
    /// No plugin of the session provides the service that would do it.
    #[error(
        "session {session_id} cannot do it: it has no service `{service}`; enable the plugin that provides it"
    )]
    Missing {
        /// Which session.
        session_id: SessionId,
        /// The service's id.
        service: &'static str,
    },
    /// It could not be taken up in this process.
    #[error("session {session_id} could not be started: {reason}")]
    Start {
        /// Which.
        session_id: SessionId,
        /// What happened.
        reason: String,
    },
    /// The server refuses.
    #[error(transparent)]
    Refused(SessionError),
    /// The server or the session cannot be reached, or the call did not come back.
    #[error("{0}")]
    Server(String),
    /// The message was not admitted.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The session could not do it.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The session was not copied.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// Nothing was rewound, or brought back, or kept.
    #[error(transparent)]
    Rewind(#[from] RewindError),
}

impl From<SessionError> for SessionsError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::NotAuthorized { session_id } => SessionsError::NotFound { session_id },
            error => SessionsError::Refused(error),
        }
    }
}

impl From<CallError<SessionError>> for SessionsError {
    fn from(error: CallError<SessionError>) -> Self {
        match error {
            CallError::Service(error) => error.into(),
            other => SessionsError::Server(other.to_string()),
        }
    }
}

impl SessionsError {
    /// What became of a call to a service of a session.
    pub(super) fn of_service<E>(
        session_id: &SessionId,
        service: &'static str,
        error: CallError<E>,
    ) -> Self
    where
        E: Into<SessionsError> + std::fmt::Display,
    {
        let session_id = session_id.clone();
        match error {
            CallError::Service(error) => error.into(),
            CallError::Rpc(error) if error.code == ErrorCode::UnknownService => {
                SessionsError::Missing {
                    session_id,
                    service,
                }
            }
            CallError::Rpc(error) if error.code == ErrorCode::NotActive => {
                SessionsError::NotActive { session_id }
            }
            other => SessionsError::Server(other.to_string()),
        }
    }
}
