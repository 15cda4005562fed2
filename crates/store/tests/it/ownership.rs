//! One owner at a time.

use std::process::Command;

use bezel_session_types::{EntryId, SessionId};
use bezel_store::{CommitError, ForkOrigin, ForkScope, OpenError, ReadError, Reader, Store, fork};

use crate::support::{Place, append, child, child_role, ready_and_wait};

#[test]
fn a_process_that_holds_the_database() {
    let Some(path) = child_role() else { return };
    let _store = Store::open(path).unwrap();
    ready_and_wait();
}

#[test]
fn b36_a_second_opener_is_refused_with_the_holders_name_until_the_holder_is_killed() {
    let place = Place::new();
    let mut child = child("ownership::a_process_that_holds_the_database", &place.path);
    let error = Store::open(&place.path).unwrap_err();
    assert!(
        matches!(error, OpenError::Locked { holder: Some(holder), .. } if holder == child.id()),
        "{error}"
    );
    assert!(
        error.to_string().contains(&child.id().to_string()),
        "{error}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    Store::open(&place.path).unwrap();
}

#[test]
fn b36_a_second_handle_in_the_same_process_is_refused_until_the_first_is_gone() {
    let place = Place::new();
    let store = place.open();
    let clone = store.clone();
    drop(store);
    assert!(matches!(
        Store::open(&place.path),
        Err(OpenError::Locked { .. })
    ));
    drop(clone);
    Store::open(&place.path).unwrap();
}

#[tokio::test]
async fn b36_one_that_is_closed_is_free_for_the_next_owner_whoever_still_holds_it() {
    let place = Place::new();
    let store = place.open();
    let committed = store.commit(append("e1", None)).unwrap();
    store.close();
    let next = place.open();
    store.synced(&committed).await.unwrap();
    store.sync().await.unwrap();
    let refused = store.commit(append("e2", Some("e1"))).unwrap_err();
    assert!(matches!(refused, CommitError::Stopped { .. }), "{refused}");
    let refused = store
        .read(|queries| queries.entry(&EntryId::new("e1")))
        .unwrap_err();
    assert!(matches!(refused, ReadError::Closed { .. }), "{refused}");
    let kept = next.read(|queries| queries.entry(&EntryId::new("e1")));
    assert!(kept.unwrap().is_some());
    next.commit(append("e2", Some("e1"))).unwrap();
}

/// What became of a database that was made: each leaves nothing of what it held.
#[test]
fn b36_a_database_that_has_lost_what_it_held_is_refused_and_left_as_it_is() {
    for kind in ["emptied", "removed"] {
        let place = Place::new();
        place.open().commit(append("e1", None)).unwrap();
        for end in ["-wal", "-shm"] {
            let mut name = place.path.clone().into_os_string();
            name.push(end);
            std::fs::remove_file(name).ok();
        }
        match kind {
            "emptied" => std::fs::write(&place.path, "").unwrap(),
            _ => std::fs::remove_file(&place.path).unwrap(),
        }
        let there = std::fs::read(&place.path).ok();
        for refused in [
            Store::open(&place.path).map(drop),
            Reader::open(&place.path).map(drop),
            // Also the next time.
            Store::open(&place.path).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, OpenError::Lost { .. }),
                "{kind}: {refused}"
            );
            assert!(refused.to_string().contains(place.path.to_str().unwrap()));
        }
        assert_eq!(std::fs::read(&place.path).ok(), there, "{kind}");
    }
}

#[test]
fn b36_a_fork_that_nobody_has_opened_yet_is_not_begun_anew_either() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    let target = place.directory.path().join("fork.db");
    let origin = ForkOrigin {
        session_id: SessionId::new("parent"),
        entry: EntryId::new("e1"),
    };
    fork(&place.path, &target, ForkScope::Path, &origin).unwrap();
    let whole = std::fs::read(&target).unwrap();
    std::fs::write(&target, "").unwrap();
    for refused in [
        Reader::open(&target).map(drop),
        Store::open(&target).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, OpenError::Lost { .. }), "{refused}");
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"");
    // Restored, it is as it was.
    std::fs::write(&target, whole).unwrap();
    let opened = Store::open(&target).unwrap();
    assert_eq!(opened.read(|queries| queries.count()).unwrap(), 1);
    // One that failed has left nothing that was made.
    let failed = place.directory.path().join("failed.db");
    let origin = ForkOrigin {
        entry: EntryId::new("gone"),
        ..origin
    };
    fork(&place.path, &failed, ForkScope::Path, &origin).unwrap_err();
    Store::open(&failed).unwrap();
}

#[test]
fn a_database_whose_making_was_cut_off_is_made() {
    let place = Place::new();
    std::fs::write(&place.path, "").unwrap();
    let refused = Reader::open(&place.path).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Missing { .. }), "{refused}");
    place.open().commit(append("e1", None)).unwrap();
    Store::open(&place.path).unwrap();
}

/// A file as a kill in the middle of its making leaves it: pages that were written, and the journal that takes them back.
#[test]
fn a_database_whose_making_was_cut_off_in_a_transaction_is_made_anew() {
    let place = Place::new();
    let making = place.directory.path().join("making.db");
    let connection = rusqlite::Connection::open(&making).unwrap();
    connection
        .execute_batch(
            "PRAGMA cache_size = 1; BEGIN; CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(500000));",
        )
        .unwrap();
    let beside = |path: &std::path::Path| {
        let mut name = path.to_owned().into_os_string();
        name.push("-journal");
        name
    };
    std::fs::copy(&making, &place.path).unwrap();
    std::fs::copy(beside(&making), beside(&place.path)).unwrap();
    drop(connection);
    assert!(std::fs::metadata(&place.path).unwrap().len() > 0);
    let refused = Reader::open(&place.path).map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Missing { .. }), "{refused}");
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    let found = store.read(|queries| queries.entry(&EntryId::new("e1")));
    assert!(found.unwrap().is_some());
    assert!(!std::path::Path::new(&beside(&place.path)).exists());
}

#[test]
fn a_command_that_outlives_the_owner_does_not_keep_the_lock() {
    let place = Place::new();
    let store = place.open();
    let mut command = Command::new("sleep").arg("600").spawn().unwrap();
    drop(store);
    let opened = Store::open(&place.path);
    command.kill().unwrap();
    command.wait().unwrap();
    opened.unwrap();
}
