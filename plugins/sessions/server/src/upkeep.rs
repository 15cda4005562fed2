//! Sessions' files, for whoever may reach the sessions.

use std::path::PathBuf;

use bezel_api_server::{ImportManaged, ManagedSessions, ServerContext, Upkeep};
use bezel_context::{Principal, Workspaces};
use bezel_rpc::Context;
use bezel_session_types::{CheckSummary, ExportFormat, SessionId, SessionSize};
use bezel_sessions_contract::{ImportSession, Imported, SessionError, SessionUpkeep};

use crate::words;

pub(crate) struct UpkeepService {
    managed: ManagedSessions,
    upkeep: Upkeep,
}

impl UpkeepService {
    pub(crate) fn new(cx: &ServerContext) -> Self {
        UpkeepService {
            managed: cx.fleet.managed.clone(),
            upkeep: cx.upkeep.clone(),
        }
    }

    /// The session, where the caller may reach it. One without a record is its local user's.
    fn reached(&self, cx: &Context, session_id: &SessionId) -> Result<SessionId, SessionError> {
        let known = self.managed.authorized(cx, session_id);
        let stray = || {
            !self
                .managed
                .snapshot()
                .iter()
                .any(|known| known.session_id == *session_id)
        };
        match known {
            Ok(session) => Ok(session.session_id),
            Err(_) if is_whole_local(cx) && stray() => Ok(session_id.clone()),
            Err(error) => Err(words::error(error)),
        }
    }
}

/// A client of this machine, which shares its files.
fn local(cx: &Context) -> Result<&Principal, SessionError> {
    let principal = cx.principal().map(AsRef::as_ref);
    principal
        .filter(|principal| principal.credential.is_none())
        .ok_or_else(|| SessionError::Invalid {
            message: "files can be named only on the server's own machine: run the command there"
                .into(),
        })
}

fn is_whole_local(cx: &Context) -> bool {
    local(cx).is_ok_and(|principal| matches!(principal.workspaces, Workspaces::All))
}

fn absolute(what: &str, path: String) -> Result<PathBuf, SessionError> {
    let path = PathBuf::from(path);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(SessionError::Invalid {
            message: format!(
                "{what} {} is not an absolute path; name it from the root on",
                path.display()
            ),
        }),
    }
}

impl SessionUpkeep for UpkeepService {
    async fn import(&self, cx: &Context, options: ImportSession) -> Result<Imported, SessionError> {
        let options = ImportManaged {
            owner: local(cx)?.owner.clone(),
            file: absolute("the file", options.file)?,
            directory: options
                .directory
                .map(|directory| absolute("the directory", directory))
                .transpose()?,
            fallback: absolute("the directory", options.fallback)?,
        };
        let (session, summary) = self
            .upkeep
            .import(cx, options)
            .await
            .map_err(words::error)?;
        Ok(Imported {
            session: words::summary(&session),
            summary,
        })
    }

    async fn export(
        &self,
        cx: &Context,
        session_id: SessionId,
        file: String,
        format: Option<ExportFormat>,
    ) -> Result<(), SessionError> {
        local(cx)?;
        let session = self
            .managed
            .authorized(cx, &session_id)
            .map_err(words::error)?;
        let file = absolute("the file", file)?;
        let id = &session.session_id;
        // As it was before there was a choice.
        let format = format.unwrap_or_default();
        let exported = self.upkeep.export(cx, id, file, format).await;
        exported.map_err(words::error)
    }

    async fn check(
        &self,
        cx: &Context,
        session_id: SessionId,
    ) -> Result<CheckSummary, SessionError> {
        let session_id = self.reached(cx, &session_id)?;
        self.upkeep
            .check(cx, &session_id)
            .await
            .map_err(words::error)
    }

    async fn strays(&self, cx: &Context) -> Result<Vec<SessionId>, SessionError> {
        match is_whole_local(cx) {
            true => self.upkeep.strays(cx).await.map_err(words::error),
            false => Ok(Vec::new()),
        }
    }

    async fn sizes(&self, cx: &Context) -> Result<Vec<SessionSize>, SessionError> {
        let sessions = self.managed.snapshot().into_iter();
        let reached = sessions.filter(|session| {
            cx.principal()
                .is_some_and(|principal| self.managed.reaches(principal, session))
        });
        let reached = reached.map(|session| session.session_id).collect();
        let mut sizes = self.upkeep.sizes(cx, reached).await.map_err(words::error)?;
        sizes.sort_by_key(|size| std::cmp::Reverse(size.total()));
        Ok(sizes)
    }
}
