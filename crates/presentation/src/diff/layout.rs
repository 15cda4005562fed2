//! What a diff looks like: one column of numbers, signs, coloured rows, changed words, and syntax on top.

use super::{DiffHunk, DiffKind, DiffLine};
use crate::highlight::{CodeHighlight, Highlighter};
use crate::text::{Role, StyledLine, StyledSpan, TextStyle, sanitize};
use crate::wrap::wrap_hard;

/// The syntax of a diff's two sides, kept between frames by whoever shows it.
#[derive(Debug, Clone)]
pub struct DiffSyntax {
    hunks: Vec<[CodeHighlight; 2]>,
}

impl DiffSyntax {
    /// Begins to highlight both sides of every hunk. `language` is a name, an extension or a file name.
    pub fn new(hunks: &[DiffHunk], language: &str, highlighter: &Highlighter) -> Self {
        let both = |hunk: &DiffHunk| {
            [DiffKind::Added, DiffKind::Removed].map(|dropped| {
                let mut side = highlighter.open(language);
                let lines = hunk.lines.iter().filter(|line| line.kind != dropped);
                side.update(
                    &lines
                        .map(|line| format!("{}\n", line.text))
                        .collect::<String>(),
                    true,
                );
                side
            })
        };
        DiffSyntax {
            hunks: hunks.iter().map(both).collect(),
        }
    }

    /// Whether nothing more is to come.
    pub fn is_done(&self) -> bool {
        self.hunks.iter().flatten().all(CodeHighlight::is_done)
    }
}

/// Lays hunks out in rows of `width` columns, a separator between hunks. Rows of changed lines have their
/// background over the whole width.
pub fn lay_out(hunks: &[DiffHunk], syntax: Option<&DiffSyntax>, width: usize) -> Vec<StyledLine> {
    let last = hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .filter_map(|line| line.new.max(line.old))
        .max();
    let digits = last.unwrap_or(1).to_string().len();
    let mut rows = Vec::new();
    for (position, hunk) in hunks.iter().enumerate() {
        if position > 0 {
            rows.push(StyledLine::new(
                format!("{:>digits$} ⋮", ""),
                Role::DiffHunk,
            ));
        }
        let sides = syntax.and_then(|syntax| syntax.hunks.get(position));
        let [old, new] = match sides {
            Some([old, new]) => [old.lines_from(0), new.lines_from(0)],
            None => [Vec::new(), Vec::new()],
        };
        let (mut old, mut new) = (old.iter(), new.iter());
        for line in &hunk.lines {
            let highlighted = match line.kind {
                DiffKind::Removed => old.next(),
                DiffKind::Added => new.next(),
                DiffKind::Context => {
                    old.next();
                    new.next()
                }
            };
            push_line(line, highlighted, digits, width, &mut rows);
        }
    }
    rows
}

fn push_line(
    line: &DiffLine,
    highlighted: Option<&StyledLine>,
    digits: usize,
    width: usize,
    rows: &mut Vec<StyledLine>,
) {
    let (sign, role, emphasis) = match line.kind {
        DiffKind::Context => (' ', None, Role::Text),
        DiffKind::Added => ('+', Some(Role::DiffAdded), Role::DiffAddedEmphasis),
        DiffKind::Removed => ('-', Some(Role::DiffRemoved), Role::DiffRemovedEmphasis),
    };
    let number = line
        .new
        .or(line.old)
        .map_or(String::new(), |number| number.to_string());
    let plain = |text: String, own: Role| match role {
        Some(ground) => StyledSpan::new(text, TextStyle::role(own).on(ground)),
        None => StyledSpan::new(text, own),
    };
    let gutter = [
        plain(format!("{number:>digits$} "), Role::LineNumber),
        plain(format!("{sign} "), role.unwrap_or(Role::Faint)),
    ];
    let indent = digits + 3;
    let inner = width.saturating_sub(indent).max(1);
    let text = sanitize(&line.text, 4);
    // Positions are those of the text as it is; tabs and dropped characters would shift them.
    let marks = if text.len() == line.text.len() {
        line.emphasis.as_slice()
    } else {
        &[]
    };
    let mut styled = StyledLine::default();
    let base = match highlighted {
        Some(highlighted) if highlighted.to_text() == *text => highlighted.clone(),
        _ => StyledLine::new(
            text.clone().into_owned(),
            if role.is_some() {
                Role::CodeBlock
            } else {
                Role::Muted
            },
        ),
    };
    let mut at = 0;
    for span in base.spans {
        for (piece, marked) in split(&span.text, at, marks) {
            let ground = if marked { Some(emphasis) } else { role };
            styled.push(StyledSpan::new(
                piece.to_owned(),
                TextStyle {
                    background: ground,
                    ..span.style
                },
            ));
        }
        at += span.text.len();
    }
    for (position, row) in wrap_hard(&styled, inner).into_iter().enumerate() {
        let mut whole = StyledLine {
            spans: Vec::new(),
            background: role,
        };
        if position == 0 {
            gutter.iter().for_each(|span| whole.push(span.clone()));
        } else {
            whole.push(plain(" ".repeat(indent), Role::LineNumber));
        }
        row.spans.into_iter().for_each(|span| whole.push(span));
        rows.push(whole);
    }
}

