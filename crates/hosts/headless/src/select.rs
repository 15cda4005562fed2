//! Which session a run works in.

use bezel_context::Context;
use bezel_rpc::{CallError, Link};
use bezel_session_types::{ModelRef, SessionId};
use bezel_sessions_contract::{
    Archived, CreateSession, LaunchEnvironment, ListSessions, PartError, PermissionMode,
    SessionDirectoryClient, SessionError, SessionManagementClient, SessionSummary, by_part,
    list_all,
};

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
    #[error("{part} is part of the ids of {} sessions; write more of the id, its end differs soonest: {}", ids.len(), some(ids))]
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

/// So many candidates are named.
const NAMED: usize = 5;

fn some(ids: &[String]) -> String {
    let named = ids.iter().take(NAMED).map(String::as_str);
    let named = named.collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}

/// The session whose id begins or ends with `part`, archived or not.
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
    let sessions = list_sessions(cx, link, every).await?;
    let found = by_part(&sessions, part).map_err(|error| match error {
        PartError::Unknown => SelectError::Unknown(part.to_owned()),
        PartError::Ambiguous(ids) => SelectError::Ambiguous {
            part: part.to_owned(),
            ids: ids.iter().map(ToString::to_string).collect(),
        },
    });
    found.cloned()
}

/// All sessions that `query` asks for, the newest change first, over as many pages as it takes.
pub async fn list_sessions(
    cx: &Context,
    link: &Link,
    query: ListSessions,
) -> Result<Vec<SessionSummary>, CallError<SessionError>> {
    list_all(cx, &link.server().use_service(), query).await
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
    use super::*;

    #[test]
    fn of_many_sessions_that_may_be_meant_a_few_are_named() {
        let ids = |count: u32| (0..count).map(|number| format!("a{number}")).collect();
        let told = |count| {
            let part = "a".to_owned();
            SelectError::Ambiguous {
                part,
                ids: ids(count),
            }
            .to_string()
        };
        assert!(told(2).contains("2 sessions") && told(2).ends_with("a0, a1"));
        assert!(told(20).contains("20 sessions") && told(20).ends_with("a4, and 15 more"));
    }
}
