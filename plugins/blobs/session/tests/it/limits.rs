//! Each limit has its own error, and room is made of what is dispensable.

use std::time::Duration;

use bezel_blobs_contract::{BlobError, CHUNK_BYTES, Chunk, blob_id};
use bezel_blobs_session::{BlobStore, StoreLimits};

use crate::{bytes, names, put};

fn store(limits: StoreLimits) -> (tempfile::TempDir, BlobStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = BlobStore::new(directory.path(), limits);
    (directory, store)
}

fn whole(store: &BlobStore, all: &[u8]) -> Result<(), BlobError> {
    put(store, &blob_id(all), all, 0..all.len()).map(|stat| assert!(stat.is_complete()))
}

#[test]
fn what_is_too_large_or_senseless_is_refused_before_anything_is_kept() {
    let limits = StoreLimits {
        blob: 100_000,
        ..StoreLimits::default()
    };
    let (directory, store) = store(limits);
    let id = blob_id(b"x");
    let large = Chunk::new(&vec![0; CHUNK_BYTES + 1]);
    assert_eq!(
        store.put(&id, 100_000, 0, &large),
        Err(BlobError::ChunkTooLarge {
            limit: CHUNK_BYTES as u64
        })
    );
    assert_eq!(
        store.put(&id, 100_001, 0, &Chunk::new(b"x")),
        Err(BlobError::BlobTooLarge {
            size: 100_001,
            limit: 100_000
        })
    );
    for (size, offset) in [(1, 1), (1, u64::MAX), (0, 0)] {
        let answer = store.put(&id, size, offset, &Chunk::new(b"x"));
        assert!(
            matches!(answer, Err(BlobError::Malformed { .. })),
            "{answer:?}"
        );
    }
    let chunk: Chunk = serde_json::from_str(r#""not base64!""#).unwrap();
    let answer = store.put(&id, 9, 0, &chunk);
    assert!(
        matches!(answer, Err(BlobError::Malformed { .. })),
        "{answer:?}"
    );
    assert_eq!(
        store.read(&id, 0, 9),
        Err(BlobError::Unknown { id: id.clone() })
    );
    assert_eq!(store.take(&id, 9), Err(BlobError::Unknown { id }));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_full_session_says_so_and_promises_count() {
    let limits = StoreLimits {
        total: 1000,
        ..StoreLimits::default()
    };
    let (_directory, store) = store(limits);
    let (first, second) = (bytes(600), vec![7; 401]);
    put(&store, &blob_id(&first), &first, 0..1).unwrap();
    assert_eq!(
        whole(&store, &second),
        Err(BlobError::Full {
            held: 600,
            limit: 1000
        })
    );
    whole(&store, &second[1..]).unwrap();
}

#[test]
fn what_a_message_holds_makes_room_and_what_waits_for_one_does_not() {
    let limits = StoreLimits {
        total: 1000,
        ..StoreLimits::default()
    };
    let (directory, store) = store(limits);
    let (first, second, third) = (vec![1; 500], vec![2; 500], vec![3; 500]);
    whole(&store, &first).unwrap();
    whole(&store, &second).unwrap();
    assert_eq!(store.take(&blob_id(&second), 500).unwrap(), second);
    assert_eq!(
        store.take(&blob_id(&first), 499),
        Err(BlobError::BlobTooLarge {
            size: 500,
            limit: 499
        })
    );
    whole(&store, &third).unwrap();
    let again = BlobStore::new(directory.path(), limits);
    assert!(again.stat(&blob_id(&first)).unwrap().is_complete());
    assert!(again.stat(&blob_id(&third)).unwrap().is_complete());
    assert_eq!(again.stat(&blob_id(&second)).unwrap().size, None);
}

#[test]
fn what_was_taken_stays_readable_over_a_restart_while_there_is_room() {
    let (directory, store) = store(StoreLimits::default());
    let all = bytes(500);
    whole(&store, &all).unwrap();
    store.take(&blob_id(&all), 500).unwrap();
    let again = BlobStore::new(directory.path(), StoreLimits::default());
    assert_eq!(again.take(&blob_id(&all), 500).unwrap(), all);
    assert_eq!(
        names(directory.path()),
        [format!("{}.taken", blob_id(&all))]
    );
}

#[test]
fn what_nobody_came_back_for_makes_room_in_the_end() {
    let limits = StoreLimits {
        count: 2,
        patience: Duration::ZERO,
        ..StoreLimits::default()
    };
    let (_directory, store) = store(limits);
    for all in [[1_u8], [2], [3]] {
        whole(&store, &all).unwrap();
    }
    assert!(store.stat(&blob_id(&[3])).unwrap().is_complete());
    assert_eq!(store.stat(&blob_id(&[1])).unwrap().size, None);
}

#[test]
fn an_upload_that_announced_another_size_stands_in_nobodys_way() {
    let (directory, store) = store(StoreLimits::default());
    let all = bytes(100);
    let id = blob_id(&all);
    store.put(&id, 50, 0, &Chunk::new(&[0; 40])).unwrap();
    whole(&store, &all).unwrap();
    assert_eq!(names(directory.path()), [id.to_string()]);
    let answer = store.put(&id, 50, 0, &Chunk::new(&[0; 40]));
    assert_eq!(answer, Err(BlobError::Mismatch { id: id.clone() }));
    assert!(store.stat(&id).unwrap().is_complete());
}

#[test]
fn a_disk_that_fails_is_said_without_a_path() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("blobs"), "a file").unwrap();
    let store = BlobStore::new(directory.path().join("blobs"), StoreLimits::default());
    let error = whole(&store, b"x").unwrap_err();
    assert!(matches!(error, BlobError::Storage { .. }), "{error:?}");
    let path = directory.path().display().to_string();
    assert!(!error.to_string().contains(&path), "{error}");
}
