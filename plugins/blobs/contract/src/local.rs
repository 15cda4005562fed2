//! The blobs of the session for facets of the same process.

use bezel_rpc::LocalService;
use bezel_session_types::BlobId;

use crate::BlobError;

/// Gives out the bytes of a complete blob, at most so many. May block.
pub type Take = dyn Fn(&BlobId, u64) -> Result<Vec<u8>, BlobError> + Send + Sync;

/// Takes blobs for good: whoever takes one keeps its bytes elsewhere, and the session may drop it when it
/// needs room.
pub struct BlobShelf(Box<Take>);

impl LocalService for BlobShelf {
    const ID: &'static str = "blob-shelf";
}

impl BlobShelf {
    /// A shelf of which `take` gives out blobs.
    pub fn new(
        take: impl Fn(&BlobId, u64) -> Result<Vec<u8>, BlobError> + Send + Sync + 'static,
    ) -> Self {
        BlobShelf(Box::new(take))
    }

    /// The bytes of a complete blob of at most `limit` bytes. Blocks on the disk.
    pub fn take(&self, id: &BlobId, limit: u64) -> Result<Vec<u8>, BlobError> {
        (self.0)(id, limit)
    }
}
