//! The files of sessions behind the facets' handle.

use std::path::PathBuf;

use bezel_api_server::host::{FleetResult, UpkeepBackend};
use bezel_api_server::{FleetError, ImportManaged, ManagedSession};
use bezel_context::{Context, WorkspaceId};
use bezel_session_types::{CheckSummary, ExportFormat, ImportSummary, SessionId, SessionSize};
use futures::FutureExt;

use crate::blocking::blocking;
use crate::errand::{Errand, ErrandOutcome};
use crate::fleet::HostFleet;

impl HostFleet {
    async fn run(&self, errand: Errand) -> Result<ErrandOutcome, FleetError> {
        match self.workers.launcher().errand(errand).await {
            Ok(ErrandOutcome::Failed { message }) => Err(FleetError::Invalid(message)),
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(FleetError::Storage(error.to_string())),
        }
    }

    async fn exported(
        self,
        session_id: SessionId,
        file: PathBuf,
        format: ExportFormat,
    ) -> Result<(), FleetError> {
        let session = self.known(&session_id)?;
        let files = self.records.files();
        let errand = Errand::Export {
            database: files.database(&session_id),
            output: files.output(&session_id),
            file,
            format,
            session_id,
            title: session.title,
            directory: session.directory,
            version: self.version.as_ref().into(),
        };
        match self.run(errand).await? {
            ErrandOutcome::Exported => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn imported(
        self,
        cx: Context,
        options: ImportManaged,
    ) -> Result<(ManagedSession, ImportSummary), FleetError> {
        let session_id = SessionId::generate();
        let files = self.records.files().clone();
        let wrong = {
            let root = files.root().display().to_string();
            move |error: std::io::Error| {
                FleetError::Storage(format!(
                    "cannot make a folder in {root}: {error}; check that it is writable and the disk not full"
                ))
            }
        };
        let begun = {
            let (files, id) = (files.clone(), session_id.clone());
            blocking(move || files.begin(&id)).await
        };
        let folder = begun.map_err(wrong)?;
        let written = self.write_in(&cx, &session_id, folder, options).await;
        if written.is_err() {
            let (files, id) = (files.clone(), session_id.clone());
            if let Err(error) = blocking(move || files.abandon(&id)).await {
                tracing::warn!(session = %session_id, %error, "the files of a session that was not taken in remain");
            }
        }
        written
    }

    async fn write_in(
        &self,
        cx: &Context,
        session_id: &SessionId,
        folder: PathBuf,
        options: ImportManaged,
    ) -> Result<(ManagedSession, ImportSummary), FleetError> {
        let files = self.records.files();
        let errand = Errand::Import {
            file: options.file,
            database: files.database_in(&folder),
            output: files.output_in(&folder),
            output_later: files.output(session_id),
        };
        let summary = match self.run(errand).await? {
            ErrandOutcome::Imported { summary } => summary,
            other => return Err(unexpected(&other)),
        };
        let principal = cx.principal().map(AsRef::as_ref);
        let location = match (options.directory, summary.directory.clone()) {
            (Some(asked), _) => self.locate_for(principal, asked).await?,
            (None, Some(was)) => match self.locate_for(principal, was).await {
                Ok(location) => location,
                Err(_) => self.locate_for(principal, options.fallback).await?,
            },
            (None, None) => self.locate_for(principal, options.fallback).await?,
        };
        let owner = options.owner;
        let may_use = |workspace: &WorkspaceId| match cx.principal() {
            Some(principal) => self.may_reach(principal, &owner, workspace, None),
            None => true,
        };
        let session = self
            .records
            .take_in(cx, session_id, &owner, &summary.title, location, may_use)
            .await?;
        Ok((session, summary))
    }
}

fn unexpected(outcome: &ErrandOutcome) -> FleetError {
    FleetError::Storage(format!(
        "an errand came to something else: {outcome:?}; this is a mistake in Bezel"
    ))
}

impl UpkeepBackend for HostFleet {
    fn import(
        &self,
        cx: &Context,
        options: ImportManaged,
    ) -> FleetResult<(ManagedSession, ImportSummary)> {
        self.whole("import session", self.clone().imported(cx.clone(), options))
    }

    fn export(
        &self,
        _cx: &Context,
        session_id: SessionId,
        file: PathBuf,
        format: ExportFormat,
    ) -> FleetResult<()> {
        let exported = self.clone().exported(session_id, file, format);
        self.whole("export session", exported)
    }

    fn check(&self, _cx: &Context, session_id: SessionId) -> FleetResult<CheckSummary> {
        let fleet = self.clone();
        self.whole("check session", async move {
            let files = fleet.records.files();
            if fleet.records.get(&session_id).is_none() && !files.has(&session_id) {
                return Err(FleetError::NotAuthorized { session_id });
            }
            let errand = Errand::Check {
                database: files.database(&session_id),
                output: files.output(&session_id),
            };
            match fleet.run(errand).await? {
                ErrandOutcome::Checked { summary } => Ok(summary),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn strays(&self, _cx: &Context) -> FleetResult<Vec<SessionId>> {
        let (records, files) = (self.records.clone(), self.records.files().clone());
        async move {
            let listed = blocking(move || files.session_ids()).await;
            let (ids, _) = listed.map_err(|error| {
                FleetError::Storage(format!("cannot list the sessions' folders: {error}"))
            })?;
            Ok(ids
                .into_iter()
                .filter(|id| records.get(id).is_none())
                .collect())
        }
        .boxed()
    }

    fn sizes(&self, _cx: &Context, sessions: Vec<SessionId>) -> FleetResult<Vec<SessionSize>> {
        let files = self.records.files().clone();
        async move {
            let measured = move || sessions.iter().map(|id| files.size(id)).collect();
            Ok(blocking(measured).await)
        }
        .boxed()
    }

    fn is_pending(&self, _cx: &Context, session_id: SessionId) -> FleetResult<bool> {
        let files = self.records.files().clone();
        async move {
            let pending = blocking(move || files.is_pending(&session_id)).await;
            pending.map_err(|error| FleetError::Storage(error.to_string()))
        }
        .boxed()
    }
}
