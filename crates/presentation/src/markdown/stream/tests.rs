//! Streamed text looks like the same text at once.

use proptest::prelude::*;

use super::super::{lay_out, parse};
use super::*;

fn grown(pieces: &[&str], width: usize, long: usize) -> MarkdownText {
    let mut text = MarkdownText {
        long,
        ..MarkdownText::default()
    };
    for piece in pieces {
        text.append(piece);
        text.lines(width, &Highlighter::plain());
    }
    text
}

fn assert_as_whole(pieces: &[&str], width: usize, long: usize) {
    let whole = pieces.concat();
    let mut text = grown(pieces, width, long);
    let blocks = parse(&whole);
    assert_eq!(text.blocks(), blocks, "{pieces:?}");
    assert_eq!(
        text.lines(width, &Highlighter::plain()),
        lay_out(&blocks, width),
        "{pieces:?}"
    );
}

#[test]
fn text_that_arrives_letter_by_letter_looks_as_if_it_had_come_at_once() {
    let text = "# Title\n\nSome *text* with `code`.\nNext line\n===\n\n- a\n- b\n\n  more\n\n1. x\n\n```rust\nfn main() {}\n\n``\n```\nafter\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\nlazy\n\n    indented\n\n---\nend";
    let letters: Vec<String> = text.chars().map(String::from).collect();
    let pieces: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_as_whole(&pieces, 40, 1024);
    assert_as_whole(&pieces, 7, 1024);
}

#[test]
fn a_link_definition_reaches_back() {
    assert_as_whole(
        &[
            "See [docs] here.\n\nMore text.\n\n",
            "And more.\n\n",
            "[docs]: https://example.org\n",
            "\nLast",
        ],
        60,
        1024,
    );
}

#[test]
fn a_long_paragraph_settles_and_still_becomes_what_it_must() {
    let words = "plain words follow each other and so on ".repeat(8);
    assert_as_whole(
        &[
            &words,
            &words,
            "**bold ",
            "here** and `a",
            " b` [link](x)",
            &words,
            "\nlast",
        ],
        30,
        64,
    );
    // Whatever was settled: the next line makes a heading, or a table, of it.
    assert_as_whole(&[&words, &words, "end\n", "---\n", "next"], 30, 64);
    assert_as_whole(
        &[&words, &words, "\na b c | d e f\n", "--|--\n", "1|2"],
        30,
        64,
    );
}

#[test]
fn only_the_unsettled_end_is_read_again() {
    let mut text = MarkdownText::new();
    let mut largest = 0;
    for number in 0..2_000 {
        text.append("another word and ");
        if number % 40 == 39 {
            text.append("\n\n");
        }
        text.lines(60, &Highlighter::plain());
        let Tail::Blocks(open) = &text.tail else {
            panic!("no fence here")
        };
        largest = largest
            .max(text.source.len() - open.prefix.as_ref().map_or(text.open, |prefix| prefix.end));
    }
    assert!(largest < 2 * LONG, "{largest} bytes were read again");
    for _ in 0..2_000 {
        text.append("a line of words without an end ");
        text.lines(60, &Highlighter::plain());
        let Tail::Blocks(open) = &text.tail else {
            panic!("no fence here")
        };
        largest = largest
            .max(text.source.len() - open.prefix.as_ref().map_or(text.open, |prefix| prefix.end));
    }
    assert!(largest < 2 * LONG, "{largest} bytes were read again");
    text.append("\n\n```\n");
    text.lines(60, &Highlighter::plain());
    assert!(matches!(text.tail, Tail::Fence(_)));
}

#[test]
fn set_appends_what_is_new_and_starts_anew_where_it_must() {
    let mut text = MarkdownText::from("# One\n\ntwo\n\n");
    text.lines(20, &Highlighter::plain());
    text.set("# One\n\ntwo\n\nthree");
    assert_eq!(text.blocks(), parse("# One\n\ntwo\n\nthree"));
    text.set("other");
    assert_eq!(
        text.lines(20, &Highlighter::plain()),
        lay_out(&parse("other"), 20)
    );
}

#[test]
fn code_is_plain_first_and_gets_its_colours_when_they_are_ready() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let highlighter = Highlighter::new(move || {
        sender.send(()).ok();
    });
    let mut text = MarkdownText::new();
    let colored = |lines: &[StyledLine], needle: &str| {
        let spans = lines.iter().flat_map(|line| &line.spans);
        spans
            .filter(|span| span.text.contains(needle))
            .any(|span| span.style.role == Role::Keyword)
    };
    let source = "```rust\nfn one() {}\nfn two() {}\n```\n\n- item\n  ```rust\n  struct Three;\n  ```\n\nend\n\n```rust\nfn four() {}\nlet five";
    for piece in source.split_inclusive('\n') {
        text.append(piece);
        let lines = text.lines(40, &highlighter);
        assert_eq!(lines.iter().map(StyledLine::to_text).collect::<Vec<_>>(), {
            let whole = lay_out(&parse(text.source()), 40);
            whole.iter().map(StyledLine::to_text).collect::<Vec<_>>()
        });
    }
    while !(colored(text.lines(40, &highlighter), "fn")
        && colored(text.lines(40, &highlighter), "struct"))
        || {
            let last = text
                .lines(40, &highlighter)
                .iter()
                .rev()
                .nth(1)
                .cloned()
                .unwrap_or_default();
            last.spans
                .iter()
                .all(|span| span.style.role != Role::Function)
        }
    {
        receiver
            .recv_timeout(std::time::Duration::from_secs(60))
            .expect("the worker reports progress");
    }
}

fn fragment() -> impl Strategy<Value = String> {
    let words =
        "(alpha|beta gamma|x_y_z|délta|漢字|a b c d e f g h|https://a\\.org/b_c| )( |\\. |, )?";
    let marks = "\\*|\\*\\*|_|`|``|~~|\\[|\\]|\\(x\\)|<b>|<|>|\\||\\\\|&amp;|!";
    let starts = "\n|\n\n|\n- |\n  - |\n1\\. |\n> |\n# |\n## |\n```\n|\n```rust\n|\n~~~\n|\n---\n|\n===\n|\n    |\n- \\[ \\] |\n\\| a \\| b \\|\n\\|---\\|---\\|\n|\n  ```\n|\n\\[a\\]: b\n|\n<div>\n";
    prop_oneof![6 => words, 2 => marks, 3 => starts].prop_map(|text| text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_pieces_looks_as_the_whole(pieces in proptest::collection::vec(fragment(), 1..40), width in 2_usize..60) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = pieces.concat();
        let mut text = grown(&pieces, width, 24);
        let blocks = parse(&whole);
        prop_assert_eq!(text.blocks(), blocks.clone());
        prop_assert_eq!(text.lines(width, &Highlighter::plain()), lay_out(&blocks, width));
    }

    #[test]
    fn no_line_is_too_wide(pieces in proptest::collection::vec(fragment(), 1..40), width in 2_usize..60) {
        for line in lay_out(&parse(&pieces.concat()), width) {
            prop_assert!(line.width() <= width, "{:?} is wider than {}", line.to_text(), width);
        }
    }
}
