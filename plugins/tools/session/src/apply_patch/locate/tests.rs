//! Chunks find their places, and texts become others.

use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

use super::super::parse::{Section, parse};
use super::*;

fn patched(text: &str, body: &str) -> Result<Patched, Misplaced> {
    let patch = parse(&format!(
        "*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n"
    ))
    .expect("a patch");
    let Some(Section::Update { chunks, .. }) = patch.sections.first() else {
        panic!("no update")
    };
    apply(text, chunks)
}

fn text_of(text: &str, body: &str) -> Result<String, Misplaced> {
    patched(text, body).map(|patched| patched.text)
}

/// The patch body from `old` to `new` with `context` unchanged lines around each change.
fn body(old: &str, new: &str, context: usize) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut body = String::new();
    for group in diff.grouped_ops(context) {
        body += "@@\n";
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            body += match change.tag() {
                ChangeTag::Equal => " ",
                ChangeTag::Insert => "+",
                ChangeTag::Delete => "-",
            };
            body += change.value().trim_end_matches('\n');
            body += "\n";
        }
    }
    body
}

fn lines() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ab]{0,2}", 0..12)
        .prop_map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())
}

proptest! {
    #[test]
    fn a_patch_with_full_context_turns_one_text_into_the_other(old in lines(), new in lines()) {
        prop_assume!(old != new);
        prop_assert_eq!(text_of(&old, &body(&old, &new, 1_000)), Ok(new));
    }

    #[test]
    fn little_context_gives_the_right_text_or_a_refusal(old in lines(), new in lines(), context in 1_usize..4) {
        prop_assume!(old != new);
        match text_of(&old, &body(&old, &new, context)) {
            Ok(text) => prop_assert_eq!(text, new),
            Err(problem) => {
                let ambiguous = matches!(problem, Misplaced::Ambiguous { .. });
                prop_assert!(ambiguous, "{:?}", problem);
            }
        }
    }

    #[test]
    fn a_crlf_file_stays_one(old in lines(), new in lines()) {
        prop_assume!(old != new && !old.is_empty());
        let windows = old.replace('\n', "\r\n");
        prop_assert_eq!(text_of(&windows, &body(&old, &new, 1_000)), Ok(new.replace('\n', "\r\n")));
    }

    #[test]
    fn unique_lines_need_little_context(count in 5_usize..60, changed in proptest::collection::btree_set(0_usize..60, 1..6)) {
        let old: String = (0..count).map(|line| format!("line {line}\n")).collect();
        let new: String = (0..count)
            .map(|line| if changed.contains(&line) { format!("changed {line}\nand more\n") } else { format!("line {line}\n") })
            .collect();
        prop_assume!(old != new);
        prop_assert_eq!(text_of(&old, &body(&old, &new, 3)), Ok(new));
    }
}

const CODE: &str =
    "class A:\n    def run(self):\n        go()\n\nclass B:\n    def run(self):\n        go()\n";

#[test]
fn anchors_choose_among_equal_places() {
    let change = "-        go()\n+        stop()\n";
    let expected = CODE
        .rsplit_once("go()")
        .map(|(before, after)| format!("{before}stop(){after}"));
    assert_eq!(
        text_of(CODE, &format!("@@ class B:\n{change}")).ok(),
        expected
    );
    assert_eq!(
        text_of(CODE, &format!("@@ class B\n@@ def run(self):\n{change}")).ok(),
        expected
    );
    let first = text_of(CODE, &format!("@@ class A:\n{change}"));
    assert_eq!(first, Ok(CODE.replacen("go()", "stop()", 1)));
    assert_eq!(
        text_of(CODE, change),
        Err(Misplaced::Ambiguous {
            chunk: 0,
            lines: vec![3, 7]
        })
    );
    assert_eq!(
        text_of(CODE, &format!("@@ def run(self):\n{change}")),
        Err(Misplaced::Ambiguous {
            chunk: 0,
            lines: vec![3, 7]
        })
    );
    let nowhere = text_of(CODE, &format!("@@ class C:\n{change}"));
    assert_eq!(
        nowhere,
        Err(Misplaced::NoAnchor {
            chunk: 0,
            anchor: "class C:".into()
        })
    );
}

#[test]
fn two_equal_chunks_change_both_places_in_order() {
    let change = "@@\n-        go()\n+        stop()\n";
    assert_eq!(
        text_of(CODE, &format!("{change}{change}")),
        Ok(CODE.replace("go()", "stop()"))
    );
}

#[test]
fn chunks_out_of_order_are_refused() {
    let result = text_of("a\nb\nc\n", "@@\n-c\n+C\n@@\n-a\n+A\n");
    assert_eq!(result, Err(Misplaced::OutOfOrder { chunk: 1 }));
    assert_eq!(
        text_of("a\n", "@@\n-x\n+y\n"),
        Err(Misplaced::NotFound { chunk: 0 })
    );
}

#[test]
fn loose_matches_keep_the_files_own_unchanged_lines() {
    let loose = patched("\tone  \n\ttwo\n", " one\n-two\n+\tthree\n").expect("applies");
    assert_eq!(
        (loose.text.as_str(), loose.fuzz),
        ("\tone  \n\tthree\n", Fuzz::Indentation)
    );
    let trailing = patched("one \ntwo\n", " one\n-two\n+three\n").expect("applies");
    assert_eq!(trailing.fuzz, Fuzz::TrailingSpace);
    let quotes = patched("say “hi”\n", "-say \"hi\"\n+say nothing\n").expect("applies");
    assert_eq!(
        (quotes.text.as_str(), quotes.fuzz),
        ("say nothing\n", Fuzz::Punctuation)
    );
}

#[test]
fn the_final_newline_stays_as_it_was() {
    assert_eq!(text_of("a\nb", " a\n-b\n+c\n"), Ok("a\nc".into()));
    assert_eq!(text_of("a\nb", " b\n+c\n"), Ok("a\nb\nc".into()));
    assert_eq!(text_of("a\nb\n", " b\n+c\n"), Ok("a\nb\nc\n".into()));
    assert_eq!(text_of("", "+a\n"), Ok("a\n".into()));
}

#[test]
fn additions_go_to_the_end_or_below_their_anchor() {
    assert_eq!(text_of("a\nb\n", "+c\n"), Ok("a\nb\nc\n".into()));
    assert_eq!(text_of("a\nb\n", "@@ a\n+x\n"), Ok("a\nx\nb\n".into()));
    assert_eq!(
        text_of("x\na\nx\n", "@@\n-x\n+y\n*** End of File\n"),
        Ok("x\na\ny\n".into())
    );
}

#[test]
fn a_stray_blank_line_at_the_end_of_a_chunk_is_forgiven() {
    assert_eq!(
        text_of("a\nb\n", "@@\n-a\n+x\n\n@@\n-b\n+y\n"),
        Ok("x\ny\n".into())
    );
}
