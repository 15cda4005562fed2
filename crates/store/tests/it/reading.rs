//! Reading beside the owner.

use std::sync::atomic::{AtomicBool, Ordering};

use bezel_session_types::{EntryId, LaneName};
use bezel_store::Reader;

use crate::support::{Place, append};

#[test]
fn a_reader_follows_the_owner_and_sees_one_state_within_a_read() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    let reader = Reader::open(&place.path).unwrap();
    reader
        .read(|queries| {
            assert_eq!(queries.count()?, 1);
            store.commit(append("e2", Some("e1"))).unwrap();
            assert_eq!(queries.count()?, 1, "a commit showed up within a read");
            Ok(())
        })
        .unwrap();
    assert_eq!(
        reader
            .read(|queries| queries.tip(&LaneName::main()))
            .unwrap(),
        Some(EntryId::new("e2"))
    );
}

#[test]
fn readers_do_not_hold_the_owner_up() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e0", None)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = Reader::open(&place.path).unwrap();
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let count = reader.read(|queries| queries.count()).unwrap();
                assert!(count >= last);
                last = count;
            }
        });
        for index in 1..500 {
            let parent = format!("e{}", index - 1);
            store
                .commit(append(&format!("e{index}"), Some(&parent)))
                .unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_reader_outlives_the_owner_and_sees_the_next_one() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    let reader = Reader::open(&place.path).unwrap();
    assert_eq!(reader.read(|queries| queries.count()).unwrap(), 1);
    drop(store);
    assert_eq!(reader.read(|queries| queries.count()).unwrap(), 1);
    place.open().commit(append("e2", Some("e1"))).unwrap();
    assert_eq!(reader.read(|queries| queries.count()).unwrap(), 2);
}
