//! The service over the store and the tree.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_session::SessionTree;
use bezel_blobs_contract::{BlobError, BlobStat, Blobs, Chunk, MOST_IDS, Piece, ReadSource};
use bezel_rpc::Context;
use bezel_session_types::{BlobId, Entry, EntryId, InvocationId, Message};

use crate::outputs;
use crate::store::{BlobStore, read_piece, storage};

pub(crate) struct BlobService {
    pub(crate) store: Arc<BlobStore>,
    pub(crate) tree: SessionTree,
    /// Where whole outputs lie.
    pub(crate) outputs: PathBuf,
}

impl Blobs for BlobService {
    async fn stat(&self, _cx: &Context, ids: Vec<BlobId>) -> Result<Vec<BlobStat>, BlobError> {
        if ids.len() > MOST_IDS {
            return Err(BlobError::TooManyIds {
                count: ids.len() as u64,
                limit: MOST_IDS as u64,
            });
        }
        let store = Arc::clone(&self.store);
        blocking(move || ids.iter().map(|id| store.stat(id)).collect()).await
    }

    async fn put(
        &self,
        _cx: &Context,
        id: BlobId,
        size: u64,
        offset: u64,
        chunk: Chunk,
    ) -> Result<BlobStat, BlobError> {
        let store = Arc::clone(&self.store);
        blocking(move || store.put(&id, size, offset, &chunk)).await
    }

    async fn read(
        &self,
        _cx: &Context,
        source: ReadSource,
        offset: u64,
        length: u32,
    ) -> Result<Piece, BlobError> {
        match source {
            ReadSource::Blob { id } => {
                let store = Arc::clone(&self.store);
                blocking(move || store.read(&id, offset, length)).await
            }
            ReadSource::Output { result } => self.output(result, offset, length).await,
        }
    }
}

impl BlobService {
    async fn output(
        &self,
        result: InvocationId,
        offset: u64,
        length: u32,
    ) -> Result<Piece, BlobError> {
        if !outputs::is_sound(&result) {
            return Err(BlobError::UnknownResult { result });
        }
        let entry = self.tree.entry(&EntryId::new(result.as_str())).await;
        let entry = entry.map_err(|error| BlobError::Storage {
            message: error.to_string(),
        })?;
        let Some(Message::ToolResult(message)) = entry.as_ref().and_then(Entry::message) else {
            return Err(BlobError::UnknownResult { result });
        };
        match outputs::file(message, &self.outputs) {
            Some(path) => {
                let read = move || {
                    read_piece(&path, offset, length)
                        .map_err(|error| storage("read", &path, &error))
                };
                blocking(read).await
            }
            None => Ok(Piece::of(outputs::text(message).as_bytes(), offset, length)),
        }
    }
}

/// Work on the disk, which goes on when nobody waits for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(BlobError::Storage {
            message: "the session ends".into(),
        }),
    }
}
