//! `grep`, `glob` and `ls`.

use std::time::{Duration, SystemTime};

use bezel_context::Context;
use bezel_session_types::{Access, ToolError};
use bezel_tools_contract::{GrepMode, ToolDetails};
use serde_json::json;

use crate::fixture::Session;

fn project() -> Session {
    let session = Session::new();
    session.file(
        "src/lib.rs",
        "use std::fmt;\n\nfn parse() {}\nfn print() {}\n",
    );
    session.file("src/deep/mod.rs", "fn parse_deep() {}\n// parse\n");
    session.file("README.md", "How to parse.\n");
    session.file(".gitignore", "/target\n*.log\n");
    session.file("target/out.rs", "fn parse() {}\n");
    session.file("debug.log", "parse\n");
    session.file(".hidden/secret.rs", "fn parse() {}\n");
    session.file("data.bin", b"parse\0parse\n");
    session
}

#[tokio::test]
async fn grep_lists_lines_by_file_and_passes_over_what_is_ignored_hidden_or_binary() {
    let session = project();
    assert_eq!(
        session.text("grep", json!({"pattern": "fn parse"})).await,
        "2 matching lines in 2 files:\n\nsrc/deep/mod.rs\n1: fn parse_deep() {}\n\nsrc/lib.rs\n3: fn parse() {}\n"
    );
    let all = session
        .text(
            "grep",
            json!({"pattern": "fn parse", "hidden": true, "ignored": true, "mode": "files"}),
        )
        .await;
    assert_eq!(
        all,
        "4 files:\n.hidden/secret.rs\nsrc/deep/mod.rs\nsrc/lib.rs\ntarget/out.rs\n"
    );
}

#[tokio::test]
async fn grep_looks_into_no_file_that_may_not_be_read_and_says_which_it_left_out() {
    let mut session = project();
    session.file(".env", "TOKEN=parse\n");
    session.limit_searches(|path| !path.ends_with(".env") && !path.ends_with("src/lib.rs"));
    for mode in ["content", "files", "count"] {
        let found = session
            .text(
                "grep",
                json!({"pattern": "parse", "hidden": true, "mode": mode}),
            )
            .await;
        assert!(!found.contains("TOKEN"), "{found}");
        assert!(found.contains("README.md"), "{found}");
        assert!(
            found.ends_with(
                "(2 files were not searched, as the session's permissions have it: .env, src/lib.rs. Name one in \
                 `path` to ask for it.)"
            ),
            "{found}"
        );
    }
    // Hidden files that are not searched anyway are no news; one that is named was judged when it was called.
    let usual = session
        .text("grep", json!({"pattern": "nowhere", "path": "src/deep"}))
        .await;
    assert_eq!(usual, "No matches.");
    let named = session
        .text("grep", json!({"pattern": "parse", "path": ".env"}))
        .await;
    assert!(named.contains("TOKEN=parse"), "{named}");
}

#[tokio::test]
async fn a_glob_is_judged_by_the_directory_that_its_pattern_leads_to() {
    let session = project();
    let directory = session.path("");
    let accesses = |pattern: &str| {
        let arguments = json!({ "pattern": pattern });
        session
            .tool("glob")
            .accesses(&arguments, &directory)
            .unwrap()
    };
    let read = |path: &std::path::Path| vec![Access::read(path)];
    assert_eq!(accesses("*.rs"), read(&session.path("")));
    assert_eq!(accesses("src/*.rs"), read(&session.path("src")));
    assert_eq!(accesses("/etc/*.conf"), read("/etc".as_ref()));
    assert_eq!(accesses("../*"), read(session.path("").parent().unwrap()));
}

#[tokio::test]
async fn grep_narrows_by_path_glob_and_type() {
    let session = project();
    let files = async |arguments| session.text("grep", arguments).await;
    assert_eq!(
        files(json!({"pattern": "parse", "mode": "files", "glob": "*.md"})).await,
        "1 file:\nREADME.md\n"
    );
    assert_eq!(
        files(json!({"pattern": "parse", "mode": "files", "glob": "!*.md", "path": "src/deep"}))
            .await,
        "1 file:\nsrc/deep/mod.rs\n"
    );
    assert_eq!(
        files(json!({"pattern": "parse", "mode": "count", "type": "rust"})).await,
        "3 matching lines in 2 files:\nsrc/deep/mod.rs: 2\nsrc/lib.rs: 1\n"
    );
    assert_eq!(
        files(json!({"pattern": "parse", "path": "debug.log"})).await,
        "1 matching line in 1 file:\n\ndebug.log\n1: parse\n"
    );
    assert_eq!(
        files(json!({"pattern": "parse", "path": "target", "mode": "files"})).await,
        "1 file:\ntarget/out.rs\n"
    );
    assert_eq!(files(json!({"pattern": "nowhere"})).await, "No matches.");
}

