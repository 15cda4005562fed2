//! From two texts to the diff that renderers show.

use std::time::Duration;

use bezel_tools_contract::{DiffHunk, DiffLine, DiffLineKind, FileAction, FileDiff};
use similar::{ChangeTag, DiffOp, DiffTag, TextDiff};

use crate::bound::cut_line;

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// Lines kept of the diffs of one call; a session stores them.
const MOST_LINES: usize = 2_000;
/// Bytes of text kept of them.
const MOST_BYTES: usize = 256 * 1024;
/// Characters kept of a line.
const MOST_CHARACTERS: usize = 500;
/// After this long a huge diff becomes coarser instead of finer.
const PATIENCE: Duration = Duration::from_millis(300);

/// The diff of a file whose text went from `old` to `new`.
pub(crate) fn diff(path: &str, action: FileAction, old: &[u8], new: &[u8]) -> FileDiff {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let diff = TextDiff::configure()
        .timeout(PATIENCE)
        .diff_slices(&old, &new);
    let (mut added, mut removed) = (0, 0);
    for op in diff.ops() {
        let (tag, old_range, new_range) = op.as_tag_tuple();
        if tag != DiffTag::Equal {
            removed += old_range.len() as u64;
            added += new_range.len() as u64;
        }
    }
    let mut hunks = Vec::new();
    let mut room = Room::new();
    let groups = diff.grouped_ops(CONTEXT);
    let total = groups.len();
    for group in groups {
        if group.iter().map(op_lines).sum::<usize>() > MOST_LINES {
            break;
        }
        let hunk = hunk(&diff, &group);
        if !room.take(&hunk) {
            break;
        }
        hunks.push(hunk);
    }
    FileDiff {
        path: path.into(),
        action,
        moved_from: None,
        added,
        removed,
        truncated: hunks.len() < total,
        hunks,
    }
}

/// Leaves out what does not fit into the details of one call that changes several files.
pub(crate) fn fit(files: &mut [FileDiff]) {
    let mut room = Room::new();
    for file in files {
        let fitting = file.hunks.iter().take_while(|hunk| room.take(hunk)).count();
        file.truncated |= fitting < file.hunks.len();
        file.hunks.truncate(fitting);
    }
}

/// How much more may be kept.
struct Room {
    lines: usize,
    bytes: usize,
}

impl Room {
    fn new() -> Self {
        Room {
            lines: MOST_LINES,
            bytes: MOST_BYTES,
        }
    }

    /// Takes room for a region; false when there is too little.
    fn take(&mut self, hunk: &DiffHunk) -> bool {
        let bytes: usize = hunk.lines.iter().map(|line| line.text.len()).sum();
        match (
            self.lines.checked_sub(hunk.lines.len()),
            self.bytes.checked_sub(bytes),
        ) {
            (Some(lines), Some(bytes)) => {
                *self = Room { lines, bytes };
                true
            }
            _ => false,
        }
    }
}

fn op_lines(op: &DiffOp) -> usize {
    match op.tag() {
        DiffTag::Equal => op.new_range().len(),
        _ => op.old_range().len() + op.new_range().len(),
    }
}

fn hunk(diff: &TextDiff<'_, '_, str>, group: &[DiffOp]) -> DiffHunk {
    let first = group.first().expect("a group has an operation");
    let last = group.last().expect("a group has an operation");
    let old = first.old_range().start..last.old_range().end;
    let new = first.new_range().start..last.new_range().end;
    let number = |index: Option<usize>| index.map(|index| index as u64 + 1);
    let lines = group
        .iter()
        .flat_map(|op| diff.iter_changes(op))
        .map(|change| {
            let raw: &str = change.value();
            let text = raw.strip_suffix('\n').unwrap_or(raw);
            let text = text.strip_suffix('\r').unwrap_or(text);
            DiffLine {
                kind: match change.tag() {
                    ChangeTag::Equal => DiffLineKind::Context,
                    ChangeTag::Insert => DiffLineKind::Added,
                    ChangeTag::Delete => DiffLineKind::Removed,
                },
                old_line: number(change.old_index()),
                new_line: number(change.new_index()),
                text: cut_line(text, MOST_CHARACTERS).into_owned(),
                no_newline: !raw.ends_with('\n'),
            }
        })
        .collect();
    let start = |range: &std::ops::Range<usize>| if range.is_empty() { range.start } else { range.start + 1 } as u64;
    DiffHunk {
        old_start: start(&old),
        old_lines: old.len() as u64,
        new_start: start(&new),
        new_lines: new.len() as u64,
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(old: &str, new: &str) -> String {
        let diff = diff("f", FileAction::Updated, old.as_bytes(), new.as_bytes());
        let mut text = String::new();
        for hunk in &diff.hunks {
            text += &format!(
                "@@ -{},{} +{},{} @@\n",
                hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines
            );
            for line in &hunk.lines {
                let sign = match line.kind {
                    DiffLineKind::Context => ' ',
                    DiffLineKind::Added => '+',
                    DiffLineKind::Removed => '-',
                };
                let ending = if line.no_newline { "\\" } else { "\n" };
                text += &format!("{sign}{}{ending}", line.text);
            }
        }
        text
    }

    #[test]
    fn hunks_carry_the_numbers_of_a_unified_diff() {
        let old: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let new = old
            .replace("line 5\n", "line five\n")
            .replace("line 18\n", "");
        assert_eq!(
            rendered(&old, &new),
            "@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+line five\n line 6\n line 7\n line 8\n\
             @@ -15,6 +15,5 @@\n line 15\n line 16\n line 17\n-line 18\n line 19\n line 20\n"
        );
    }

    #[test]
    fn a_new_file_starts_at_line_one_and_shows_a_missing_final_newline() {
        assert_eq!(rendered("", "a\r\nb"), "@@ -0,0 +1,2 @@\n+a\n+b\\");
        assert_eq!(rendered("a\n", "a"), "@@ -1,1 +1,1 @@\n-a\n+a\\");
    }

    #[test]
    fn a_huge_diff_keeps_its_counts_and_says_that_it_is_cut() {
        let new: String = (0..5_000).map(|line| format!("{line}\n")).collect();
        let diff = diff("f", FileAction::Added, b"", new.as_bytes());
        assert!(diff.truncated && diff.hunks.is_empty());
        assert_eq!((diff.added, diff.removed), (5_000, 0));
    }

    #[test]
    fn the_diffs_of_one_call_are_bounded_together() {
        let line = "x".repeat(400);
        let change = |lines: usize| {
            diff(
                "f",
                FileAction::Added,
                b"",
                format!("{line}\n").repeat(lines).as_bytes(),
            )
        };
        let mut files = vec![change(300), change(400), change(300), change(1)];
        assert!(files.iter().all(|file| !file.truncated));
        fit(&mut files);
        let kept: Vec<bool> = files.iter().map(|file| !file.hunks.is_empty()).collect();
        assert_eq!(kept, [true, false, true, true]);
        assert!(files[1].truncated && !files[0].truncated);
    }
}
