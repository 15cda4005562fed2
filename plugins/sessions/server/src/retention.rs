//! Deletes old sessions, where the configuration says for how long they are kept or how much they may take.
//!
//! Only sessions without a worker in which nothing waits: never one that runs, is open somewhere or has a
//! message or an operation to go on with. The oldest change goes first.

use std::time::Duration;

use bezel_api_server::{FleetError, ManagedSession, ServerContext, SessionStatus};
use bezel_rpc::Context;
use bezel_session_types::SessionId;
use serde::Deserialize;

/// How often it is looked for what is too old or too much.
const EVERY: Duration = Duration::from_secs(3600);

/// The plugin's configuration. Without either nothing is ever deleted unasked. The facet of another host reads
/// other members of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Days after its last change for which a session is kept.
    keep_days: Option<u32>,
    /// Bytes that all sessions together may take.
    max_bytes: Option<u64>,
}

/// Deletes what is not to be kept, now and from time to time, until the facet ends.
pub(crate) fn keep(cx: &ServerContext, settings: Settings) {
    if settings.keep_days.is_none() && settings.max_bytes.is_none() {
        return;
    }
    let context = cx.clone();
    // The task ends with the facet's scope.
    drop(cx.spawner().spawn("session retention", async move {
        loop {
            if let Err(error) = once(&context, &settings).await {
                tracing::warn!(%error, "old sessions could not be deleted; it is tried again later");
            }
            tokio::time::sleep(EVERY).await;
        }
    }));
}

/// One pass: deletes what is not to be kept and says what that was.
pub(crate) async fn once(
    server: &ServerContext,
    settings: &Settings,
) -> Result<Vec<SessionId>, FleetError> {
    let cx = Context::background();
    let mut deleted = Vec::new();
    let mut sessions = server.fleet.managed.snapshot();
    sessions.reverse();
    if let Some(days) = settings.keep_days {
        let now = server.status.now();
        let limit = Duration::from_secs(u64::from(days) * 24 * 3600);
        for session in &sessions {
            let age = now.duration_since(session.updated_at);
            if age.is_positive() && age.unsigned_abs() > limit && may_go(server, session).await? {
                delete(
                    server,
                    session,
                    "its last change is too long ago",
                    &mut deleted,
                )
                .await?;
            }
        }
    }
    if let Some(most) = settings.max_bytes {
        let left = |session: &&ManagedSession| !deleted.contains(&session.session_id);
        let left: Vec<ManagedSession> = sessions.iter().filter(left).cloned().collect();
        let ids = left
            .iter()
            .map(|session| session.session_id.clone())
            .collect();
        let sizes = server.upkeep.sizes(&cx, ids).await?;
        let mut taken: u64 = sizes.iter().map(|size| size.total()).sum();
        for (session, size) in left.iter().zip(&sizes) {
            if taken <= most {
                break;
            }
            if size.total() > 0 && may_go(server, session).await? {
                delete(
                    server,
                    session,
                    "all sessions together take too much",
                    &mut deleted,
                )
                .await?;
                taken -= size.total();
            }
        }
    }
    Ok(deleted)
}

async fn may_go(server: &ServerContext, session: &ManagedSession) -> Result<bool, FleetError> {
    if session.status != SessionStatus::Closed {
        return Ok(false);
    }
    let pending = server
        .upkeep
        .is_pending(&Context::background(), &session.session_id)
        .await;
    match pending {
        Ok(pending) => Ok(!pending),
        Err(error) => {
            // Nobody can say what it holds: that is for a person to decide.
            tracing::warn!(session = %session.session_id, %error, "a session that cannot be read is kept");
            Ok(false)
        }
    }
}

async fn delete(
    server: &ServerContext,
    session: &ManagedSession,
    why: &'static str,
    deleted: &mut Vec<SessionId>,
) -> Result<(), FleetError> {
    let id = &session.session_id;
    // It may have been opened meanwhile.
    let now = server.fleet.managed.snapshot();
    let closed = now
        .iter()
        .any(|known| known.session_id == *id && known.status == SessionStatus::Closed);
    if !closed {
        return Ok(());
    }
    server
        .fleet
        .managed
        .remove(&Context::background(), id)
        .await?;
    tracing::info!(session = %id, title = session.title, why, "a session was deleted");
    deleted.push(id.clone());
    Ok(())
}
