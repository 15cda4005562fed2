//! From the fleet's words to the contract's: what must not leave the server stays behind here.

use bezel_api_server::{FleetError, ManagedSession, SessionStatus};
use bezel_sessions_contract as contract;
use bezel_sessions_contract::{SessionError, SessionSummary};

pub(crate) fn summary(session: &ManagedSession) -> SessionSummary {
    SessionSummary {
        session_id: session.session_id.clone(),
        title: session.title.clone(),
        workspace_id: session.workspace_id.clone(),
        workspace_name: session.workspace_name.clone(),
        status: status(session.status),
        parent_id: session.parent_id.clone(),
        agent: session.agent.clone(),
        model: session.model.clone(),
        created_at: session.created_at.to_string(),
        updated_at: session.updated_at.to_string(),
        archived_at: session.archived_at.map(|at| at.to_string()),
    }
}

fn status(status: SessionStatus) -> contract::SessionStatus {
    match status {
        SessionStatus::Starting => contract::SessionStatus::Starting,
        SessionStatus::Active => contract::SessionStatus::Active,
        SessionStatus::Waiting => contract::SessionStatus::Waiting,
        SessionStatus::Idle => contract::SessionStatus::Idle,
        SessionStatus::Closed => contract::SessionStatus::Closed,
        SessionStatus::Unreachable => contract::SessionStatus::Unreachable,
    }
}

pub(crate) fn error(error: FleetError) -> SessionError {
    match error {
        FleetError::NotAuthorized { session_id } => SessionError::NotAuthorized { session_id },
        FleetError::Directory { directory, reason } => {
            SessionError::Directory { directory, reason }
        }
        FleetError::Worker { session_id, reason } => SessionError::Worker { session_id, reason },
        FleetError::Storage(message) => SessionError::Storage { message },
        FleetError::Invalid(message) => SessionError::Invalid { message },
        other => SessionError::Invalid {
            message: other.to_string(),
        },
    }
}
