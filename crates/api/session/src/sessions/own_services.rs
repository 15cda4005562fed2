//! What a session's own services do, for the others of its process.

use bezel_context::Context;
use bezel_rewind_contract::{Restored, RewindClient, StageRequest, Staged};
use bezel_rpc::ServiceClient;
use bezel_session_types::SessionId;
use bezel_sessions_contract::{ForkRequest, SessionForkClient, SessionSummary};

use super::{Sessions, SessionsError};

impl Sessions {
    /// Copies a session of this tree: one path of its entries, or all of them, into a new session like the one that
    /// a person gets who forks it. That one is a root, whatever was copied, works where the copied one does and
    /// runs nothing. What runs in the copied one goes on, the tool that calls this included.
    pub async fn fork(
        &self,
        cx: &Context,
        session_id: &SessionId,
        request: ForkRequest,
    ) -> Result<SessionSummary, SessionsError> {
        let fork: SessionForkClient = self.service(cx, session_id).await?;
        let forked = fork.fork(cx, request).await;
        forked.map_err(|error| SessionsError::of_service(session_id, SessionForkClient::ID, error))
    }

    /// Puts the files of a session of this tree back to how they were before the turn of a message, and lets the
    /// conversation go along. A session in which something runs is busy, so a tool cannot do it to its own.
    pub async fn rewind_stage(
        &self,
        cx: &Context,
        session_id: &SessionId,
        request: StageRequest,
    ) -> Result<Staged, SessionsError> {
        let rewind: RewindClient = self.service(cx, session_id).await?;
        let staged = rewind.stage(cx, request).await;
        staged.map_err(|error| SessionsError::of_service(session_id, RewindClient::ID, error))
    }

    /// Brings back what the files were before they were staged; with `force` also those that were edited since.
    pub async fn rewind_clear(
        &self,
        cx: &Context,
        session_id: &SessionId,
        force: bool,
    ) -> Result<Restored, SessionsError> {
        let rewind: RewindClient = self.service(cx, session_id).await?;
        let cleared = rewind.clear(cx, force).await;
        cleared.map_err(|error| SessionsError::of_service(session_id, RewindClient::ID, error))
    }

    /// Keeps the files as staged, and has the conversation go where that was staged.
    pub async fn rewind_commit(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<Restored, SessionsError> {
        let rewind: RewindClient = self.service(cx, session_id).await?;
        let kept = rewind.commit(cx).await;
        kept.map_err(|error| SessionsError::of_service(session_id, RewindClient::ID, error))
    }

    /// A service of a session of this tree, which is taken up where it is not.
    async fn service<C: ServiceClient>(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<C, SessionsError> {
        let services = self.tree.reach(cx, &self.own, session_id).await?;
        Ok(services.use_service())
    }
}
