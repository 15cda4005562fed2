//! `apply_patch`.

use std::os::unix::fs::PermissionsExt;

use bezel_tools_contract::{FileAction, ToolDetails};
use serde_json::{Value, json};

use crate::fixture::{Session, details, text};

fn patch(body: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{body}*** End Patch\n")})
}

#[tokio::test]
async fn files_are_added_changed_moved_and_deleted_at_once() {
    let session = Session::new();
    session.file("change.txt", "a\nb\nc\n");
    let moved = session.file("from.sh", "x\ny\n");
    std::fs::set_permissions(&moved, std::fs::Permissions::from_mode(0o755)).unwrap();
    session.file("gone.txt", "bye\n");
    let output = session
        .call(
            "apply_patch",
            patch(
                "*** Add File: new/file.txt\n+hello\n*** Update File: change.txt\n a\n-b\n+B\n\
                 *** Update File: from.sh\n*** Move to: sub/to.sh\n x\n-y\n+z\n*** Delete File: gone.txt\n",
            ),
        )
        .await
        .unwrap();
    assert_eq!(session.content("new/file.txt"), "hello\n");
    assert_eq!(session.content("change.txt"), "a\nB\nc\n");
    assert_eq!(session.content("sub/to.sh"), "x\nz\n");
    assert_eq!(
        session
            .path("sub/to.sh")
            .metadata()
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
    assert_eq!(session.names(), ["change.txt", "new", "sub"]);
    assert_eq!(
        text(&output),
        "Applied the patch:\nadded new/file.txt (+1)\nupdated change.txt (+1 −1)\n\
         moved from.sh to sub/to.sh (+1 −1)\ndeleted gone.txt (−1)\n"
    );
    let ToolDetails::Changes(changes) = details(&output) else {
        panic!("no changes")
    };
    let actions: Vec<_> = changes
        .files
        .iter()
        .map(|file| (file.action, file.moved_from.is_some()))
        .collect();
    assert_eq!(
        actions,
        [
            (FileAction::Added, false),
            (FileAction::Updated, false),
            (FileAction::Updated, true),
            (FileAction::Deleted, false)
        ]
    );
    assert_eq!(output.changes.len(), 5, "{:?}", output.changes);
}

#[tokio::test]
async fn one_bad_section_leaves_everything_as_it_was() {
    let session = Session::new();
    session.file("a", "one\n");
    session.file("b", "two\n");
    let error = session
        .error(
            "apply_patch",
            patch("*** Add File: new\n+x\n*** Update File: a\n-one\n+1\n*** Update File: b\n-missing\n+2\n"),
        )
        .await;
    assert!(error.starts_with("The patch was not applied. In b, chunk 1 (line 8 of the patch): its unchanged and removed lines are not in the file."), "{error}");
    assert_eq!(
        (session.content("a"), session.content("b")),
        ("one\n".into(), "two\n".into())
    );
    assert_eq!(session.names(), ["a", "b"]);
}

#[tokio::test]
async fn a_step_that_fails_at_the_last_moment_takes_the_others_back() {
    let session = Session::new();
    session.file("a", "one\n");
    std::os::unix::fs::symlink("/proc/self/stat", session.path("z")).unwrap();
    // The link's target can be read but nothing can be written beside it.
    let error = session
        .error(
            "apply_patch",
            patch("*** Update File: a\n-one\n+1\n*** Add File: /proc/bezel-test\n+x\n"),
        )
        .await;
    assert!(error.contains("/proc/bezel-test"), "{error}");
    assert_eq!(session.content("a"), "one\n");
    assert_eq!(session.names(), ["a", "z"]);
}

#[tokio::test]
async fn conflicts_with_what_is_there_are_refused() {
    let session = Session::new();
    session.file("a", "one\n");
    session.file("b", "one\n");
    session.file("c.bin", b"\0\n");
    session.file("d", b"caf\xe9\n");
    for (body, reason) in [
        (
            "*** Add File: a\n+x\n",
            "a is to be added but exists already",
        ),
        (
            "*** Update File: a\n*** Move to: b\n-one\n+1\n",
            "b is to be added but exists already",
        ),
        ("*** Delete File: zz\n", "zz: it does not exist"),
        ("*** Update File: zz\n+x\n", "zz: it does not exist"),
        ("*** Delete File: .\n", "it is a directory"),
        (
            "*** Update File: c.bin\n+x\n",
            "c.bin is binary data and no text",
        ),
        (
            "*** Update File: d\n+x\n",
            "d holds bytes that are not valid in its encoding",
        ),
        (
            "*** Update File: a\n-one\n+1\n*** Delete File: ./a\n",
            "more than one section for a",
        ),
    ] {
        let error = session.error("apply_patch", patch(body)).await;
        assert!(error.contains(reason), "{body}: {error}");
    }
    assert_eq!(session.names(), ["a", "b", "c.bin", "d"]);
}

#[tokio::test]
async fn a_text_that_is_no_patch_is_refused_with_advice() {
    let session = Session::new();
    let error = session
        .error("apply_patch", json!({"patch": "--- a/x\n+++ b/x\n"}))
        .await;
    assert!(
        error.contains("nothing was changed") && error.contains("*** Begin Patch"),
        "{error}"
    );
}

#[tokio::test]
async fn foreign_changes_are_kept_and_a_changed_file_is_not_deleted() {
    let session = Session::new();
    session.file("a", "one\ntwo\n");
    session.text("read", json!({"path": "a"})).await;
    session.file("a", "one\ntwo\nthree\n");
    let error = session
        .error("apply_patch", patch("*** Delete File: a\n"))
        .await;
    assert!(
        error.contains("has changed on disk since you last saw it"),
        "{error}"
    );
    let said = session
        .text("apply_patch", patch("*** Update File: a\n-one\n+1\n"))
        .await;
    assert!(said.contains("those changes are kept"), "{said}");
    assert_eq!(session.content("a"), "1\ntwo\nthree\n");
    session
        .error("apply_patch", patch("*** Delete File: a\n"))
        .await;
    session.text("read", json!({"path": "a"})).await;
    session
        .text("apply_patch", patch("*** Delete File: a\n"))
        .await;
    assert!(session.names().is_empty());
}

#[tokio::test]
async fn a_loose_match_is_said() {
    let session = Session::new();
    session.file("a", "\tone\n");
    let said = session
        .text("apply_patch", patch("*** Update File: a\n-one\n+\ttwo\n"))
        .await;
    assert!(said.contains("matched ignoring indentation"), "{said}");
    assert_eq!(session.content("a"), "\ttwo\n");
}

#[tokio::test]
async fn a_moved_file_keeps_its_bytes_when_nothing_else_changes() {
    let session = Session::new();
    session.file("a.bin", b"\0\xff");
    session
        .text(
            "apply_patch",
            patch("*** Update File: a.bin\n*** Move to: b.bin\n"),
        )
        .await;
    assert_eq!(std::fs::read(session.path("b.bin")).unwrap(), b"\0\xff");
    assert_eq!(session.names(), ["b.bin"]);
}
