//! The files of sessions, apart from what runs in them.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{CheckSummary, ExportFormat, ImportSummary, SessionId, SessionSize};

use crate::host::UpkeepBackend;
use crate::{FleetError, ManagedSession};

/// Takes sessions in, packs, checks and measures them. Nothing here asks who may: that is for the facet that
/// was asked, and files are named by paths of this machine.
#[derive(Clone)]
pub struct Upkeep {
    backend: Arc<dyn UpkeepBackend>,
}

/// A session to take in.
#[derive(Debug, Clone)]
pub struct ImportManaged {
    /// Whose it will be.
    pub owner: String,
    /// The file, absolute.
    pub file: PathBuf,
    /// Where it will work; without one where it worked, if that is there.
    pub directory: Option<PathBuf>,
    /// Where it will work otherwise.
    pub fallback: PathBuf,
}

impl Upkeep {
    pub(crate) fn new(backend: Arc<dyn UpkeepBackend>) -> Self {
        Upkeep { backend }
    }

    /// Takes a session in as a new one, with a record and without a worker.
    pub async fn import(
        &self,
        cx: &Context,
        options: ImportManaged,
    ) -> Result<(ManagedSession, ImportSummary), FleetError> {
        self.backend.import(cx, options).await
    }

    /// Writes a session into a new file, whether something runs in it or not.
    pub async fn export(
        &self,
        cx: &Context,
        session_id: &SessionId,
        file: PathBuf,
        format: ExportFormat,
    ) -> Result<(), FleetError> {
        let session = session_id.clone();
        self.backend.export(cx, session, file, format).await
    }

    /// Checks a session's files, also of one that has no record.
    pub async fn check(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<CheckSummary, FleetError> {
        self.backend.check(cx, session_id.clone()).await
    }

    /// Session folders without a record: what could not be adopted.
    pub async fn strays(&self, cx: &Context) -> Result<Vec<SessionId>, FleetError> {
        self.backend.strays(cx).await
    }

    /// What these sessions take of the disk, in their order.
    pub async fn sizes(
        &self,
        cx: &Context,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<SessionSize>, FleetError> {
        self.backend.sizes(cx, sessions).await
    }

    /// Whether a session without a worker has an operation or a message that waits for one.
    pub async fn is_pending(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<bool, FleetError> {
        self.backend.is_pending(cx, session_id.clone()).await
    }
}
