//! `edit`.

use std::os::unix::fs::PermissionsExt;

use bezel_tools_contract::{DiffLineKind, ToolDetails};
use serde_json::{Value, json};

use crate::fixture::{Session, details, text};

fn one(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
}

#[tokio::test]
async fn a_unique_text_is_replaced_and_the_diff_is_in_the_details() {
    let session = Session::new();
    session.file("a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n");
    let output = session
        .call("edit", one("a.rs", "fn b() {}", "fn b() -> u8 { 1 }"))
        .await
        .unwrap();
    assert_eq!(
        session.content("a.rs"),
        "fn a() {}\nfn b() -> u8 { 1 }\nfn c() {}\n"
    );
    assert_eq!(
        text(&output),
        "Edited a.rs: 1 replacement at line 2 (+1 −1 lines)."
    );
    let ToolDetails::Changes(changes) = details(&output) else {
        panic!("no changes")
    };
    let lines: Vec<_> = changes.files[0].hunks[0]
        .lines
        .iter()
        .map(|line| (line.kind, line.old_line, line.new_line))
        .collect();
    assert_eq!(
        lines,
        [
            (DiffLineKind::Context, Some(1), Some(1)),
            (DiffLineKind::Removed, Some(2), None),
            (DiffLineKind::Added, None, Some(2)),
            (DiffLineKind::Context, Some(3), Some(3)),
        ]
    );
    assert_eq!(output.changes[0].path, session.path("a.rs"));
}

#[tokio::test]
async fn several_edits_apply_in_order_and_all_or_none() {
    let session = Session::new();
    session.file("a", "one two three\n");
    let edits = json!({"path": "a", "edits": [
        {"old_text": "one", "new_text": "two and a half"},
        {"old_text": "two three", "new_text": "end"},
        {"old_text": "half end", "new_text": "half"},
    ]});
    session.text("edit", edits).await;
    assert_eq!(session.content("a"), "two and a half\n");
    let edits = json!({"path": "a", "edits": [
        {"old_text": "two", "new_text": "2"},
        {"old_text": "missing", "new_text": "x"},
    ]});
    let error = session.error("edit", edits).await;
    assert!(error.starts_with("Did not edit a: old_text of edit 2 of 2 is not in the file as the edits before it leave it."), "{error}");
    assert_eq!(session.content("a"), "two and a half\n");
}

#[tokio::test]
async fn a_text_in_several_places_is_refused_with_its_lines_or_replaced_everywhere() {
    let session = Session::new();
    session.file("a", "x = 1\ny = 1\nx = 1\n");
    let error = session.error("edit", one("a", "x = 1", "x = 2")).await;
    assert!(
        error.contains("is in the file 2 times, at lines 1, 3."),
        "{error}"
    );
    let all = json!({"path": "a", "edits": [{"old_text": "x = 1", "new_text": "x = 2", "replace_all": true}]});
    assert!(
        session
            .text("edit", all)
            .await
            .starts_with("Edited a: 2 replacements at lines 1–3")
    );
    assert_eq!(session.content("a"), "x = 2\ny = 1\nx = 2\n");
}

#[tokio::test]
async fn a_near_miss_shows_where_it_nearly_is() {
    let session = Session::new();
    session.file("a.py", "def f():\n\treturn 1\n");
    let error = session
        .error("edit", one("a.py", "def f():\n    return 1\n", ""))
        .await;
    assert!(
        error.contains("The same text with other whitespace is at lines 1–2"),
        "{error}"
    );
    assert!(
        error.contains("Line 2 of the file is \"\\treturn 1\", but old_text has \"    return 1\""),
        "{error}"
    );
}

#[tokio::test]
async fn line_endings_mark_final_newline_and_permissions_stay() {
    let session = Session::new();
    let path = session.file("run.sh", "\u{feff}a\r\nb\r\nc");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    session
        .text("edit", one("run.sh", "a\nb\n", "a\nx\ny\n"))
        .await;
    assert_eq!(session.content("run.sh"), "\u{feff}a\r\nx\r\ny\r\nc");
    assert_eq!(
        path.metadata().unwrap().permissions().mode() & 0o7777,
        0o755
    );
    session.text("edit", one("run.sh", "c\n", "d\n")).await;
    assert_eq!(session.content("run.sh"), "\u{feff}a\r\nx\r\ny\r\nd");
}

#[tokio::test]
async fn utf16_stays_utf16() {
    let session = Session::new();
    let encode =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_be_bytes).collect() };
    let path = session.file("a.txt", encode("\u{feff}grün\r\nrot\r\n"));
    session.text("edit", one("a.txt", "grün\n", "blau\n")).await;
    assert_eq!(
        std::fs::read(path).unwrap(),
        encode("\u{feff}blau\r\nrot\r\n")
    );
}

#[tokio::test]
async fn a_foreign_change_is_kept_and_said() {
    let session = Session::new();
    session.file("a", "one\ntwo\n");
    session.text("read", json!({"path": "a"})).await;
    session.file("a", "one\ntwo\nthree\n");
    let text = session.text("edit", one("a", "one", "1")).await;
    assert!(
        text.contains("The file had changed on disk since you last saw it"),
        "{text}"
    );
    assert_eq!(session.content("a"), "1\ntwo\nthree\n");
    // What somebody else wrote was not seen yet, so nothing may be written over it.
    let whole = json!({"path": "a", "content": "1\ntwo\n"});
    let error = session.error("write", whole.clone()).await;
    assert!(error.contains("changed on disk"), "{error}");
    session.text("read", json!({"path": "a"})).await;
    session.text("write", whole).await;
    session.file("a", "quite different\n");
    let error = session.error("edit", one("a", "two", "2")).await;
    assert!(
        error.contains("has changed on disk since you last read it: read it again"),
        "{error}"
    );
}

#[tokio::test]
async fn an_edited_file_may_be_overwritten_if_it_was_read() {
    let session = Session::new();
    session.file("a", "one\nmore\n");
    session.text("edit", one("a", "one", "two")).await;
    let whole = json!({"path": "a", "content": "three\n"});
    session.error("write", whole.clone()).await;
    session.text("read", json!({"path": "a"})).await;
    session.text("edit", one("a", "two", "2")).await;
    session.text("write", whole).await;
    assert_eq!(session.content("a"), "three\n");
}

#[tokio::test]
async fn impossible_edits_are_refused_with_advice() {
    let session = Session::new();
    session.file("a", "text\n");
    session.file("b.bin", b"\0text");
    for (arguments, reason) in [
        (one("a", "", "x"), "old_text of the edit is empty"),
        (one("a", "text", "text"), "are the same"),
        (one("b.bin", "text", "x"), "it is binary data and no text"),
        (one(".", "a", "b"), "it is a directory"),
        (one("missing", "a", "b"), "it does not exist"),
    ] {
        let error = session.error("edit", arguments).await;
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(session.content("a"), "text\n");
    assert_eq!(session.names(), ["a", "b.bin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_edits_of_one_file_are_all_kept() {
    let session = Session::new();
    let text: String = (0..40).map(|line| format!("line {line}.\n")).collect();
    session.file("a", &text);
    std::os::unix::fs::symlink("a", session.path("link")).unwrap();
    let edits = (0..40).map(|line| {
        let name = if line % 2 == 0 { "a" } else { "link" };
        session.text(
            "edit",
            one(name, &format!("line {line}."), &format!("changed {line}.")),
        )
    });
    futures::future::join_all(edits).await;
    assert_eq!(session.content("a"), text.replace("line", "changed"));
}
