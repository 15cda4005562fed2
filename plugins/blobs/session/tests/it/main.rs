//! Blobs as a presentation uses them, and as the disk keeps them.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod chunks;
mod limits;
mod service;

use bezel_blobs_contract::{BlobError, BlobStat, Chunk};
use bezel_blobs_session::BlobStore;
use bezel_session_types::BlobId;

/// Bytes of which no two pieces are alike.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Puts a part of `all`.
fn put(
    store: &BlobStore,
    id: &BlobId,
    all: &[u8],
    part: std::ops::Range<usize>,
) -> Result<BlobStat, BlobError> {
    let chunk = Chunk::new(&all[part.clone()]);
    store.put(id, all.len() as u64, part.start as u64, &chunk)
}

/// The names of the files in a directory, sorted.
fn names(directory: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}
