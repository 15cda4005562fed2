//! Session databases without a record, found or taken in: they are given one.

use std::path::PathBuf;

use bezel_api_server::{FleetError, ManagedSession};
use bezel_context::{Context, WorkspaceId};
use bezel_session_types::SessionId;

use super::files::{Card, Found};
use super::{OUTSIDE, Record, Records, RecordsError, shortened};
use crate::blocking::blocking;
use crate::workspace::Location;

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
        let left = files.clone();
        match blocking(move || left.clear_copies()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "unfinished copies of sessions were cleared away"),
            Err(error) => tracing::warn!(%error, "unfinished copies of sessions remain"),
        }
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

    /// Gives a session that was taken in its place and its record. `may_use` judges the workspace.
    pub(crate) async fn take_in(
        &self,
        cx: &Context,
        session_id: &SessionId,
        owner: &str,
        title: &str,
        location: Location,
        may_use: impl Fn(&WorkspaceId) -> bool,
    ) -> Result<ManagedSession, FleetError> {
        let _line = self.0.line.lock().await;
        let (workspace_id, new) = self.workspace_of(location.root.clone());
        if !may_use(&workspace_id) {
            return Err(FleetError::Directory {
                directory: location.directory.display().to_string(),
                reason: OUTSIDE.into(),
            });
        }
        let now = self.0.clock.now();
        let card = Card {
            owner: owner.into(),
            workspace_root: location.root,
            directory: location.directory.clone(),
            permission_mode: Default::default(),
            created_at: now,
            parent_id: None,
            agent: None,
        };
        let (files, id) = (self.0.files.clone(), session_id.clone());
        let settled = blocking(move || files.settle(&id, &card)).await;
        settled.map_err(|error| {
            FleetError::Storage(format!(
                "cannot give session {session_id} its place in {}: {error}",
                self.0.files.root().display()
            ))
        })?;
        let record = Record {
            session_id: session_id.clone(),
            title: shortened(title),
            owner: owner.into(),
            workspace_id,
            directory: location.directory,
            parent_id: None,
            agent: None,
            model: None,
            thinking_level: None,
            permission_mode: Default::default(),
            created_at: now,
            updated_at: now,
            archived_at: None,
        };
        // A crash before this leaves a folder with a card, which the next start adopts.
        let inserted = self.insert(cx, record, new).await;
        if inserted.is_err() {
            let (files, id) = (self.0.files.clone(), session_id.clone());
            let removed = blocking(move || files.withdraw(&id).and_then(|()| files.discard(&id)));
            if let Err(error) = removed.await {
                tracing::warn!(session = %session_id, %error, "a session that was not recorded remains");
            }
        }
        inserted
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
            parent_id: card.parent_id,
            agent: card.agent,
            model: None,
            thinking_level: None,
            permission_mode: card.permission_mode,
            created_at: card.created_at,
            updated_at: updated_at.unwrap_or(now),
            archived_at: None,
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
        parent_id: None,
        agent: None,
    }
}
