//! A session among all that there are: by a part of its id, its title by its id, those that wait for a person.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bezel_context::Context;
use bezel_rpc::{CallError, State};
use bezel_session_types::SessionId;

use crate::{
    DirectoryState, ListSessions, SessionDirectoryClient, SessionError, SessionStatus,
    SessionSummary,
};

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

/// The sessions that wait for a person: those that ask something, and those that began them.
pub fn waiting(sessions: &[SessionSummary]) -> HashSet<&SessionId> {
    let asking = |session: &&SessionSummary| session.status == SessionStatus::Waiting;
    let mut waiting = HashSet::new();
    let mut above: Vec<&SessionId> = sessions
        .iter()
        .filter(asking)
        .map(|session| &session.session_id)
        .collect();
    if above.is_empty() {
        return waiting;
    }
    let parents: HashMap<&SessionId, &SessionId> = sessions
        .iter()
        .filter_map(|session| Some((&session.session_id, session.parent_id.as_ref()?)))
        .collect();
    while let Some(session) = above.pop() {
        if waiting.insert(session) {
            above.extend(parents.get(session).copied());
        }
    }
    waiting
}

#[cfg(test)]
mod tests {
    use bezel_context::WorkspaceId;

    use super::*;

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

    #[test]
    fn what_asks_waits_and_so_does_whatever_began_it() {
        let mut sessions = sessions(&["root", "child", "other", "grandchild"]);
        sessions[1].parent_id = Some(SessionId::new("root"));
        sessions[3].parent_id = Some(SessionId::new("child"));
        assert!(waiting(&sessions).is_empty());
        sessions[3].status = SessionStatus::Waiting;
        let mut found: Vec<&str> = waiting(&sessions).iter().map(|id| id.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, ["child", "grandchild", "root"]);
        // A parent that is gone, or one that is its own, ends the way up.
        sessions[0].parent_id = Some(SessionId::new("grandchild"));
        sessions[1].parent_id = Some(SessionId::new("gone"));
        assert_eq!(waiting(&sessions).len(), 3);
    }
}
