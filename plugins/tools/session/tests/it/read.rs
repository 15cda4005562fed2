//! `read`.

use bezel_context::Context;
use bezel_session_types::{ResultContent, ToolError};
use bezel_tools_contract::{ReadContent, ToolDetails};
use serde_json::json;

use crate::fixture::{Session, details};

fn numbered(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

#[tokio::test]
async fn lines_are_numbered_and_ranges_say_what_is_left() {
    let session = Session::new();
    session.file("a.txt", "one\n\tzwei\nthree");
    assert_eq!(
        session.text("read", json!({"path": "a.txt"})).await,
        "     1\tone\n     2\t\tzwei\n     3\tthree\n"
    );
    session.file("long.txt", numbered(10));
    assert_eq!(
        session
            .text("read", json!({"path": "long.txt", "offset": 4, "limit": 2}))
            .await,
        "     4\tline 4\n     5\tline 5\n\n(Lines 4–5 of 10. Go on with offset 6.)\n"
    );
    assert_eq!(
        session
            .text("read", json!({"path": "long.txt", "offset": 9}))
            .await,
        "     9\tline 9\n    10\tline 10\n\n(Lines 9–10, up to the end.)\n"
    );
}

#[tokio::test]
async fn details_hold_path_range_and_size() {
    let session = Session::new();
    let path = session.file("long.txt", numbered(10));
    let details = session
        .details("read", json!({"path": "long.txt", "offset": 4, "limit": 2}))
        .await;
    let ToolDetails::Read(read) = details else {
        panic!("{details:?}")
    };
    assert_eq!(
        (read.path.as_str(), read.bytes),
        (path.to_str().unwrap(), 71)
    );
    assert_eq!(
        read.content,
        ReadContent::Text {
            first_line: 4,
            last_line: 5,
            total_lines: Some(10),
            cut_lines: 0,
            encoding: "utf-8".into()
        }
    );
}

#[tokio::test]
async fn long_files_and_long_lines_stay_within_the_bounds_of_a_result() {
    let session = Session::new();
    session.file("many.txt", numbered(5_000));
    let text = session.text("read", json!({"path": "many.txt"})).await;
    assert!(
        text.ends_with("(Lines 1–1,990 of 5,000. Go on with offset 1991.)\n"),
        "{}",
        &text[text.len() - 80..]
    );
    session.file("wide.txt", format!("{}\n", "x".repeat(100)).repeat(1_500));
    let text = session.text("read", json!({"path": "wide.txt"})).await;
    assert!(text.len() < 50 * 1024, "{}", text.len());
    let next: u64 = text
        .rsplit_once("offset ")
        .unwrap()
        .1
        .trim_end_matches(".)\n")
        .parse()
        .unwrap();
    let rest = session
        .text("read", json!({"path": "wide.txt", "offset": next}))
        .await;
    assert!(
        rest.starts_with(&format!("{next:>6}\tx")),
        "no line is lost in between"
    );
    session.file("one.txt", "é".repeat(30_000));
    let text = session.text("read", json!({"path": "one.txt"})).await;
    assert!(
        text.len() < 10_000 && text.contains("… [line of 60,000 bytes, cut here]"),
        "{}",
        text.len()
    );
}

#[tokio::test]
async fn a_file_too_large_for_memory_is_read_by_range() {
    let session = Session::new();
    let line = format!("{}\n", "y".repeat(99));
    session.file("large.log", line.repeat(200_000));
    let text = session
        .text(
            "read",
            json!({"path": "large.log", "offset": 150_000, "limit": 1}),
        )
        .await;
    assert_eq!(
        text,
        format!("150000\t{line}\n(Lines 150,000–150,000 of 200,000. Go on with offset 150001.)\n")
    );
}

#[tokio::test]
async fn line_endings_and_encodings_are_understood() {
    let session = Session::new();
    session.file("dos.txt", "a\r\nb\r\n");
    assert_eq!(
        session.text("read", json!({"path": "dos.txt"})).await,
        "     1\ta\n     2\tb\n"
    );
    session.file("bom.txt", "\u{feff}a\n");
    assert_eq!(
        session.text("read", json!({"path": "bom.txt"})).await,
        "     1\ta\n"
    );
    let utf16: Vec<u8> = "\u{feff}grüße\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    session.file("utf16.txt", utf16);
    let text = session.text("read", json!({"path": "utf16.txt"})).await;
    assert!(
        text.starts_with("     1\tgrüße\n") && text.contains("UTF-16"),
        "{text}"
    );
    session.file("latin1.txt", b"caf\xe9\n");
    let text = session.text("read", json!({"path": "latin1.txt"})).await;
    assert!(
        text.starts_with("     1\tcaf\u{fffd}\n") && text.contains("not valid UTF-8"),
        "{text}"
    );
}

#[tokio::test]
async fn an_empty_file_and_a_range_beyond_the_end_are_said() {
    let session = Session::new();
    session.file("empty", "");
    assert_eq!(
        session.text("read", json!({"path": "empty"})).await,
        "(The file is empty.)"
    );
    session.file("short", "a\nb\n");
    let error = session
        .error("read", json!({"path": "short", "offset": 7}))
        .await;
    assert_eq!(
        error,
        "short has only 2 lines, so there is nothing at line 7. Use a smaller offset."
    );
}

#[tokio::test]
async fn what_is_no_text_is_refused_with_what_it_is() {
    let session = Session::new();
    session.file("data.bin", b"\0\x01\x02");
    let error = session.error("read", json!({"path": "data.bin"})).await;
    assert!(
        error.starts_with("data.bin is binary data (3 bytes) and cannot be shown as text"),
        "{error}"
    );
    let error = session.error("read", json!({"path": "."})).await;
    assert!(error.contains("is a directory. List it with ls"), "{error}");
    let fifo = session.path("pipe");
    rustix_fifo(&fifo);
    let error = session.error("read", json!({"path": "pipe"})).await;
    assert!(
        error.starts_with("pipe is a named pipe and no regular file"),
        "{error}"
    );
}

fn rustix_fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo")
        .arg(path)
        .status()
        .expect("mkfifo");
    assert!(made.success());
}

