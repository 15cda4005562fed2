//! `write`.

use std::os::unix::fs::PermissionsExt;

use bezel_tools_contract::{FileAction, ToolDetails};
use serde_json::json;

use crate::fixture::{Session, details};

#[tokio::test]
async fn a_new_file_is_made_with_its_directories() {
    let session = Session::new();
    let output = session
        .call(
            "write",
            json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
        )
        .await
        .unwrap();
    assert_eq!(session.content("a/b/c.txt"), "one\ntwo\n");
    assert_eq!(
        crate::fixture::text(&output),
        "Created a/b/c.txt (2 lines, 8 bytes)."
    );
    assert_eq!(output.changes.len(), 1);
    assert_eq!(output.changes[0].path, session.path("a/b/c.txt"));
    let ToolDetails::Changes(changes) = details(&output) else {
        panic!("no changes")
    };
    assert_eq!(
        (changes.files[0].action, changes.files[0].added),
        (FileAction::Added, 2)
    );
    let mode = session
        .path("a/b/c.txt")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0, "not executable");
    assert_ne!(
        mode & 0o044,
        0,
        "readable as the umask allows, unlike a temporary file: {mode:o}"
    );
}

#[tokio::test]
async fn a_file_that_was_not_read_is_not_overwritten() {
    let session = Session::new();
    session.file("a", "old");
    let error = session
        .error("write", json!({"path": "a", "content": "new"}))
        .await;
    assert!(
        error.contains("you have not read it in this session. Read it first"),
        "{error}"
    );
    assert_eq!(session.content("a"), "old");
    session.text("read", json!({"path": "a"})).await;
    assert_eq!(
        session
            .text("write", json!({"path": "a", "content": "new"}))
            .await,
        "Replaced a (1 line, 3 bytes)."
    );
    assert_eq!(
        session
            .text("write", json!({"path": "a", "content": "newer"}))
            .await,
        "Replaced a (1 line, 5 bytes)."
    );
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let session = Session::new();
    session.file("a", "one");
    session.text("read", json!({"path": "a"})).await;
    session.file("a", "two");
    let error = session
        .error("write", json!({"path": "a", "content": "new"}))
        .await;
    assert!(
        error.contains("it has changed on disk since you last read or wrote it"),
        "{error}"
    );
    assert_eq!(session.content("a"), "two");
    session.text("read", json!({"path": "a"})).await;
    session
        .text("write", json!({"path": "a", "content": "new"}))
        .await;
    assert_eq!(session.content("a"), "new");
}

#[tokio::test]
async fn a_large_file_is_guarded_too() {
    let session = Session::new();
    let large = "z".repeat(9 * 1024 * 1024);
    session.file("large", &large);
    session.text("read", json!({"path": "large"})).await;
    session.file("large", format!("{large}changed"));
    let error = session
        .error("write", json!({"path": "large", "content": "new"}))
        .await;
    assert!(error.contains("changed on disk"), "{error}");
    session.text("read", json!({"path": "large"})).await;
    session
        .text("write", json!({"path": "large", "content": "new"}))
        .await;
    assert_eq!(session.content("large"), "new");
}

#[tokio::test]
async fn an_empty_file_may_be_filled_unread() {
    let session = Session::new();
    session.file("a", "");
    session
        .text("write", json!({"path": "a", "content": "new"}))
        .await;
    assert_eq!(session.content("a"), "new");
}

#[tokio::test]
async fn the_same_content_writes_nothing() {
    let session = Session::new();
    let path = session.file("a", "same");
    session.text("read", json!({"path": "a"})).await;
    let before = path.metadata().unwrap().modified().unwrap();
    let output = session
        .call("write", json!({"path": "a", "content": "same"}))
        .await
        .unwrap();
    assert!(output.changes.is_empty());
    assert_eq!(path.metadata().unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn a_link_stays_and_its_target_keeps_its_permissions() {
    let session = Session::new();
    let target = session.file("bin/tool", "old");
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("bin/tool", session.path("link")).unwrap();
    session.text("read", json!({"path": "link"})).await;
    session
        .text("write", json!({"path": "link", "content": "new"}))
        .await;
    assert!(session.path("link").is_symlink());
    assert_eq!(session.content("bin/tool"), "new");
    assert_eq!(
        target.metadata().unwrap().permissions().mode() & 0o7777,
        0o750
    );
}

#[tokio::test]
async fn what_cannot_be_written_is_said_and_leaves_nothing() {
    let session = Session::new();
    session.file("file", "x");
    for (path, reason) in [
        (".", "it is a directory"),
        ("file/below", "a part of the path is a file"),
        ("", "The path is empty"),
    ] {
        let error = session
            .error("write", json!({"path": path, "content": "y"}))
            .await;
        assert!(error.contains(reason), "{path}: {error}");
    }
    let long = "n".repeat(300);
    let error = session
        .error("write", json!({"path": long, "content": "y"}))
        .await;
    assert!(error.contains("too long"), "{error}");
    std::os::unix::fs::symlink("gone", session.path("link")).unwrap();
    let error = session
        .error("write", json!({"path": "link", "content": "y"}))
        .await;
    assert!(error.contains("symbolic link to gone"), "{error}");
    assert_eq!(session.names(), ["file", "link"]);
}

#[tokio::test]
async fn a_directory_that_is_not_writable_is_named() {
    let session = Session::new();
    // Nobody, root included, may make files there.
    let error = session
        .error("write", json!({"path": "/proc/bezel-test", "content": "y"}))
        .await;
    assert!(error.contains("/proc/bezel-test"), "{error}");
    if rustix::process::geteuid().is_root() {
        return;
    }
    let locked = session.path("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let error = session
        .error("write", json!({"path": "locked/a", "content": "y"}))
        .await;
    assert!(error.contains("locked is not writable"), "{error}");
}
