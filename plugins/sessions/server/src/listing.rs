//! Pages of sessions.

use bezel_api_server::ManagedSession;
use bezel_session_types::SessionId;
use bezel_sessions_contract::{Archived, ListSessions, SessionError, SessionPage};

use crate::words;

const MOST: u32 = 500;
const USUAL: u32 = 100;

/// Where a session stands in a list: the newest change first, and among equals the greater id. In milliseconds,
/// as the records keep it, so that a cursor means the same after a restart of the server.
type Place = (i64, SessionId);

fn place(session: &ManagedSession) -> Place {
    (
        session.updated_at.as_millisecond(),
        session.session_id.clone(),
    )
}

/// The cursor that goes on after a place.
fn cursor((at, session_id): &Place) -> String {
    format!("{at}.{session_id}")
}

fn read(cursor: &str) -> Result<Place, SessionError> {
    let read = cursor.split_once('.').and_then(|(at, session_id)| {
        let at = at.parse().ok()?;
        (!session_id.is_empty()).then(|| (at, SessionId::new(session_id)))
    });
    read.ok_or_else(|| SessionError::Invalid {
        message: format!(
            "`{cursor}` is not where a page of sessions begins; take `next` of the page before, or none for the first page"
        ),
    })
}

/// The asked number, or what is wrong with it.
pub(crate) fn limit(asked: u32, most: u32, of: &str) -> Result<usize, SessionError> {
    match (1..=most).contains(&asked) {
        true => Ok(asked as usize),
        false => Err(SessionError::Invalid {
            message: format!("a limit of {asked} {of} is not within 1 to {most}"),
        }),
    }
}

/// One page of these.
pub(crate) fn page(
    sessions: impl IntoIterator<Item = ManagedSession>,
    query: &ListSessions,
) -> Result<SessionPage, SessionError> {
    let limit = limit(query.limit.unwrap_or(USUAL), MOST, "sessions")?;
    let after = query.after.as_deref().map(read).transpose()?;
    let text = query.text.as_ref().map(|text| text.to_lowercase());
    let wanted = |session: &ManagedSession| {
        let archived = session.archived_at.is_some();
        let by_archive = match query.archived {
            Archived::Exclude => !archived,
            Archived::Include => true,
            Archived::Only => archived,
        };
        let by_parent = match &query.parent_id {
            Some(parent) => session.parent_id.as_ref() == Some(parent),
            None => query.children || session.parent_id.is_none(),
        };
        let by_workspace = query
            .workspace_id
            .as_ref()
            .is_none_or(|workspace| session.workspace_id == *workspace);
        let by_text = text
            .as_ref()
            .is_none_or(|text| session.title.to_lowercase().contains(text));
        by_archive && by_parent && by_workspace && by_text
    };
    let mut wanted: Vec<(Place, ManagedSession)> = sessions
        .into_iter()
        .filter(wanted)
        .map(|session| (place(&session), session))
        .filter(|(place, _)| after.as_ref().is_none_or(|after| place < after))
        .collect();
    wanted.sort_by(|(one, _), (other, _)| other.cmp(one));
    let more = wanted.len() > limit;
    wanted.truncate(limit);
    let next = wanted
        .last()
        .filter(|_| more)
        .map(|(place, _)| cursor(place));
    let sessions = wanted
        .iter()
        .map(|(_, session)| words::summary(session))
        .collect();
    Ok(SessionPage { sessions, next })
}
