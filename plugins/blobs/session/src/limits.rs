//! What a session holds at most.

use std::time::Duration;

use bezel_blobs_contract::MAX_BLOB_BYTES;

/// What a session holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of one blob.
    pub blob: u64,
    /// Bytes of all of them, those of unfinished uploads as they were announced.
    pub total: u64,
    /// Number of all of them.
    pub count: usize,
    /// Bytes of chunks that came ahead of others, in memory, of all uploads.
    pub early: usize,
    /// How long what no message has taken is kept where there is need of room.
    pub patience: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        StoreLimits {
            blob: MAX_BLOB_BYTES,
            total: 512 * 1024 * 1024,
            count: 4096,
            early: 4 * 1024 * 1024,
            patience: Duration::from_secs(24 * 60 * 60),
        }
    }
}
