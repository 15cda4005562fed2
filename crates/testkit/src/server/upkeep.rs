//! The files of sessions that have none: what a test says of each.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_server::host::{FleetResult, UpkeepBackend};
use bezel_api_server::{FleetError, ImportManaged, ManagedSession};
use bezel_context::Context;
use bezel_session_types::{
    CheckSummary, ExportFormat, ImportSummary, SessionId, SessionSize, SourceFormat,
};
use futures::FutureExt;

use super::fleet::FakeFleet;

pub(super) struct Backend(pub(super) Arc<FakeFleet>);

fn now<T: Send + 'static>(outcome: Result<T, FleetError>) -> FleetResult<T> {
    async move { outcome }.boxed()
}

impl UpkeepBackend for Backend {
    fn import(
        &self,
        _cx: &Context,
        options: ImportManaged,
    ) -> FleetResult<(ManagedSession, ImportSummary)> {
        let directory = options.directory.unwrap_or(options.fallback);
        let session = self.0.add(&options.owner, &directory.to_string_lossy());
        let summary = ImportSummary {
            format: SourceFormat::Bezel,
            origin: None,
            title: String::new(),
            directory: Some(directory),
            entries: 0,
            left_out: Default::default(),
            updated_at: None,
        };
        now(Ok((session, summary)))
    }

    fn export(
        &self,
        _cx: &Context,
        session_id: SessionId,
        file: PathBuf,
        format: ExportFormat,
    ) -> FleetResult<()> {
        self.0.files().exported.push((session_id, file, format));
        now(Ok(()))
    }

    fn check(&self, _cx: &Context, session_id: SessionId) -> FleetResult<CheckSummary> {
        let found = self.0.files().checks.get(&session_id).cloned();
        now(Ok(found.unwrap_or_default()))
    }

    fn strays(&self, _cx: &Context) -> FleetResult<Vec<SessionId>> {
        now(Ok(Vec::new()))
    }

    fn sizes(&self, _cx: &Context, sessions: Vec<SessionId>) -> FleetResult<Vec<SessionSize>> {
        let files = self.0.files();
        let size = |session_id: SessionId| SessionSize {
            database: files.sizes.get(&session_id).copied().unwrap_or_default(),
            log: 0,
            output: 0,
            session_id,
        };
        let sizes = sessions.into_iter().map(size).collect();
        now(Ok(sizes))
    }

    fn is_pending(&self, _cx: &Context, session_id: SessionId) -> FleetResult<bool> {
        now(Ok(self.0.files().pending.contains(&session_id)))
    }
}
