//! Who waits for what happens in a session, and what they are told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_api_server::{FleetError, ManagedSession, ManagedSessions};
use bezel_rpc::Context;
use bezel_session_types::{JournalPage, SessionId};
use bezel_sessions_contract::{SessionCursor, SessionError, SessionNews, SessionSnapshot};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::words;

/// A place that no session comes to: what is read after it says how far a session is.
const BEYOND: u64 = i64::MAX as u64;

/// How long files may be gone before it is said that their session was deleted.
const LEAVING: Duration = Duration::from_secs(2);

/// Wakes those who wait, each for the session that it waits for.
#[derive(Clone, Default)]
pub(crate) struct Followers(Arc<Mutex<HashMap<SessionId, watch::Sender<bool>>>>);

/// Hears of one session; the value says whether it was deleted.
pub(crate) struct Following {
    followers: Followers,
    session_id: SessionId,
    changes: watch::Receiver<bool>,
}

impl Followers {
    /// Wakes whoever follows the session.
    pub(crate) fn changed(&self, session_id: &SessionId) {
        if let Some(sender) = self.lock().get(session_id) {
            sender.send_modify(|_| {});
        }
    }

    /// Tells whoever follows the session that it is no more.
    pub(crate) fn deleted(&self, session_id: &SessionId) {
        if let Some(sender) = self.lock().remove(session_id) {
            sender.send_replace(true);
        }
    }

    /// Hears of everything in a session from now on.
    fn follow(&self, session_id: &SessionId) -> Following {
        let mut senders = self.lock();
        let sender = senders.entry(session_id.clone()).or_default();
        Following {
            followers: self.clone(),
            session_id: session_id.clone(),
            changes: sender.subscribe(),
        }
    }

    // A plain mutex: held for a look, never across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Following {
    /// Whether the session is deleted, or is about to be: its files go before it is said.
    async fn is_deleted_soon(&mut self) -> bool {
        let deleted = self.changes.wait_for(|is_deleted| *is_deleted);
        matches!(tokio::time::timeout(LEAVING, deleted).await, Ok(Ok(_)))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut senders = self.followers.lock();
        let alone = senders
            .get(&self.session_id)
            .is_some_and(|sender| sender.receiver_count() <= 1);
        // One of a session that was deleted, and perhaps made again, is another's.
        if alone && !*self.changes.borrow() {
            senders.remove(&self.session_id);
        }
    }
}

/// What followed `after`; waits where nothing did yet.
pub(crate) async fn follow(
    managed: &ManagedSessions,
    followers: &Followers,
    cx: &Context,
    session_id: &SessionId,
    after: Option<&str>,
    limit: usize,
) -> Result<SessionNews, SessionError> {
    // Before the first look: what happens between a look and the wait is not missed.
    let mut following = followers.follow(session_id);
    let mut has_waited = false;
    let deleted = || SessionNews {
        next: after.unwrap_or_default().to_owned(),
        deleted: true,
        ..SessionNews::default()
    };
    loop {
        following.changes.mark_unchanged();
        let session = match managed.authorized(cx, session_id) {
            // It was within reach when the wait began, and no credential loses what it reaches.
            Err(FleetError::NotAuthorized { .. }) if has_waited => return Ok(deleted()),
            found => found.map_err(words::error)?,
        };
        let found = look(managed, cx, &session, after, limit).await;
        if seems_gone(&found, after) && following.is_deleted_soon().await {
            return Ok(deleted());
        }
        if let Some(news) = found? {
            return Ok(news);
        }
        let changed = cx.run(following.changes.changed()).await;
        let is_told = changed.map_err(|_| ended(cx))?.is_ok();
        if !is_told || *following.changes.borrow() {
            return Ok(deleted());
        }
        has_waited = true;
    }
}

/// Whether a look found what it finds of a session whose files are being deleted: something broken, or nothing where
/// there was something.
fn seems_gone(found: &Result<Option<SessionNews>, SessionError>, after: Option<&str>) -> bool {
    let was_there = after
        .and_then(SessionCursor::read)
        .is_some_and(|cursor| cursor.seq > 0);
    match found {
        Err(SessionError::Storage { .. }) => true,
        Ok(Some(news)) => {
            let snapshot = news.snapshot.as_ref();
            was_there && snapshot.is_some_and(|snapshot| snapshot.seq == 0)
        }
        _ => false,
    }
}

fn ended(cx: &Context) -> SessionError {
    let why = cx.status().err().map(|why| why.to_string());
    SessionError::Invalid {
        message: format!(
            "the wait for news ended: {}; ask again with the same cursor",
            why.unwrap_or_default()
        ),
    }
}

/// What followed `after`; none where nothing did.
async fn look(
    managed: &ManagedSessions,
    cx: &Context,
    session: &ManagedSession,
    after: Option<&str>,
    limit: usize,
) -> Result<Option<SessionNews>, SessionError> {
    let record = standing(session);
    let known = after.and_then(SessionCursor::read);
    let page = match &known {
        Some(cursor) => read(managed, cx, session, cursor.seq, limit).await?,
        None => read(managed, cx, session, BEYOND, limit).await?,
    };
    let next = SessionCursor {
        seq: page.next,
        record: record.clone(),
    };
    let news = SessionNews {
        next: next.to_string(),
        ..SessionNews::default()
    };
    if let Some(gap) = page.gap {
        return Ok(Some(SessionNews {
            snapshot: Some(SessionSnapshot {
                session: words::summary(session),
                tip: gap.tip,
                seq: gap.snapshot,
            }),
            ..news
        }));
    }
    let changed = known.is_some_and(|cursor| cursor.record != record);
    if page.events.is_empty() && !changed {
        return Ok(None);
    }
    Ok(Some(SessionNews {
        session: changed.then(|| words::summary(session)),
        facts: page.events,
        ..news
    }))
}

async fn read(
    managed: &ManagedSessions,
    cx: &Context,
    session: &ManagedSession,
    after: u64,
    limit: usize,
) -> Result<JournalPage, SessionError> {
    let page = managed.journal(cx, &session.session_id, after, limit).await;
    page.map_err(words::error)
}

/// Stands for what a follower is told of a record: the same for the same, also in another process.
fn standing(session: &ManagedSession) -> String {
    let said = serde_json::json!([
        session.title,
        session.agent,
        session.model,
        session.archived_at.is_some(),
    ]);
    let digest = Sha256::digest(said.to_string());
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_hear_of_their_own_session_and_nothing_is_kept_of_those_that_left() {
        let followers = Followers::default();
        let [mine, other] = ["mine", "other"].map(SessionId::new);
        let (mut one, two) = (followers.follow(&mine), followers.follow(&mine));
        followers.changed(&other);
        assert!(!one.changes.has_changed().unwrap());
        followers.changed(&mine);
        assert!(one.changes.has_changed().unwrap());
        drop(two);
        one.changes.mark_unchanged();
        followers.deleted(&mine);
        assert!(one.changes.has_changed().unwrap_or(true) && *one.changes.borrow());
        // Made again under its id, while somebody still holds on to the one that was deleted.
        let again = followers.follow(&mine);
        drop(one);
        assert_eq!(followers.lock().len(), 1);
        drop(again);
        assert!(followers.lock().is_empty());
    }
}
