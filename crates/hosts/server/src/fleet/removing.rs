//! Sessions that go.

use bezel_api_server::FleetError;
use bezel_context::Context;
use bezel_session_types::SessionId;

use super::HostFleet;
use crate::blocking::blocking;

impl HostFleet {
    /// A session goes with all that it began: its children first, so that what is left after a crash is whole.
    pub(super) async fn removed(
        self,
        cx: Context,
        session_id: SessionId,
    ) -> Result<(), FleetError> {
        for child in self.records.descendants(&session_id).into_iter().rev() {
            self.removed_alone(&cx, child).await?;
        }
        self.removed_alone(&cx, session_id).await
    }

    async fn removed_alone(&self, cx: &Context, session_id: SessionId) -> Result<(), FleetError> {
        self.known(&session_id)?;
        self.workers.remove(&session_id).await?;
        for client in self.router.clients_of(session_id.as_str()) {
            self.detach(&client);
        }
        let deleted = self.records.delete(cx, &session_id).await;
        self.workers.forget(&session_id);
        deleted?;
        let (launcher, id) = (self.workers.launcher(), session_id.clone());
        blocking(move || launcher.forget(&id)).await.map_err(|error| {
            FleetError::Storage(format!(
                "session {session_id} is deleted, and what its commands left in the temporary directory is not: {error}"
            ))
        })
    }
}
