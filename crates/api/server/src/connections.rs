//! Who is connected, and the end of a connection: for the plugin that gives out credentials.

use std::sync::Arc;

use bezel_context::{ClientId, Principal};

use crate::host::ConnectionBackend;

/// The grant for [`Connections`].
pub const CONNECTIONS_GRANT: &str = "server.connections";

/// The presentations that are connected.
#[derive(Clone)]
pub struct Connections {
    backend: Arc<dyn ConnectionBackend>,
}

impl Connections {
    pub(crate) fn new(backend: Arc<dyn ConnectionBackend>) -> Self {
        Connections { backend }
    }

    /// For whom each connected presentation acts.
    pub fn principals(&self) -> Vec<Principal> {
        self.backend.principals()
    }

    /// Ends a connection at once: nothing that it still sends is acted on, and what it has in flight is
    /// cancelled. It is told `reason`. False where it has ended already.
    pub fn end(&self, client: &ClientId, reason: &str) -> bool {
        self.backend.end(client, reason)
    }
}
