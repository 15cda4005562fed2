//! What a disk may do to a file: cut it off, bend it, tear its log.

use std::fs;

use bezel_session_types::{EntryId, LaneName, SessionId};
use bezel_store::{CommitError, ForkOrigin, ForkScope, OpenError, Reader, Store, fork};
use rusqlite::Connection;

use crate::support::{Place, append, child, child_role, ready_and_wait};

const PAGE: usize = 4096;

fn chain(store: &Store, count: usize) {
    for index in 0..count {
        let parent = index.checked_sub(1).map(|before| format!("e{before}"));
        store
            .commit(append(&format!("e{index}"), parent.as_deref()))
            .unwrap();
    }
}

#[test]
fn a_file_that_is_cut_off_at_any_page_is_refused_and_left_as_it_is() {
    let place = Place::new();
    chain(&place.open(), 60);
    let whole = fs::read(&place.path).unwrap();
    assert!(whole.len() >= 12 * PAGE);
    for cut in (1..whole.len() / PAGE).flat_map(|page| [page * PAGE, page * PAGE + 100]) {
        fs::write(&place.path, &whole[..cut]).unwrap();
        let error = Store::open(&place.path).unwrap_err();
        assert!(
            matches!(error, OpenError::Torn { .. } | OpenError::Damaged { .. }),
            "cut at {cut}: {error}"
        );
        assert!(Reader::open(&place.path).is_err());
        assert_eq!(
            fs::read(&place.path).unwrap(),
            &whole[..cut],
            "cut at {cut}"
        );
    }
    fs::write(&place.path, &whole).unwrap();
    assert_eq!(place.open().read(|queries| queries.count()).unwrap(), 60);
}

#[test]
fn a_bent_header_is_refused_and_left_as_it_is() {
    let place = Place::new();
    chain(&place.open(), 3);
    let whole = fs::read(&place.path).unwrap();
    // The magic words, the page size, the formats, the application.
    for at in [0, 16, 18, 19, 68] {
        let mut bent = whole.clone();
        bent[at..at + 2].copy_from_slice(&[0x5a, 0x5a]);
        fs::write(&place.path, &bent).unwrap();
        let error = Store::open(&place.path).map(|_| at).unwrap_err();
        assert!(
            error.to_string().contains(place.path.to_str().unwrap()),
            "{error}"
        );
        assert_eq!(fs::read(&place.path).unwrap(), bent, "byte {at}: {error}");
    }
}

#[test]
fn a_torn_log_costs_at_most_the_commits_behind_the_tear() {
    let place = Place::new();
    let store = place.open();
    chain(&store, 8);
    let log = |path: &std::path::Path| std::path::PathBuf::from(format!("{}-wal", path.display()));
    let (database, whole) = (
        fs::read(&place.path).unwrap(),
        fs::read(log(&place.path)).unwrap(),
    );
    let copy = Place::new();
    let reopened = |log_bytes: &[u8]| {
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(format!("{}{suffix}", copy.path.display())).ok();
        }
        fs::write(&copy.path, &database).unwrap();
        fs::write(log(&copy.path), log_bytes).unwrap();
        let store = copy.open();
        let (count, tip, found) = store
            .read(|queries| {
                Ok((
                    queries.count()?,
                    queries.tip(&LaneName::main())?,
                    queries.check()?,
                ))
            })
            .unwrap();
        assert_eq!(found, Vec::<String>::new());
        let expected = count.checked_sub(1).map(|last| format!("e{last}"));
        assert_eq!(
            tip.map(|tip| tip.to_string()),
            expected,
            "not a whole commit"
        );
        count
    };
    assert_eq!(reopened(&whole), 8);
    let mut last = 0;
    let frame = PAGE + 24;
    let frames = (whole.len() - 32) / frame;
    for cut in 0..frames {
        let boundary = 32 + cut * frame;
        let count = reopened(&whole[..boundary]);
        assert!(count >= last, "a longer log gave less");
        assert_eq!(reopened(&whole[..boundary + frame / 2]), count);
        last = count;
    }
    let mut bent = whole.clone();
    let at = 32 + (frames / 2) * frame + 500;
    bent[at] ^= 0xff;
    assert!(reopened(&bent) < 8);
}

#[test]
fn a_log_that_cannot_be_made_is_a_clear_error_and_the_next_start_works() {
    let place = Place::new();
    chain(&place.open(), 1);
    let blocked = place.directory.path().join("session.db-wal");
    fs::create_dir(&blocked).unwrap();
    let error = Store::open(&place.path).unwrap_err();
    assert!(error.to_string().contains("writable"), "{error}");
    fs::remove_dir(&blocked).unwrap();
    assert_eq!(place.open().read(|queries| queries.count()).unwrap(), 1);
}

#[test]
fn a_process_that_holds_the_write_lock() {
    let Some(path) = child_role() else { return };
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    ready_and_wait();
}

