//! The blobs of the session that the test plays: kept as a session keeps them, at the test's pace.

use std::sync::Arc;

use bezel_blobs_contract::{BlobError, BlobStat, Blobs, Chunk, Piece, ReadSource};
use bezel_context::Context;
use bezel_session_types::BlobId;

use super::support::Played;

pub(super) struct FakeBlobs(pub(super) Arc<Played>);

impl Blobs for FakeBlobs {
    async fn stat(&self, _cx: &Context, ids: Vec<BlobId>) -> Result<Vec<BlobStat>, BlobError> {
        ids.iter().map(|id| self.0.blobs.stat(id)).collect()
    }

    async fn put(
        &self,
        _cx: &Context,
        id: BlobId,
        size: u64,
        offset: u64,
        chunk: Chunk,
    ) -> Result<BlobStat, BlobError> {
        let permit = self.0.chunk_gate.acquire().await;
        permit.expect("the gate is never closed").forget();
        self.0.chunks.send_modify(|chunks| chunks.push(offset));
        self.0.blobs.put(&id, size, offset, &chunk)
    }

    async fn read(
        &self,
        _cx: &Context,
        _source: ReadSource,
        _offset: u64,
        _length: u32,
    ) -> Result<Piece, BlobError> {
        Err(BlobError::Malformed {
            message: "the test reads nothing".into(),
        })
    }
}
