//! Where workers put the sessions that they make of their own.

use bezel_api_server::{Fleet, ManagedSession};
use bezel_rpc::Context;
use bezel_session_types::SessionId;
use bezel_sessions_contract::{CopyPlace, SessionCopies, SessionError, SessionSummary};

use crate::words;

pub(crate) struct Copies {
    fleet: Fleet,
}

impl Copies {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        Copies {
            fleet: fleet.clone(),
        }
    }

    /// The session whose worker calls; which one, its credential says.
    fn own(&self, cx: &Context) -> Result<ManagedSession, SessionError> {
        let own = self.fleet.managed.of_worker(cx);
        own.ok_or_else(|| SessionError::Invalid {
            message:
                "only a session's own worker writes a copy of it; ask the session to fork instead"
                    .into(),
        })
    }
}

impl SessionCopies for Copies {
    async fn begin(&self, cx: &Context) -> Result<CopyPlace, SessionError> {
        let session = self.own(cx)?;
        let begun = self.fleet.managed.begin_copy(cx, &session.session_id).await;
        let (session_id, database) = begun.map_err(words::error)?;
        Ok(CopyPlace {
            session_id,
            database: database.display().to_string(),
        })
    }

    async fn place(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: Option<String>,
    ) -> Result<SessionSummary, SessionError> {
        let of = self.own(cx)?.session_id;
        let placed = self
            .fleet
            .managed
            .place_copy(cx, &of, &session_id, title)
            .await;
        Ok(words::summary(&placed.map_err(words::error)?))
    }

    async fn abandon(&self, cx: &Context, session_id: SessionId) -> Result<(), SessionError> {
        let of = self.own(cx)?.session_id;
        let abandoned = self.fleet.managed.abandon_copy(cx, &of, &session_id).await;
        abandoned.map_err(words::error)
    }
}
