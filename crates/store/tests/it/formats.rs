//! Files of earlier formats, as those versions wrote them: `formats/N.sql` is one of format `N`.

use bezel_session_types::{EntryId, LaneName};
use bezel_store::{Package, Page, Reader, Store};
use rusqlite::Connection;

use crate::support::{Place, append};

const RELEASED: &[(i64, &str)] = &[(1, include_str!("../formats/1.sql"))];

/// A file of that format, made by the statements alone.
fn of_format(sql: &str) -> Place {
    let place = Place::new();
    let connection = Connection::open(&place.path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode = WAL")
        .unwrap();
    connection.execute_batch(sql).unwrap();
    place
}

fn names(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn format(place: &Place) -> i64 {
    Connection::open(&place.path)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

#[test]
fn every_earlier_format_is_brought_forward_and_loses_nothing() {
    for (number, sql) in RELEASED {
        let place = of_format(sql);
        assert_eq!(format(&place), *number);
        let before = Reader::open(&place.path).unwrap();
        let before = before
            .read(|queries| Ok((queries.entries_after(0, 100)?, queries.usage()?)))
            .unwrap();
        let store = place.open();
        assert!(format(&place) > *number);
        let (after, usage, found) = store
            .read(|queries| {
                Ok((
                    queries.entries_after(0, 100)?,
                    queries.usage()?,
                    queries.check()?,
                ))
            })
            .unwrap();
        assert_eq!((after, usage), before);
        assert_eq!(usage.requests, 12);
        assert_eq!(found, Vec::<String>::new());
        let seq = store.commit(append("next", Some("side4"))).unwrap().seq;
        assert!(seq > before.0.last().unwrap().seq);
        let (depth, lane) = (EntryId::new("next"), LaneName::new("side"));
        let found = store.read(|queries| Ok((queries.depth(&depth)?, queries.tip(&lane)?)));
        assert_eq!(found.unwrap(), (Some(10), Some(EntryId::new("side4"))));
    }
}

#[test]
fn a_reader_answers_the_same_of_a_file_that_nobody_has_brought_forward_yet() {
    for (_, sql) in RELEASED {
        let (old, new) = (of_format(sql), of_format(sql));
        drop(new.open());
        let (main, side) = (EntryId::new("main11"), EntryId::new("side4"));
        let of = |place: &Place| {
            let reader = Reader::open(&place.path).unwrap();
            reader
                .read(|queries| {
                    let mut answers = Vec::new();
                    for tip in [&main, &side, &EntryId::new("root2"), &EntryId::new("none")] {
                        for after in ["main0", "main3", "main4", "main9", "side1", "root2"] {
                            let page = queries.path_after(tip, &EntryId::new(after), 3)?;
                            answers.push((queries.depth(tip)?, page));
                        }
                    }
                    assert_eq!(queries.check()?, Vec::<String>::new());
                    Ok(answers)
                })
                .unwrap()
        };
        let answers = of(&old);
        assert_eq!(answers, of(&new));
        let page = answers[1].1.as_ref().unwrap();
        assert_eq!(names(page), ["main4", "main5", "main6"]);
    }
}

#[test]
fn a_migration_that_was_cut_off_is_made_whole_the_next_time() {
    for (number, sql) in RELEASED {
        let place = of_format(sql);
        // What a crash leaves of it: nothing, since a step and its number are one transaction.
        let other = Connection::open(&place.path).unwrap();
        other
            .execute_batch("BEGIN IMMEDIATE; CREATE TABLE ancestry (seq INTEGER);")
            .unwrap();
        drop(other);
        assert_eq!(format(&place), *number);
        let store = place.open();
        assert_eq!(
            store.read(|queries| queries.check()).unwrap(),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_plain_copy_of_an_earlier_format_can_be_unpacked() {
    for (_, sql) in RELEASED {
        let (old, new) = (of_format(sql), Place::new());
        let package = Package::open(&old.path).unwrap();
        assert_eq!(package.facts(), None);
        let outputs = new.directory.path().join("output");
        package.unpack(&new.path, &outputs, &outputs).unwrap();
        let store = Store::open(&new.path).unwrap();
        assert_eq!(store.read(|queries| queries.count()).unwrap(), 18);
        assert_eq!(
            store.read(|queries| queries.check()).unwrap(),
            Vec::<String>::new()
        );
    }
}