/// Cuts a span that begins at byte `at` of its line where marked ranges begin and end.
fn split<'a>(text: &'a str, at: usize, marks: &[std::ops::Range<usize>]) -> Vec<(&'a str, bool)> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for mark in marks {
        let start = mark.start.clamp(at + from, at + text.len()) - at;
        let end = mark.end.clamp(at + start, at + text.len()) - at;
        if start > from {
            pieces.push((&text[from..start], false));
        }
        if end > start {
            pieces.push((&text[start..end], true));
        }
        from = end.max(from);
    }
    if from < text.len() {
        pieces.push((&text[from..], false));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::super::between;
    use super::*;

    fn describe(rows: &[StyledLine]) -> String {
        let row = |row: &StyledLine| {
            let spans = row.spans.iter().map(|span| {
                let ground = span
                    .style
                    .background
                    .map_or(String::new(), |role| format!("/{}", role.key()));
                format!("[{}]({}{ground})", span.text, span.style.role.key())
            });
            spans.collect::<String>()
        };
        rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn rows_carry_numbers_signs_grounds_and_the_changed_words() {
        let hunks = between("a\nlet x = 1;\nz\n", "a\nlet x = 2;\nz\n", 1);
        insta::assert_snapshot!(describe(&lay_out(&hunks, None, 40)), @r"
        [1 ](line_number)[  ](faint)[a](muted)
        [2 ](line_number/diff_removed)[- ](diff_removed/diff_removed)[let x = ](code_block/diff_removed)[1](code_block/diff_removed_emphasis)[;](code_block/diff_removed)
        [2 ](line_number/diff_added)[+ ](diff_added/diff_added)[let x = ](code_block/diff_added)[2](code_block/diff_added_emphasis)[;](code_block/diff_added)
        [3 ](line_number)[  ](faint)[z](muted)
        ");
    }

    #[test]
    fn long_lines_wrap_under_their_text_and_hunks_are_set_apart() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "one is now a longer line\n2\n3\n4\n5\n6\n7\n8\nnine\n";
        let text: Vec<String> = lay_out(&between(old, new, 0), None, 14)
            .iter()
            .map(StyledLine::to_text)
            .collect();
        assert_eq!(
            text,
            [
                "1 - 1",
                "1 + one is now",
                "     a longer ",
                "    line",
                "  ⋮",
                "9 - 9",
                "9 + nine"
            ]
        );
    }

    #[test]
    fn syntax_lies_above_the_ground_of_the_row() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let highlighter = Highlighter::new(move || {
            sender.send(()).ok();
        });
        let hunks = between("fn a() {}\n", "fn b() {}\n", 1);
        let syntax = DiffSyntax::new(&hunks, "src/x.rs", &highlighter);
        while !syntax.is_done() {
            receiver
                .recv_timeout(std::time::Duration::from_secs(60))
                .expect("the worker reports progress");
        }
        let rows = describe(&lay_out(&hunks, Some(&syntax), 40));
        assert!(
            rows.contains("[fn](keyword/diff_removed)")
                && rows.contains("[b](function/diff_added_emphasis)"),
            "{rows}"
        );
    }
}
