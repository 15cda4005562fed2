//! Session databases without a record: found, read and given one.

use std::path::PathBuf;

use bezel_api_server::{FleetError, ManagedSession};
use bezel_context::Context;
use bezel_session_types::SessionId;

use super::files::{Card, Found};
use super::{Record, Records, RecordsError};
use crate::blocking::blocking;

impl Records {
    /// Gives a record to every session database that has none. Waits for the disk only where there is
    /// one.
    pub(crate) async fn adopt(&self, owner: &str) -> Result<(), RecordsError> {
        let files = self.files().clone();
        let known = self
            .0
            .lock()
            .sessions
            .keys()
            .cloned()
            .collect::<std::collections::HashSet<_>>();
        let ids = files.session_ids();
        let (ids, withdrawn) = ids.map_err(|source| RecordsError::Io {
            path: files.root().to_owned(),
            source,
        })?;
        let unknown: Vec<SessionId> = ids.into_iter().filter(|id| !known.contains(id)).collect();
        {
            let files = files.clone();
            if let Err(error) = blocking(move || files.abandon_all()).await {
                tracing::warn!(%error, "files of a session that was not taken in remain");
            }
        }
        for id in withdrawn.iter().filter(|id| known.contains(id)) {
            // It died between taking the files out of sight and deleting the record.
            if let Err(error) = self.delete(&Context::background(), id).await {
                tracing::warn!(session = %id, %error, "a deletion could not be ended");
            }
        }
        if !withdrawn.is_empty() {
            let files = files.clone();
            let discarded =
                blocking(move || withdrawn.iter().try_for_each(|id| files.discard(id))).await;
            if let Err(error) = discarded {
                tracing::warn!(%error, "files of a deleted session remain");
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let found: Vec<Found> =
            blocking(move || unknown.iter().filter_map(|id| files.inspect(id)).collect()).await;
        for found in found {
            let session_id = found.session_id.clone();
            match self.adopt_one(owner, found).await {
                Ok(_) => {
                    tracing::info!(session = %session_id, "a session file without a record was adopted")
                }
                Err(error) => {
                    tracing::warn!(session = %session_id, %error, "a session was not adopted")
                }
            }
        }
        Ok(())
    }

    async fn adopt_one(&self, owner: &str, found: Found) -> Result<ManagedSession, FleetError> {
        let _line = self.0.line.lock().await;
        let now = self.0.clock.now();
        let Found {
            session_id,
            folder,
            card,
            title,
            updated_at,
        } = found;
        let card = card.unwrap_or_else(|| homeless(owner, folder, updated_at.unwrap_or(now)));
        let (workspace_id, new) = self.workspace_of(card.workspace_root);
        let record = Record {
            session_id,
            title,
            owner: card.owner,
            workspace_id,
            directory: card.directory,
            model: None,
            thinking_level: None,
            permission_mode: card.permission_mode,
            created_at: card.created_at,
            updated_at: updated_at.unwrap_or(now),
        };
        self.insert(&Context::background(), record, new).await
    }
}

/// A session whose place nobody knows any more works in its own folder.
fn homeless(owner: &str, folder: PathBuf, created_at: jiff::Timestamp) -> Card {
    Card {
        owner: owner.into(),
        workspace_root: folder.clone(),
        directory: folder,
        permission_mode: Default::default(),
        created_at,
    }
}
