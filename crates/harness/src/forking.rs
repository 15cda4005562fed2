//! Copying a session into a new file, while it goes on.

use std::path::PathBuf;

use bezel_session_types::{EntryId, LaneName};
use bezel_store::{ForkError as StoreError, ForkOrigin, ForkScope, ReadError, fork};

use crate::harness::Harness;

/// What a fork takes, and where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkRequest {
    /// The entry that the fork's main lane begins at; none for this session's tip.
    pub at: Option<EntryId>,
    /// The path to that entry, or the whole tree.
    pub scope: ForkScope,
    /// The new database; nothing is there yet.
    pub into: PathBuf,
}

/// A session that was not forked. Nothing is left of the new file.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The main lane has no entry.
    #[error("there is nothing to fork yet: send a message first")]
    Nothing,
    /// The file could not be written, or the entry is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session was closed meanwhile.
    #[error("the session is closed: open it again")]
    Closed,
}

impl ForkError {
    /// Whether the entry to fork at is not there.
    pub fn is_unknown(&self) -> bool {
        matches!(self, ForkError::Store(StoreError::Unknown { .. }))
    }
}

impl Harness {
    /// Writes a copy of this session's tree as another session's database, and says how many entries it
    /// has. The copy is idle and has used nothing; what runs here goes on undisturbed.
    pub async fn fork(&self, request: ForkRequest) -> Result<u64, ForkError> {
        let ForkRequest { at, scope, into } = request;
        let entry = at
            .or_else(|| self.tree().leaf(&LaneName::main()))
            .ok_or(ForkError::Nothing)?;
        let origin = ForkOrigin {
            session_id: self.session_id().clone(),
            entry,
        };
        let source = self.session().store.path().to_owned();
        let written =
            tokio::task::spawn_blocking(move || fork(&source, &into, scope, &origin)).await;
        Ok(written.map_err(|_| ForkError::Closed)??)
    }

    /// What this session was forked from; none where it was not.
    pub fn origin(&self) -> Result<Option<ForkOrigin>, ReadError> {
        self.session().store.read(|queries| queries.origin())
    }
}
