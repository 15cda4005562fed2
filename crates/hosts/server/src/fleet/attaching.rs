//! Which client is attached to which session.

use bezel_api_server::FleetError;
use bezel_context::ClientId;
use bezel_session_types::SessionId;

use super::HostFleet;

impl HostFleet {
    pub(super) fn bound(&self, client: &ClientId, session_id: SessionId) -> Result<(), FleetError> {
        let refused = |reason: &str| FleetError::Client {
            client: client.clone(),
            reason: reason.into(),
        };
        let principal = self.router.principal_of(client);
        let principal =
            principal.ok_or_else(|| refused("no presentation is connected under this id"))?;
        self.within_reach(&principal, &session_id)?;
        let bound = self.router.bind(client, session_id.as_str());
        let bound = bound.map_err(|error| refused(&error.to_string()))?;
        if bound.incarnation.is_none() && !self.router.is_connected(session_id.as_str()) {
            // Nobody would start a worker for it: the client would wait for ever.
            self.detach(client);
            return Err(FleetError::Worker {
                session_id,
                reason: "was lost while it was opened; open the session again".into(),
            });
        }
        Ok(())
    }

    /// A client that has gone is detached already.
    pub(super) fn detach(&self, client: &ClientId) {
        if let Err(error) = self.router.unbind(client) {
            tracing::debug!(%client, %error, "nobody to detach");
        }
    }
}
