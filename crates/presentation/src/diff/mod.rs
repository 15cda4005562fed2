//! Differences between texts: hunks with the changed parts of their lines, and how they look.

mod layout;

use std::ops::Range;

use similar::{ChangeTag, TextDiff};

pub use layout::{DiffSyntax, lay_out};

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffKind {
    /// It is in both texts.
    Context,
    /// It is in the new text.
    Added,
    /// It was in the old text.
    Removed,
}

/// A hunk as another program tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainHunk {
    /// The first line of the old text that it covers, from 1.
    pub old_start: u32,
    /// The first line of the new text that it covers, from 1.
    pub new_start: u32,
    /// Its lines, without newlines.
    pub lines: Vec<(DiffKind, String)>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// What became of it.
    pub kind: DiffKind,
    /// Its number in the old text, from 1.
    pub old: Option<u32>,
    /// Its number in the new text, from 1.
    pub new: Option<u32>,
    /// Its text, without a newline.
    pub text: String,
    /// Which bytes of the text changed within the line; empty when that would say nothing.
    pub emphasis: Vec<Range<usize>>,
}

/// Lines that changed, and some around them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiffHunk {
    /// The lines in order; removed before added.
    pub lines: Vec<DiffLine>,
}

/// Lines added and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiffCount {
    /// Added.
    pub added: usize,
    /// Removed.
    pub removed: usize,
}

/// Two lines are shown as one changed line when at least this share of them is the same.
const SIMILAR: f32 = 0.45;

/// Longer lines are not compared within.
const LINE_LIMIT: usize = 1000;

/// The differences between two texts, each with `context` unchanged lines around it.
pub fn between(old: &str, new: &str, context: usize) -> Vec<DiffHunk> {
    let diff = TextDiff::configure()
        .timeout(std::time::Duration::from_millis(200))
        .diff_lines(old, new);
    let groups = diff.grouped_ops(context);
    let hunks = groups.iter().map(|group| {
        let mut lines = Vec::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let number =
                |index: Option<usize>| index.and_then(|index| u32::try_from(index + 1).ok());
            lines.push(DiffLine {
                kind: match change.tag() {
                    ChangeTag::Equal => DiffKind::Context,
                    ChangeTag::Insert => DiffKind::Added,
                    ChangeTag::Delete => DiffKind::Removed,
                },
                old: number(change.old_index()),
                new: number(change.new_index()),
                text: change.value().trim_end_matches(['\n', '\r']).to_owned(),
                emphasis: Vec::new(),
            });
        }
        let mut hunk = DiffHunk { lines };
        emphasize(&mut hunk);
        hunk
    });
    hunks.collect()
}

/// Numbers the lines of hunks and finds what changed within them.
pub fn from_hunks(hunks: impl IntoIterator<Item = PlainHunk>) -> Vec<DiffHunk> {
    let number = |hunk: PlainHunk| {
        let (mut old, mut new) = (hunk.old_start, hunk.new_start);
        let mut take = |counter: bool| {
            let counter = if counter { &mut new } else { &mut old };
            *counter += 1;
            Some(*counter - 1)
        };
        let lines = hunk.lines.into_iter().map(|(kind, text)| {
            let (old, new) = match kind {
                DiffKind::Context => (take(false), take(true)),
                DiffKind::Added => (None, take(true)),
                DiffKind::Removed => (take(false), None),
            };
            DiffLine {
                kind,
                old,
                new,
                text,
                emphasis: Vec::new(),
            }
        });
        let mut hunk = DiffHunk {
            lines: lines.collect(),
        };
        emphasize(&mut hunk);
        hunk
    };
    hunks.into_iter().map(number).collect()
}

/// Lines added and removed in all hunks.
pub fn count(hunks: &[DiffHunk]) -> DiffCount {
    let mut count = DiffCount::default();
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        match line.kind {
            DiffKind::Context => {}
            DiffKind::Added => count.added += 1,
            DiffKind::Removed => count.removed += 1,
        }
    }
    count
}

/// Pairs removed with added lines, in order, and marks what changed between the two of a pair.
fn emphasize(hunk: &mut DiffHunk) {
    let lines = &mut hunk.lines;
    let mut start = 0;
    while start < lines.len() {
        let run = |from: usize, kind| {
            lines[from..]
                .iter()
                .take_while(|line| line.kind == kind)
                .count()
        };
        let removed = run(start, DiffKind::Removed);
        let added = run(start + removed, DiffKind::Added);
        for pair in 0..removed.min(added) {
            let (before, after) = lines.split_at_mut(start + removed);
            emphasize_pair(&mut before[start + pair], &mut after[pair]);
        }
        start += (removed + added).max(1);
    }
}