#[tokio::test]
async fn grep_shows_context_ignores_case_takes_text_literally_and_spans_lines() {
    let session = project();
    assert_eq!(
        session
            .text(
                "grep",
                json!({"pattern": "FMT|PRINT", "ignore_case": true, "context": 1, "glob": "lib.rs"})
            )
            .await,
        "2 matching lines in 1 file:\n\nsrc/lib.rs\n1: use std::fmt;\n2- \n3- fn parse() {}\n4: fn print() {}\n"
    );
    assert_eq!(
        session
            .text(
                "grep",
                json!({"pattern": "parse() {", "literal": true, "mode": "count"})
            )
            .await,
        "1 matching line in 1 file:\nsrc/lib.rs: 1\n"
    );
    let spanning = session
        .text(
            "grep",
            json!({"pattern": "fmt;.*fn parse", "multiline": true}),
        )
        .await;
    assert_eq!(
        spanning,
        "3 matching lines in 1 file:\n\nsrc/lib.rs\n1: use std::fmt;\n2: \n3: fn parse() {}\n"
    );
}

#[tokio::test]
async fn grep_says_when_it_leaves_something_out() {
    let session = Session::new();
    session.file("many.txt", "hit\n".repeat(300));
    let text = session
        .text("grep", json!({"pattern": "hit", "limit": 5}))
        .await;
    assert!(
        text.starts_with("300 matching lines in 1 file:\n\nmany.txt\n1: hit\n"),
        "{text}"
    );
    assert!(
        text.contains("5: hit\n\n(The rest is left out.") && !text.contains("6: hit"),
        "{text}"
    );
    let details = session
        .details("grep", json!({"pattern": "hit", "limit": 5}))
        .await;
    let ToolDetails::Grep(grep) = details else {
        panic!("{details:?}")
    };
    assert_eq!(
        (grep.mode, grep.matches, grep.files, grep.truncated),
        (GrepMode::Content, 300, 1, true)
    );
    session.file(
        "wide.txt",
        format!("{}needle{}\n", "a".repeat(5_000), "b".repeat(5_000)),
    );
    let text = session.text("grep", json!({"pattern": "needle"})).await;
    assert!(text.contains("needle") && text.len() < 700, "{text}");
    session.file("huge.txt", "hit\n".repeat(100_000));
    let text = session
        .text(
            "grep",
            json!({"pattern": "hit", "limit": 2_000, "path": "huge.txt"}),
        )
        .await;
    assert!(
        text.len() < 50 * 1024 && text.starts_with("At least 2,000 matching lines"),
        "{}",
        &text[..60]
    );
}

