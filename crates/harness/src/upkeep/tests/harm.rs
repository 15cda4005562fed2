//! No file does harm, whatever is in it.

use proptest::prelude::*;
use serde_json::Value;

use super::Place;
use super::fixtures::{claude, codex, pi};

/// Whatever a file holds: it is taken in whole, or refused.
fn does_no_harm(bytes: &[u8]) {
    let place = Place::new();
    if let Ok(summary) = place.import(bytes) {
        assert_eq!(place.all().len() as u64, summary.entries);
        place.is_whole();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_that_is_cut_anywhere_does_no_harm(which in 0..3_usize, begin in any::<prop::sample::Index>(), end in any::<prop::sample::Index>()) {
        let whole = [pi(), claude(), codex()][which].clone();
        let (begin, end) = (begin.index(whole.len()), end.index(whole.len()));
        does_no_harm(&whole[begin.min(end)..begin.max(end)]);
        does_no_harm(&whole[..end]);
    }

    #[test]
    fn lines_that_are_missing_doubled_or_out_of_order_do_no_harm(which in 0..3_usize, order in prop::collection::vec(any::<prop::sample::Index>(), 1..30)) {
        let whole = [pi(), claude(), codex()][which].clone();
        let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let mixed: Vec<u8> = order.iter().flat_map(|index| lines[index.index(lines.len())].to_vec()).collect();
        does_no_harm(&mixed);
        let headed = [lines[0], &mixed].concat();
        does_no_harm(&headed);
    }

    #[test]
    fn values_of_another_kind_do_no_harm(which in 0..3_usize, at in any::<prop::sample::Index>(), put in prop::sample::select(vec!["null", "0", "[]", "{}", "\"x\"", "[[{}]]"])) {
        let whole = String::from_utf8([pi(), claude(), codex()][which].clone()).unwrap();
        // In place of some value that follows a colon.
        let colons: Vec<usize> = whole.match_indices("\":").map(|(at, _)| at + 2).collect();
        let begin = colons[at.index(colons.len())];
        let mut values = serde_json::Deserializer::from_str(&whole[begin..]).into_iter::<Value>();
        if values.next().is_some_and(|value| value.is_ok()) {
            let end = begin + values.byte_offset();
            does_no_harm(format!("{}{put}{}", &whole[..begin], &whole[end..]).as_bytes());
        }
    }

    #[test]
    fn garbage_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), headed in any::<bool>()) {
        let head: &[u8] = if headed { b"SQLite format 3\0" } else { b"" };
        does_no_harm(&[head, &bytes].concat());
    }
}