fn emphasize_pair(old: &mut DiffLine, new: &mut DiffLine) {
    if old.text.len().max(new.text.len()) > LINE_LIMIT {
        return;
    }
    let (old_words, new_words) = (words(&old.text), words(&new.text));
    let diff = TextDiff::from_slices(&old_words, &new_words);
    let same: usize = diff
        .iter_all_changes()
        .filter(|change| change.tag() == ChangeTag::Equal)
        .map(|change| change.value().trim().len())
        .sum();
    let whole = old.text.trim().len().max(new.text.trim().len());
    if whole == 0 || (same as f32) < SIMILAR * whole as f32 {
        return;
    }
    let (mut at_old, mut at_new) = (0, 0);
    let mark = |ranges: &mut Vec<Range<usize>>, at: usize, length: usize| match ranges.last_mut() {
        Some(last) if last.end == at => last.end = at + length,
        _ => ranges.push(at..at + length),
    };
    let (mut in_old, mut in_new) = (Vec::new(), Vec::new());
    for change in diff.iter_all_changes() {
        let length = change.value().len();
        match change.tag() {
            ChangeTag::Equal => (at_old, at_new) = (at_old + length, at_new + length),
            ChangeTag::Delete => {
                mark(&mut in_old, at_old, length);
                at_old += length;
            }
            ChangeTag::Insert => {
                mark(&mut in_new, at_new, length);
                at_new += length;
            }
        }
    }
    (old.emphasis, new.emphasis) = (in_old, in_new);
}

/// Cuts a line into words, runs of whitespace, and single signs.
fn words(line: &str) -> Vec<&str> {
    let kind = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 0,
        letter if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, letter) in line.char_indices() {
        let now = kind(letter);
        if before.is_some_and(|before| before != now || now == 2) {
            words.push(&line[start..at]);
            start = at;
        }
        before = Some(now);
    }
    words.push(&line[start..]);
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(hunks: &[DiffHunk]) -> Vec<String> {
        let line = |line: &DiffLine| {
            let sign = match line.kind {
                DiffKind::Context => ' ',
                DiffKind::Added => '+',
                DiffKind::Removed => '-',
            };
            let number =
                |number: Option<u32>| number.map_or("·".into(), |number| number.to_string());
            let marked: Vec<&str> = line
                .emphasis
                .iter()
                .map(|range| &line.text[range.clone()])
                .collect();
            format!(
                "{} {} {sign}{} {marked:?}",
                number(line.old),
                number(line.new),
                line.text
            )
        };
        hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .map(line)
            .collect()
    }

    #[test]
    fn hunks_have_numbers_and_the_changed_words() {
        let old = "one\ntwo\nlet total = price + tax;\nfour\n";
        let new = "one\ntwo\nlet total = price + fee;\nextra\nfour\n";
        let expected = [
            "2 2  two []",
            "3 · -let total = price + tax; [\"tax\"]",
            "· 3 +let total = price + fee; [\"fee\"]",
            "· 4 +extra []",
            "4 5  four []",
        ];
        assert_eq!(shown(&between(old, new, 1)), expected);
        assert_eq!(
            count(&between(old, new, 1)),
            DiffCount {
                added: 2,
                removed: 1
            }
        );
        assert!(between(old, old, 3).is_empty());
    }

    #[test]
    fn hunks_of_another_program_are_numbered_alike() {
        let hunk = PlainHunk {
            old_start: 10,
            new_start: 12,
            lines: vec![
                (DiffKind::Context, "same".into()),
                (DiffKind::Removed, "call(a, b)".into()),
                (DiffKind::Added, "call(a, c)".into()),
                (DiffKind::Removed, "nothing in common".into()),
                (DiffKind::Added, "{}".into()),
            ],
        };
        let expected = [
            "10 12  same []",
            "11 · -call(a, b) [\"b\"]",
            "· 13 +call(a, c) [\"c\"]",
            "12 · -nothing in common []",
            "· 14 +{} []",
        ];
        assert_eq!(shown(&from_hunks([hunk])), expected);
    }

    proptest! {
        #[test]
        fn the_lines_of_a_diff_are_those_of_the_texts(old in "([a-c]{0,3}\n){0,12}", new in "([a-c]{0,3}\n){0,12}") {
            let hunks = between(&old, &new, usize::MAX / 4);
            let side = |dropped| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.kind != dropped).map(|line| format!("{}\n", line.text)).collect::<String>();
            if old != new {
                prop_assert_eq!(side(DiffKind::Added), old);
                prop_assert_eq!(side(DiffKind::Removed), new);
            }
            for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
                for range in &line.emphasis {
                    prop_assert!(line.text.get(range.clone()).is_some());
                }
            }
        }
    }
}