#[tokio::test]
async fn missing_files_suggest_near_ones_and_dangling_links_name_their_target() {
    let session = Session::new();
    session.file("src/parser.rs", "x\n");
    let error = session.error("read", json!({"path": "src/parsr.rs"})).await;
    assert!(
        error.ends_with("it does not exist. Did you mean src/parser.rs?"),
        "{error}"
    );
    std::os::unix::fs::symlink("gone", session.path("link")).unwrap();
    let error = session.error("read", json!({"path": "link"})).await;
    assert!(
        error.contains("symbolic link to gone, which does not exist"),
        "{error}"
    );
    let error = session
        .error("read", json!({"path": "src/parser.rs/x"}))
        .await;
    assert!(error.contains("a part of the path is a file"), "{error}");
    std::os::unix::fs::symlink("loop", session.path("loop")).unwrap();
    let error = session.error("read", json!({"path": "loop"})).await;
    assert!(error.contains("lead in a circle"), "{error}");
}

#[tokio::test]
async fn home_and_absolute_paths_work() {
    let session = Session::new();
    std::fs::write(session.above().join("home/notes"), "n\n").unwrap();
    assert_eq!(
        session.text("read", json!({"path": "~/notes"})).await,
        "     1\tn\n"
    );
    let absolute = session.above().join("home/notes");
    assert_eq!(
        session.text("read", json!({"path": absolute})).await,
        "     1\tn\n"
    );
}

#[tokio::test]
async fn a_picture_comes_as_a_picture_whatever_its_name() {
    let session = Session::new();
    let png = include_bytes!("pixel.png");
    session.file("shot.txt", png);
    let output = session
        .call("read", json!({"path": "shot.txt"}))
        .await
        .unwrap();
    let [ResultContent::Text { text }, ResultContent::Image(image)] = output.content.as_slice()
    else {
        panic!("{:?}", output.content)
    };
    assert_eq!(text, "shot.txt (image/png, 2×1 pixels)");
    assert_eq!(image.media_type, "image/png");
    let ToolDetails::Read(read) = details(&output) else {
        panic!("no read")
    };
    let expected = ReadContent::Image {
        media_type: "image/png".into(),
        width: 2,
        height: 1,
        sent: None,
    };
    assert_eq!(read.content, expected);
}

#[tokio::test]
async fn a_cancelled_read_is_interrupted() {
    let session = Session::new();
    session.file("a", "a\n");
    let (cx, cancel) = Context::background().with_cancel();
    cancel.cancel();
    assert_eq!(
        session.call_in(cx, "read", json!({"path": "a"})).await,
        Err(ToolError::Interrupted)
    );
}
