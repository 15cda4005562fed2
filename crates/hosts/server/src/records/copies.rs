//! Sessions that workers make of their own: written beside the others, out of sight, and moved among them
//! when they are whole.

use std::path::PathBuf;

use bezel_api_server::{FleetError, ManagedSession};
use bezel_context::Context;
use bezel_session_types::SessionId;

use super::files::Card;
use super::title::{checked_title, shortened};
use super::{Record, Records};
use crate::blocking::blocking;

/// What tells the title of a copy from that of its source.
const REMARK: &str = " (fork)";

impl Records {
    /// A folder out of sight for a copy of `of`, and the database in it that is to be written.
    pub(crate) async fn begin_copy(
        &self,
        of: &ManagedSession,
    ) -> Result<(SessionId, PathBuf), FleetError> {
        let session_id = SessionId::generate();
        let card = Card {
            owner: of.owner.clone(),
            workspace_root: self
                .root(&of.workspace_id)
                .unwrap_or_else(|| of.directory.clone()),
            directory: of.directory.clone(),
            permission_mode: of.permission_mode,
            created_at: self.0.clock.now(),
            parent_id: None,
            agent: of.agent.clone(),
        };
        let (files, id) = (self.files().clone(), session_id.clone());
        let begun = blocking(move || files.begin_copy(&id, &card)).await;
        let database = begun.map_err(|error| {
            FleetError::Storage(format!(
                "cannot make a folder for a copy of session {}: {error}; check that {} is writable and the disk not full",
                of.session_id,
                self.files().root().display()
            ))
        })?;
        self.0
            .lock()
            .copies
            .insert(session_id.clone(), of.session_id.clone());
        Ok((session_id, database))
    }

    /// Moves a whole copy among the sessions and gives it a record like that of `of`.
    pub(crate) async fn place_copy(
        &self,
        cx: &Context,
        of: &ManagedSession,
        session_id: SessionId,
        title: Option<String>,
    ) -> Result<ManagedSession, FleetError> {
        let title = match title {
            Some(title) => checked_title(&title)?,
            None if of.title.is_empty() => String::new(),
            None => shortened(&of.title) + REMARK,
        };
        self.take_copy(&of.session_id, &session_id)?;
        let _line = self.0.line.lock().await;
        let (files, id) = (self.files().clone(), session_id.clone());
        let placed = blocking(move || files.place_copy(&id)).await;
        placed.map_err(|error| {
            FleetError::Storage(format!(
                "cannot place a copy of session {}: {error}",
                of.session_id
            ))
        })?;
        let now = self.0.clock.now();
        let record = Record {
            session_id: session_id.clone(),
            title,
            owner: of.owner.clone(),
            workspace_id: of.workspace_id.clone(),
            directory: of.directory.clone(),
            parent_id: None,
            agent: of.agent.clone(),
            model: of.model.clone(),
            thinking_level: of.thinking_level,
            permission_mode: of.permission_mode,
            created_at: now,
            updated_at: now,
            archived_at: None,
        };
        let inserted = self.insert(cx, record, None).await;
        if inserted.is_err() {
            // Nobody has been told of it: it does not stay to be adopted.
            let files = self.files().clone();
            let gone = blocking(move || {
                files.withdraw(&session_id)?;
                files.discard(&session_id)
            });
            if let Err(error) = gone.await {
                tracing::warn!(%error, "files of a copy without a record remain");
            }
        }
        inserted
    }

    /// Clears a copy away.
    pub(crate) async fn abandon_copy(
        &self,
        of: &SessionId,
        session_id: &SessionId,
    ) -> Result<(), FleetError> {
        self.take_copy(of, session_id)?;
        self.clear_copies(vec![session_id.clone()]).await;
        Ok(())
    }

    /// Clears away what a worker that is gone has begun and not finished.
    pub(crate) async fn abandon_copies(&self, of: &SessionId) {
        let begun: Vec<SessionId> = {
            let mut memory = self.0.lock();
            let begun = memory.copies.extract_if(|_, source| source == of);
            begun.map(|(copy, _)| copy).collect()
        };
        if !begun.is_empty() {
            self.clear_copies(begun).await;
        }
    }

    async fn clear_copies(&self, copies: Vec<SessionId>) {
        let files = self.files().clone();
        let cleared = blocking(move || copies.iter().try_for_each(|id| files.clear_copy(id))).await;
        if let Err(error) = cleared {
            tracing::warn!(%error, "an unfinished copy of a session remains");
        }
    }

    fn take_copy(&self, of: &SessionId, session_id: &SessionId) -> Result<(), FleetError> {
        let mut memory = self.0.lock();
        match memory.copies.get(session_id) == Some(of) {
            true => {
                memory.copies.remove(session_id);
                Ok(())
            }
            false => Err(FleetError::NotAuthorized {
                session_id: session_id.clone(),
            }),
        }
    }
}
