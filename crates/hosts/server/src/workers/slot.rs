//! One worker's place: who it is, how far it has come, and how others wait for that.

use std::sync::Arc;

use bezel_api_server::FleetError;
use bezel_session_types::SessionId;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::LaunchedWorker;

/// A credential's SHA-256: what is kept of it.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest(credential: &str) -> Digest {
    Sha256::digest(credential.as_bytes()).into()
}

/// How far a worker has come.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// Not launched yet.
    Launching,
    /// Launched and not connected yet.
    Launched,
    /// Connected.
    Connected,
    /// It runs and has lost its connection.
    Disconnected,
    /// Gone; why, where it should not be.
    Ended(Option<FleetError>),
}

/// A worker that is launched, runs or ends.
pub(crate) struct Slot {
    pub(crate) credential: Digest,
    pub(crate) phase: watch::Sender<Phase>,
    /// Once it is launched.
    pub(crate) process: Option<Arc<dyn LaunchedWorker>>,
    /// Somebody wants its end.
    pub(crate) stopping: bool,
}

impl Slot {
    pub(crate) fn new(credential: Digest, phase: Phase) -> Self {
        let phase = watch::Sender::new(phase);
        Slot {
            credential,
            phase,
            process: None,
            stopping: false,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Connected)
    }
}

/// Ended because somebody wanted it, while another one waited for it to start.
pub(crate) fn stopped(session_id: &SessionId) -> FleetError {
    let reason = "was stopped before it was ready; try again".into();
    FleetError::Worker {
        session_id: session_id.clone(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_standard() {
        // NIST: SHA-256 of "abc".
        assert_eq!(digest("abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
