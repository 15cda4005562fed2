//! Files that are not opened, and are left as they were.

use std::fs;

use bezel_store::{OpenError, Reader, Store};
use rusqlite::Connection;

use crate::support::{Place, append};

fn refused(place: &Place) -> OpenError {
    let before = fs::read(&place.path).unwrap();
    let error = Store::open(&place.path).unwrap_err();
    let reading = Reader::open(&place.path).unwrap_err();
    assert_eq!(reading.to_string(), error.to_string());
    assert_eq!(
        fs::read(&place.path).unwrap(),
        before,
        "the file was changed"
    );
    assert!(
        error.to_string().contains(place.path.to_str().unwrap()),
        "{error}"
    );
    error
}

#[test]
fn a_file_that_is_no_database_is_foreign() {
    let place = Place::new();
    fs::write(
        &place.path,
        "just some text, long enough to be read as a header".repeat(100),
    )
    .unwrap();
    assert!(matches!(refused(&place), OpenError::Foreign { .. }));
}

#[test]
fn another_programs_database_is_foreign() {
    let place = Place::new();
    let other = Connection::open(&place.path).unwrap();
    other
        .execute_batch("CREATE TABLE things (name TEXT)")
        .unwrap();
    drop(other);
    assert!(matches!(refused(&place), OpenError::Foreign { .. }));
}

#[test]
fn a_file_cut_short_is_torn() {
    let place = Place::new();
    let store = place.open();
    store.commit(append("e1", None)).unwrap();
    drop(store);
    let bytes = fs::read(&place.path).unwrap();
    fs::write(&place.path, &bytes[..bytes.len() / 2]).unwrap();
    let error = refused(&place);
    assert!(matches!(error, OpenError::Torn { .. }), "{error}");
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn a_file_of_a_later_version_says_to_update() {
    let place = Place::new();
    drop(place.open());
    let later = Connection::open(&place.path).unwrap();
    later.pragma_update(None, "user_version", 99).unwrap();
    drop(later);
    let error = refused(&place);
    assert!(
        matches!(error, OpenError::Newer { found: 99, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("update"), "{error}");
}

#[test]
fn a_directory_that_is_not_there_or_not_writable_is_named() {
    let place = Place::new();
    for path in [
        place.directory.path().join("missing/session.db"),
        "/proc/session.db".into(),
    ] {
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, OpenError::Io { .. }), "{error}");
        assert!(error.to_string().contains("writable"), "{error}");
    }
}

#[test]
fn a_reader_of_a_file_that_is_not_there_or_still_empty_finds_no_session() {
    let place = Place::new();
    assert!(matches!(
        Reader::open(&place.path),
        Err(OpenError::Missing { .. })
    ));
    assert!(!place.path.exists(), "a reader makes no file");
    fs::write(&place.path, "").unwrap();
    assert!(matches!(
        Reader::open(&place.path),
        Err(OpenError::Missing { .. })
    ));
}

#[test]
fn a_file_whose_making_was_cut_off_is_made_again() {
    let place = Place::new();
    let begun = Connection::open(&place.path).unwrap();
    begun.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    drop(begun);
    assert!(fs::metadata(&place.path).unwrap().len() > 0);
    assert!(matches!(
        Reader::open(&place.path),
        Err(OpenError::Missing { .. })
    ));
    place.open().commit(append("e1", None)).unwrap();
}

#[test]
fn damage_inside_a_file_is_found_by_a_check() {
    let place = Place::new();
    let store = place.open();
    for index in 0..200 {
        let parent = (index > 0).then(|| format!("e{}", index - 1));
        store
            .commit(append(&format!("e{index}"), parent.as_deref()))
            .unwrap();
    }
    drop(store);
    let mut bytes = fs::read(&place.path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 64].fill(0xaa);
    fs::write(&place.path, &bytes).unwrap();
    let reader = Reader::open(&place.path).unwrap();
    let found = reader.read(|queries| queries.check());
    assert!(found.is_err() || found.is_ok_and(|found| !found.is_empty()));
}
