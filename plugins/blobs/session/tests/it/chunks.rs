//! Chunks in any size and order, repeated, over restarts, with wrong bytes among them.

use std::os::unix::fs::PermissionsExt;

use bezel_blobs_contract::{BlobError, blob_id};
use bezel_blobs_session::{BlobStore, StoreLimits};
use proptest::prelude::*;

use crate::{bytes, names, put};

#[derive(Debug, Clone)]
enum Step {
    /// A chunk, by its start and length in thousandths of the blob.
    Put(usize, usize),
    /// The worker dies and another opens the same directory.
    Restart,
    /// A chunk of zeros, where the blob has none.
    Wrong(usize, usize),
}

fn steps(wrong: bool) -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..1000_usize, 1..400_usize);
    let step = prop_oneof![
        8 => place().prop_map(|(at, length)| Step::Put(at, length)),
        1 => Just(Step::Restart),
        u32::from(wrong) => place().prop_map(|(at, length)| Step::Wrong(at, length)),
    ];
    prop::collection::vec(step, 0..30)
}

fn part(size: usize, at: usize, length: usize) -> std::ops::Range<usize> {
    let start = size * at / 1000;
    start..(start + (size * length / 1000).max(1)).min(size)
}

/// Puts what is missing in order, as a client does that goes by the answers.
fn complete(store: &BlobStore, all: &[u8]) -> Result<(), BlobError> {
    let id = blob_id(all);
    let mut at = usize::try_from(store.stat(&id)?.received).unwrap();
    loop {
        let end = (at + all.len().div_ceil(3).max(1)).min(all.len());
        let stat = put(store, &id, all, at..end)?;
        if stat.is_complete() {
            return Ok(());
        }
        at = usize::try_from(stat.received).unwrap();
    }
}

fn read(store: &BlobStore, all: &[u8]) -> Result<Vec<u8>, BlobError> {
    let mut found = Vec::new();
    loop {
        let piece = store.read(&blob_id(all), found.len() as u64, 700)?;
        found.extend(piece.chunk.bytes()?);
        if found.len() as u64 == piece.size {
            return Ok(found);
        }
    }
}

proptest! {
    #[test]
    fn right_chunks_in_any_order_make_the_blob_and_answers_never_shrink(
        size in 1..5000_usize,
        steps in steps(false),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let open = || BlobStore::new(directory.path(), StoreLimits::default());
        let (all, mut store, mut received) = (bytes(size), open(), 0);
        let id = blob_id(&all);
        for step in steps {
            match step {
                Step::Put(at, length) => {
                    let part = part(size, at, length);
                    let stat = put(&store, &id, &all, part.clone()).unwrap();
                    prop_assert!(stat.received >= received, "{stat:?} after {received}");
                    let fits = part.start as u64 <= received;
                    prop_assert!(!fits || stat.received >= part.end as u64, "{stat:?} {part:?}");
                    received = stat.received;
                }
                Step::Restart | Step::Wrong(..) => {
                    drop(store);
                    store = open();
                    prop_assert_eq!(store.stat(&id).unwrap().received, received);
                }
            }
        }
        complete(&store, &all).unwrap();
        prop_assert_eq!(read(&open(), &all).unwrap(), all);
        prop_assert_eq!(names(directory.path()), [id.to_string()]);
    }

    #[test]
    fn wrong_bytes_never_become_a_blob_and_the_next_upload_does(
        size in 3..5000_usize,
        steps in steps(true),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let open = || BlobStore::new(directory.path(), StoreLimits::default());
        let (all, mut store) = (bytes(size), open());
        let (id, wrong) = (blob_id(&all), vec![0; size]);
        for step in steps {
            let answer = match step {
                Step::Put(at, length) => put(&store, &id, &all, part(size, at, length)),
                Step::Wrong(at, length) => put(&store, &id, &wrong, part(size, at, length)),
                Step::Restart => {
                    drop(store);
                    store = open();
                    continue;
                }
            };
            match answer {
                Ok(stat) if stat.is_complete() => prop_assert_eq!(&read(&store, &all).unwrap(), &all),
                Ok(_) => {}
                Err(BlobError::Mismatch { id: named }) => {
                    prop_assert_eq!(&named, &id);
                    prop_assert_eq!(store.stat(&id).unwrap().received, 0);
                    prop_assert!(names(directory.path()).is_empty());
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        // What is there may be wrong: then it is thrown away, once.
        if complete(&store, &all).is_err() {
            complete(&store, &all).unwrap();
        }
        prop_assert_eq!(read(&store, &all).unwrap(), all);
    }
}

#[test]
fn chunks_that_overtake_others_are_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = BlobStore::new(directory.path(), StoreLimits::default());
    let all = bytes(400);
    let id = blob_id(&all);
    for part in [300..400, 100..200, 200..300] {
        assert_eq!(put(&store, &id, &all, part).unwrap().received, 0);
    }
    assert!(put(&store, &id, &all, 0..100).unwrap().is_complete());
}

#[test]
fn what_is_too_far_ahead_is_not_kept_and_the_answer_says_where_to_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let limits = StoreLimits {
        early: 100,
        ..StoreLimits::default()
    };
    let store = BlobStore::new(directory.path(), limits);
    let all = bytes(400);
    let id = blob_id(&all);
    put(&store, &id, &all, 100..200).unwrap();
    put(&store, &id, &all, 200..300).unwrap();
    assert_eq!(put(&store, &id, &all, 0..100).unwrap().received, 200);
    assert!(put(&store, &id, &all, 200..400).unwrap().is_complete());
}

#[test]
fn a_blob_is_private_and_there_once() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("blobs");
    let store = BlobStore::new(&inside, StoreLimits::default());
    let all = bytes(1000);
    let id = blob_id(&all);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    put(&store, &id, &all, 0..500).unwrap();
    assert_eq!(names(&inside), [format!("{id}.1000.part")]);
    assert_eq!(mode(&inside.join(&names(&inside)[0])), 0o600);
    put(&store, &id, &all, 500..1000).unwrap();
    assert!(put(&store, &id, &all, 0..1000).unwrap().is_complete());
    assert_eq!(names(&inside), [id.to_string()]);
    assert_eq!(
        (mode(&inside), mode(&inside.join(id.as_str()))),
        (0o700, 0o600)
    );
}

#[test]
fn an_empty_blob_is_one_empty_chunk() {
    let directory = tempfile::tempdir().unwrap();
    let store = BlobStore::new(directory.path(), StoreLimits::default());
    assert!(put(&store, &blob_id(&[]), &[], 0..0).unwrap().is_complete());
    assert!(read(&store, &[]).unwrap().is_empty());
}
