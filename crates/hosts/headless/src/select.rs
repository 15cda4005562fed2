//! Which session a run works in.

use bezel_context::Context;
use bezel_rpc::{CallError, Link};
use bezel_session_types::{ModelRef, SessionId};
use bezel_sessions_contract::{
    Archived, CreateSession, LaunchEnvironment, ListSessions, PermissionMode,
    SessionDirectoryClient, SessionError, SessionManagementClient, SessionSummary,
};

/// Sessions that are asked for at once.
const PAGE: u32 = 500;

/// Which session a run works in.
#[derive(Debug, Clone)]
pub enum Choice {
    /// A new one.
    New {
        /// The model to begin with, instead of the configured one.
        model: Option<ModelRef>,
        /// The agent that it runs, instead of the configured one.
        agent: Option<String>,
        /// What the agent may do unasked.
        permission_mode: PermissionMode,
    },
    /// The one whose id begins or ends so.
    Id(String),
    /// The newest one of the directory.
    Newest,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// No id begins or ends so.
    #[error("there is no session {0}; `bezel session list --all` shows what there is")]
    Unknown(String),
    /// Several ids begin or end so.
    #[error("{part} is part of the ids of {} sessions; write more of the id, its end differs soonest: {}", ids.len(), ids.join(", "))]
    Ambiguous {
        /// As it was given.
        part: String,
        /// The candidates.
        ids: Vec<String>,
    },
    /// The directory has no session yet.
    #[error("there is no session in {0} to continue; leave --continue out to begin one")]
    None(String),
    /// The server refused.
    #[error(transparent)]
    Call(#[from] CallError<SessionError>),
}

/// The session whose id begins or ends with `part`, archived or not. Ids are ordered by time: those of one minute
/// begin alike and end differently.
pub async fn find_session(
    cx: &Context,
    link: &Link,
    part: &str,
) -> Result<SessionSummary, SelectError> {
    let every = ListSessions {
        archived: Archived::Include,
        children: true,
        ..ListSessions::default()
    };
    one_of(&list_sessions(cx, link, every).await?, part)
}

/// All sessions that `query` asks for, the newest change first, over as many pages as it takes.
pub async fn list_sessions(
    cx: &Context,
    link: &Link,
    mut query: ListSessions,
) -> Result<Vec<SessionSummary>, CallError<SessionError>> {
    let directory: SessionDirectoryClient = link.server().use_service();
    let mut sessions: Vec<SessionSummary> = Vec::new();
    query.limit = Some(PAGE);
    loop {
        let page = directory.list(cx, query.clone()).await?;
        sessions.extend(page.sessions);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(sessions);
        }
    }
}

fn one_of(sessions: &[SessionSummary], part: &str) -> Result<SessionSummary, SelectError> {
    let exact = sessions
        .iter()
        .find(|session| session.session_id.as_str() == part);
    if let Some(session) = exact {
        return Ok(session.clone());
    }
    let fits = |session: &&SessionSummary| {
        let id = session.session_id.as_str();
        !part.is_empty() && (id.starts_with(part) || id.ends_with(part))
    };
    let mut found = sessions.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(session), None) => Ok(session.clone()),
        (None, _) => Err(SelectError::Unknown(part.to_owned())),
        (Some(_), Some(_)) => Err(SelectError::Ambiguous {
            part: part.to_owned(),
            ids: sessions
                .iter()
                .filter(fits)
                .map(|session| session.session_id.to_string())
                .collect(),
        }),
    }
}

/// The newest session of a directory.
pub async fn newest_session(
    cx: &Context,
    link: &Link,
    directory: &str,
) -> Result<SessionSummary, SelectError> {
    let sessions: SessionDirectoryClient = link.server().use_service();
    let newest = sessions.newest_in(cx, directory.to_owned()).await?;
    newest.ok_or_else(|| SelectError::None(directory.to_owned()))
}

/// Finds or makes the session, the latter under the id `new`, and says whether it was made. Does not select
/// it yet.
pub(crate) async fn choose(
    cx: &Context,
    link: &Link,
    choice: &Choice,
    directory: &str,
    environment: &LaunchEnvironment,
    new: &SessionId,
) -> Result<(SessionSummary, bool), SelectError> {
    match choice {
        Choice::Id(prefix) => Ok((find_session(cx, link, prefix).await?, false)),
        Choice::Newest => Ok((newest_session(cx, link, directory).await?, false)),
        Choice::New {
            model,
            agent,
            permission_mode,
        } => {
            let management: SessionManagementClient = link.server().use_service();
            let options = CreateSession {
                session_id: Some(new.clone()),
                directory: directory.to_owned(),
                environment: Some(environment.clone()),
                model: model.clone(),
                agent: agent.clone(),
                permission_mode: *permission_mode,
                ..CreateSession::default()
            };
            Ok((management.create(cx, options).await?, true))
        }
    }
}

#[cfg(test)]
mod tests {
    use bezel_context::WorkspaceId;
    use bezel_sessions_contract::SessionStatus;

    use super::*;

    fn directory(ids: &[&str]) -> Vec<SessionSummary> {
        let session = |id: &&str| SessionSummary {
            session_id: SessionId::new(*id),
            title: String::new(),
            workspace_id: WorkspaceId::new("w"),
            workspace_name: "w".into(),
            status: SessionStatus::Idle,
            parent_id: None,
            agent: None,
            model: None,
            created_at: String::new(),
            updated_at: String::new(),
            archived_at: None,
        };
        ids.iter().map(session).collect()
    }

    #[test]
    fn the_beginning_or_the_end_of_an_id_is_enough_where_it_is_the_only_one() {
        let sessions = directory(&["abc", "abd", "ab", "x"]);
        assert_eq!(one_of(&sessions, "bd").unwrap().session_id.as_str(), "abd");
        assert!(matches!(
            one_of(&sessions, "ab2"),
            Err(SelectError::Unknown(_))
        ));
        assert_eq!(one_of(&sessions, "abc").unwrap().session_id.as_str(), "abc");
        assert_eq!(one_of(&sessions, "x").unwrap().session_id.as_str(), "x");
        assert_eq!(one_of(&sessions, "ab").unwrap().session_id.as_str(), "ab");
        assert!(
            one_of(&sessions, "a")
                .unwrap_err()
                .to_string()
                .contains("3 sessions")
        );
        assert!(matches!(
            one_of(&sessions, "q"),
            Err(SelectError::Unknown(_))
        ));
        assert!(matches!(
            one_of(&sessions, ""),
            Err(SelectError::Unknown(_))
        ));
    }
}
