//! Paths through any tree, page by page.

use std::num::NonZeroUsize;

use bezel_session_types::EntryId;
use bezel_store::ReadError;
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::{Place, append};

fn name(index: usize) -> String {
    format!("e{index}")
}

/// For every entry but the first its parent, or none for another root.
fn trees() -> impl Strategy<Value = Vec<Option<usize>>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..40).prop_map(|choices| {
        let parents = choices
            .iter()
            .enumerate()
            .map(|(at, choice)| match choice.index(at + 2) {
                root if root == at + 1 => None,
                parent => Some(parent),
            });
        std::iter::once(None).chain(parents).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_path_is_the_chain_of_parents_whatever_the_page_size(parents in trees(), limit in 1_usize..9) {
        let place = Place::new();
        let store = place.open();
        for (index, parent) in parents.iter().enumerate() {
            store.commit(append(&name(index), parent.map(name).as_deref())).unwrap();
        }
        for tip in 0..parents.len() {
            let mut expected = vec![name(tip)];
            let mut at = tip;
            while let Some(parent) = parents[at] {
                expected.push(name(parent));
                at = parent;
            }
            let mut found = Vec::new();
            let mut from = Some(EntryId::new(name(tip)));
            while let Some(tip) = from {
                let page = store.read(|queries| queries.path(&tip, limit)).unwrap();
                prop_assert!(page.entries.len() <= limit);
                prop_assert!(page.entries.is_sorted_by_key(|entry| entry.seq));
                from = page.entries[0].parent.clone();
                prop_assert_eq!(page.more, from.is_some());
                found.extend(page.entries.into_iter().rev().map(|entry| entry.id.as_str().to_owned()));
            }
            prop_assert_eq!(&found, &expected);
            let mut whole = Vec::new();
            let (tip, at_once) = (EntryId::new(name(tip)), NonZeroUsize::new(limit).unwrap());
            store.read(|queries| queries.each_of_path(&tip, at_once, |entry| -> Result<(), ReadError> {
                whole.push(entry.id.as_str().to_owned());
                Ok(())
            })).unwrap();
            expected.reverse();
            prop_assert_eq!(whole, expected);
        }
    }

    #[test]
    fn what_follows_an_entry_on_a_path_is_found_from_anywhere_on_it_and_nowhere_else(parents in trees(), limit in 1_usize..9) {
        let place = Place::new();
        let store = place.open();
        for (index, parent) in parents.iter().enumerate() {
            store.commit(append(&name(index), parent.map(name).as_deref())).unwrap();
        }
        for tip in 0..parents.len() {
            let chain = std::iter::successors(Some(tip), |at| parents[*at]);
            let mut path: Vec<String> = chain.map(name).collect();
            path.reverse();
            let tip = EntryId::new(name(tip));
            prop_assert_eq!(store.read(|queries| queries.depth(&tip)).unwrap(), Some(path.len() as u64 - 1));
            for after in (0..parents.len()).map(name) {
                let page = store.read(|queries| queries.path_after(&tip, &EntryId::new(after.as_str()), limit)).unwrap();
                let Some(at) = path.iter().position(|id| *id == after) else {
                    prop_assert_eq!(page, None);
                    continue;
                };
                let page = page.unwrap();
                let behind = &path[at + 1..];
                let found: Vec<&str> = page.entries.iter().map(|entry| entry.id.as_str()).collect();
                prop_assert_eq!(&found, &behind[..behind.len().min(limit)]);
                prop_assert_eq!(page.more, behind.len() > limit);
            }
        }
        prop_assert_eq!(store.read(|queries| queries.check()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn entries_in_order_of_writing_are_complete_whatever_the_page_size(count in 0_usize..30, limit in 1_usize..9) {
        let place = Place::new();
        let store = place.open();
        for index in 0..count {
            store.commit(append(&name(index), None)).unwrap();
        }
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = store.read(|queries| queries.entries_after(after, limit)).unwrap();
            let Some(last) = page.last() else { break };
            after = last.seq;
            found.extend(page.into_iter().map(|entry| entry.id.as_str().to_owned()));
        }
        prop_assert_eq!(found, (0..count).map(name).collect::<Vec<_>>());
    }
}

#[test]
fn a_path_is_read_without_what_is_beside_it() {
    let place = Place::new();
    let store = place.open();
    for (id, parent) in [
        ("a", None),
        ("b", Some("a")),
        ("left", Some("a")),
        ("c", Some("b")),
    ] {
        store.commit(append(id, parent)).unwrap();
    }
    let other = Connection::open(&place.path).unwrap();
    let bend = "UPDATE entries SET body = '{' WHERE id = 'left'";
    assert_eq!(other.execute(bend, []).unwrap(), 1);
    assert!(store.read(|queries| queries.entries_after(0, 9)).is_err());
    let mut path = Vec::new();
    let read = store.read(|queries| {
        let tip = EntryId::new("c");
        queries.each_of_path(&tip, NonZeroUsize::MIN, |entry| -> Result<(), ReadError> {
            path.push(entry.id.as_str().to_owned());
            Ok(())
        })
    });
    read.unwrap();
    assert_eq!(path, ["a", "b", "c"]);
}
