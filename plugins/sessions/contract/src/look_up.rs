//! A session among all that there are: by a part of its id, or its title by its id.

use std::time::Duration;

use bezel_context::Context;
use bezel_rpc::{CallError, State};
use bezel_session_types::SessionId;

use crate::{DirectoryState, ListSessions, SessionDirectoryClient, SessionError, SessionSummary};

/// Sessions that are asked for at once: as many as a page has.
const PAGE: u32 = 500;

/// How long the list of sessions is waited for.
const LISTING: Duration = Duration::from_secs(1);

/// Why a part of an id names no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// No id begins or ends so.
    #[error("no session's id begins or ends so")]
    Unknown,
    /// Several ids begin or end so.
    #[error("{} sessions' ids begin or end so", .0.len())]
    Ambiguous(
        /// The candidates.
        Vec<SessionId>,
    ),
}

/// All sessions that `query` asks for, the newest change first, over as many pages as it takes.
pub async fn list_all(
    cx: &Context,
    directory: &SessionDirectoryClient,
    mut query: ListSessions,
) -> Result<Vec<SessionSummary>, CallError<SessionError>> {
    let mut sessions = Vec::new();
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

/// The title of a session, once the list of all has come; `None` where it has none, is not listed, or the list does
/// not come soon.
pub async fn title_when_listed(
    cx: &Context,
    sessions: &State<DirectoryState>,
    session: &SessionId,
) -> Option<String> {
    let listed = sessions.ready(&cx.with_timeout(LISTING)).await.ok()?;
    listed.title_of(session).map(str::to_owned)
}

/// The session whose id is `part`, or the only one whose id begins or ends so. Ids are ordered by time: those of one
/// minute begin alike and end differently.
pub fn by_part<'a>(
    sessions: &'a [SessionSummary],
    part: &str,
) -> Result<&'a SessionSummary, PartError> {
    let mut all = sessions.iter();
    if let Some(exact) = all.find(|session| session.session_id.as_str() == part) {
        return Ok(exact);
    }
    let fits = |session: &&SessionSummary| {
        let id = session.session_id.as_str();
        !part.is_empty() && (id.starts_with(part) || id.ends_with(part))
    };
    let found: Vec<&SessionSummary> = sessions.iter().filter(fits).collect();
    match found.as_slice() {
        [session] => Ok(session),
        [] => Err(PartError::Unknown),
        several => {
            let ids = several.iter().map(|session| session.session_id.clone());
            Err(PartError::Ambiguous(ids.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use bezel_context::WorkspaceId;

    use super::*;
    use crate::SessionStatus;

    fn sessions(ids: &[&str]) -> Vec<SessionSummary> {
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
        let sessions = sessions(&["abc", "abd", "ab", "x"]);
        for (part, id) in [("bd", "abd"), ("abc", "abc"), ("x", "x"), ("ab", "ab")] {
            let found = by_part(&sessions, part).map(|found| found.session_id.as_str());
            assert_eq!(found, Ok(id), "{part}");
        }
        for part in ["ab2", "q", ""] {
            assert_eq!(by_part(&sessions, part), Err(PartError::Unknown), "{part}");
        }
        let several = by_part(&sessions, "a").unwrap_err();
        assert!(matches!(&several, PartError::Ambiguous(ids) if ids.len() == 3));
    }
}