#[tokio::test]
async fn grep_explains_bad_patterns_types_globs_and_paths() {
    let session = project();
    for (arguments, reason) in [
        (
            json!({"pattern": "fn ("}),
            "set `literal` to search for the text as it is",
        ),
        (json!({"pattern": "a\\nb"}), "needs `multiline`"),
        (
            json!({"pattern": "a", "type": "rsut"}),
            "The file type \"rsut\" is unknown.",
        ),
        (json!({"pattern": "a", "glob": "*.{rs"}), "is not valid"),
        (json!({"pattern": "a", "path": "scr"}), "Did you mean src?"),
    ] {
        let error = session.error("grep", arguments).await;
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn grep_does_not_wait_for_a_pipe() {
    let session = project();
    let made = std::process::Command::new("mkfifo")
        .arg(session.path("src/pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let error = session
        .error("grep", json!({"pattern": "x", "path": "src/pipe"}))
        .await;
    assert!(error.contains("src/pipe is a named pipe"), "{error}");
    let text = session
        .text("grep", json!({"pattern": "fn parse", "mode": "files"}))
        .await;
    assert!(text.starts_with("2 files"), "{text}");
}

#[tokio::test]
async fn glob_lists_the_most_recently_changed_first() {
    let session = project();
    let touch = |name: &str, seconds: u64| {
        let file = std::fs::File::options()
            .append(true)
            .open(session.path(name))
            .unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    };
    touch("src/lib.rs", 2_000);
    touch("src/deep/mod.rs", 3_000);
    touch("README.md", 1_000);
    assert_eq!(
        session.text("glob", json!({"pattern": "*.rs"})).await,
        "2 files:\nsrc/deep/mod.rs\nsrc/lib.rs\n"
    );
    assert_eq!(
        session.text("glob", json!({"pattern": "src/*.rs"})).await,
        "1 file:\nsrc/lib.rs\n"
    );
    assert_eq!(
        session
            .text("glob", json!({"pattern": "**/*.{rs,md}", "limit": 1}))
            .await,
        "1 of 3 files, most recently changed first:\nsrc/deep/mod.rs\n\n(The rest is left out. Narrow the pattern.)"
    );
    assert_eq!(
        session
            .text("glob", json!({"pattern": "*.rs", "path": "src/deep"}))
            .await,
        "1 file:\nsrc/deep/mod.rs\n"
    );
    let absolute = session.path("src").join("**/mod.rs");
    assert_eq!(
        session.text("glob", json!({"pattern": absolute})).await,
        "1 file:\nsrc/deep/mod.rs\n"
    );
    assert_eq!(
        session
            .text("glob", json!({"pattern": "../project/src/l*"}))
            .await,
        "1 file:\nsrc/lib.rs\n"
    );
    assert_eq!(
        session
            .text(
                "glob",
                json!({"pattern": "*.rs", "hidden": true, "ignored": true})
            )
            .await
            .lines()
            .count(),
        5
    );
    assert_eq!(
        session.text("glob", json!({"pattern": "*.log"})).await,
        "No files found."
    );
    assert_eq!(
        session.text("glob", json!({"pattern": "README.md"})).await,
        "1 file:\nREADME.md\n"
    );
}

#[tokio::test]
async fn glob_explains_bad_globs_and_paths() {
    let session = project();
    let error = session.error("glob", json!({"pattern": "*.{rs"})).await;
    assert!(error.contains("is not valid"), "{error}");
    let error = session
        .error("glob", json!({"pattern": "*", "path": "README.md"}))
        .await;
    assert!(error.contains("README.md is a file"), "{error}");
}

#[tokio::test]
async fn ls_shows_a_tree_down_to_its_depth() {
    let session = project();
    let root = session.root().display().to_string();
    std::os::unix::fs::symlink("README.md", session.path("link")).unwrap();
    assert_eq!(
        session.text("ls", json!({})).await,
        format!(
            "{root}/\n  src/\n    deep/ (1 entry)\n    lib.rs\n  README.md\n  data.bin\n  link -> README.md\n\n2 directories, 4 files"
        )
    );
    assert_eq!(
        session.text("ls", json!({"path": "src", "depth": 3})).await,
        format!("{root}/src/\n  deep/\n    mod.rs\n  lib.rs\n\n1 directory, 2 files")
    );
    let hidden = session
        .text("ls", json!({"depth": 1, "hidden": true, "ignored": true}))
        .await;
    assert!(
        hidden.contains("  .hidden/ (1 entry)\n")
            && hidden.contains("  target/ (1 entry)\n")
            && hidden.contains("  .gitignore\n"),
        "{hidden}"
    );
    std::fs::create_dir(session.path("empty")).unwrap();
    let empty = session.text("ls", json!({"path": "empty"})).await;
    assert_eq!(
        empty,
        format!("{root}/empty/\n(empty)\n\n0 directories, 0 files")
    );
}

#[tokio::test]
async fn ls_keeps_the_upper_levels_when_it_must_leave_something_out() {
    let session = Session::new();
    for directory in 0..10 {
        for file in 0..20 {
            session.file(&format!("d{directory}/f{file:02}"), "");
        }
    }
    let text = session.text("ls", json!({"limit": 15})).await;
    for directory in 0..10 {
        assert!(text.contains(&format!("  d{directory}/")), "{text}");
    }
    assert!(
        text.contains("    f04\n    … and 15 entries more\n  d1/ (20 entries)\n"),
        "{text}"
    );
    assert!(text.ends_with("10 directories, 200 files. Not everything is shown: list a subdirectory, or find files with glob."), "{text}");
    let details = session.details("ls", json!({"limit": 15})).await;
    let ToolDetails::Ls(ls) = details else {
        panic!("{details:?}")
    };
    assert_eq!((ls.directories, ls.files, ls.truncated), (10, 200, true));
}

#[tokio::test]
async fn ls_explains_what_is_no_directory() {
    let session = project();
    let error = session.error("ls", json!({"path": "README.md"})).await;
    assert_eq!(error, "README.md is a file. Look at it with read.");
    let error = session.error("ls", json!({"path": "sr"})).await;
    assert!(error.contains("it does not exist"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_walk_stops() {
    let session = Session::new();
    // The root directory has more files than a test could walk.
    for (tool, arguments) in [
        (
            "grep",
            json!({"pattern": "a text that is nowhere 8d1f", "path": "/", "hidden": true, "ignored": true}),
        ),
        (
            "glob",
            json!({"pattern": "/**/no-such-file-8d1f", "hidden": true, "ignored": true}),
        ),
        (
            "ls",
            json!({"path": "/", "depth": 20, "hidden": true, "ignored": true}),
        ),
    ] {
        let (cx, cancel) = Context::background().with_cancel();
        let call = session.call_in(cx, tool, arguments);
        tokio::pin!(call);
        let early = tokio::time::timeout(Duration::from_millis(30), &mut call).await;
        cancel.cancel();
        if early.is_err() {
            let ended = tokio::time::timeout(Duration::from_secs(5), call)
                .await
                .expect("it stops soon");
            assert_eq!(ended, Err(ToolError::Interrupted), "{tool}");
        }
    }
}