#[test]
fn a_database_that_another_program_has_locked_is_told_of_and_goes_on_afterwards() {
    let place = Place::new();
    let store = place.open();
    chain(&store, 1);
    let mut other = child("damage::a_process_that_holds_the_write_lock", &place.path);
    let error = store.commit(append("e1", Some("e0"))).unwrap_err();
    assert!(matches!(error, CommitError::Sqlite { .. }), "{error}");
    assert!(error.to_string().contains("locked"), "{error}");
    // Whoever only reads is not held up.
    let reader = Reader::open(&place.path).unwrap();
    assert_eq!(reader.read(|queries| queries.count()).unwrap(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
    store.commit(append("e1", Some("e0"))).unwrap();
}

#[test]
fn times_may_go_back_and_the_order_does_not() {
    use bezel_session_types::{Message, UserMessage};
    let place = Place::new();
    let store = place.open();
    let far = 4_000_000_000_000;
    let mut last = 0;
    for (index, at) in [far, far - 5, 1, far].into_iter().enumerate() {
        let mut transaction = bezel_store::Transaction::new();
        let parent = index
            .checked_sub(1)
            .map(|before| EntryId::new(format!("e{before}")));
        let body = Message::User(UserMessage::text("x")).into();
        transaction.append_at(EntryId::new(format!("e{index}")), parent, at, body);
        let committed = store.commit(transaction).unwrap();
        assert!(committed.seq > last);
        assert_eq!(committed.entries[0].created_at, at);
        last = committed.seq;
    }
    drop(store);
    // A clock that was set back meanwhile: what comes now bears an earlier time than what is there.
    let store = place.open();
    let committed = store.commit(append("e4", Some("e3"))).unwrap();
    assert!(committed.seq > last && committed.entries[0].created_at < far);
    let page = store
        .read(|queries| queries.path(&EntryId::new("e4"), 10))
        .unwrap();
    let names: Vec<&str> = page.entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(names, ["e0", "e1", "e2", "e3", "e4"]);
}

#[test]
fn rows_that_do_not_fit_together_are_found_one_by_one() {
    for (bend, expected) in [
        (
            "UPDATE entries SET parent = 9999 WHERE id = 'e1'",
            "entry e1 continues one that is not there",
        ),
        (
            "UPDATE entries SET parent = 900 WHERE id = 'e1'; UPDATE entries SET seq = 900 WHERE id = 'e2'",
            "older than",
        ),
        (
            "UPDATE entries SET body = '{' WHERE id = 'e2'",
            "entry e2 holds no JSON",
        ),
        (
            r#"UPDATE "values" SET value = '"gone"' WHERE key = 'tip/main'"#,
            "the tip of lane main",
        ),
        (
            r#"UPDATE "values" SET value = 'x'"#,
            "the value tip/main is no JSON",
        ),
        (
            "UPDATE ancestry SET depth = 7 WHERE depth = 1",
            "the place of entry e1",
        ),
        (
            "DELETE FROM ancestry WHERE depth = 1",
            "the place of entry e1",
        ),
        ("UPDATE usage_totals SET requests = 3", "totals of usage"),
        (
            "INSERT INTO receipts VALUES ('c', 1, x'00', '{}')",
            "the receipt of command c",
        ),
        (
            "INSERT INTO journal VALUES (500, 1, 'x', '{')",
            "the event with number 500",
        ),
        (
            "INSERT INTO inbox VALUES (501, 'e1', 'main', 'c', 'o', 'steer', 1, '{}')",
            "the waiting message e1",
        ),
    ] {
        let place = Place::new();
        chain(&place.open(), 3);
        let reader = Reader::open(&place.path).unwrap();
        assert_eq!(
            reader.read(|queries| queries.check()).unwrap(),
            Vec::<String>::new()
        );
        let other = Connection::open(&place.path).unwrap();
        other.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        other.execute_batch(bend).unwrap();
        let found = reader.read(|queries| queries.check()).unwrap();
        assert!(
            found.iter().any(|line| line.contains(expected)),
            "{bend}: {found:?}"
        );
    }
}

/// Every page but the first, which is what says that the file is a session's at all.
#[test]
fn overwritten_pages_are_called_damage_wherever_they_are_come_upon() {
    let place = Place::new();
    chain(&place.open(), 60);
    let whole = fs::read(&place.path).unwrap();
    let mut told = [0, 0, 0, 0];
    let origin = ForkOrigin {
        session_id: SessionId::new("parent"),
        entry: EntryId::new("e59"),
    };
    for page in 1..whole.len() / PAGE {
        let mut bent = whole.clone();
        bent[page * PAGE..(page + 1) * PAGE].fill(0xff);
        fs::write(&place.path, &bent).unwrap();
        let mut errors = Vec::new();
        let target = place.directory.path().join("fork.db");
        match fork(&place.path, &target, ForkScope::Path, &origin) {
            Err(error) => errors.push((3, error.to_string())),
            Ok(_) => fs::remove_file(&target).unwrap(),
        }
        assert!(!target.exists(), "page {page}");
        match Store::open(&place.path) {
            Err(error) => errors.push((0, error.to_string())),
            Ok(store) => {
                let read = store.read(|queries| {
                    queries.path(&EntryId::new("e59"), 100)?;
                    queries.entries_after(0, 100)
                });
                errors.extend(read.err().map(|error| (1, error.to_string())));
                let written = store.commit(append("e60", Some("e59")));
                errors.extend(written.err().map(|error| (2, error.to_string())));
            }
        }
        for (from, error) in errors {
            told[from] += 1;
            assert!(
                error.contains("is damaged") && error.contains("restore it from a copy"),
                "page {page}: {error}"
            );
            assert!(error.contains(place.path.to_str().unwrap()), "{error}");
        }
        for suffix in ["-wal", "-shm"] {
            fs::remove_file(format!("{}{suffix}", place.path.display())).ok();
        }
    }
    assert!(told.iter().all(|count| *count > 0), "{told:?}");
}
