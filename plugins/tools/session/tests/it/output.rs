//! Long output of commands: bounded for the model, whole in a file, constant in memory.

use std::io::Read;
use std::time::{Duration, Instant};

use bezel_tools_contract::ToolDetails;
use serde_json::json;

use crate::fixture::{Session, details, text};

#[tokio::test]
async fn long_output_shows_head_and_tail_and_is_saved_whole() {
    let session = Session::new();
    let output = session
        .call("bash", json!({"command": "seq 1 100000"}))
        .await
        .unwrap();
    let shown = text(&output);
    assert!(
        shown.len() < 50 * 1024 && shown.lines().count() < 2_000,
        "{} bytes",
        shown.len()
    );
    assert!(
        shown.starts_with("1\n2\n3\n") && shown.trim_end().ends_with("\n99999\n100000"),
        "{shown}"
    );
    assert!(
        shown.contains("the middle is left out here. The whole is in "),
        "{shown}"
    );
    let ToolDetails::Bash(bash) = details(&output) else {
        panic!("no bash")
    };
    let saved = std::fs::read_to_string(bash.saved_file.expect("saved")).unwrap();
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(saved, whole);
    assert_eq!(bash.output_bytes, whole.len() as u64);
}

#[tokio::test]
async fn many_short_lines_are_bounded_too() {
    let session = Session::new();
    let output = session
        .call("bash", json!({"command": "yes | head -n 5000"}))
        .await
        .unwrap();
    assert!(
        text(&output).lines().count() <= 2_000,
        "{}",
        text(&output).lines().count()
    );
    let ToolDetails::Bash(bash) = details(&output) else {
        panic!("no bash")
    };
    assert_eq!(
        std::fs::read_to_string(bash.saved_file.expect("saved")).unwrap(),
        "y\n".repeat(5_000)
    );
}

#[tokio::test]
async fn one_endless_line_of_odd_bytes_is_cut_between_characters() {
    let session = Session::new();
    let output = session
        .call(
            "bash",
            json!({"command": "for i in {1..20000}; do printf '漢字\\377'; done"}),
        )
        .await
        .unwrap();
    let shown = text(&output);
    assert!(
        shown.len() < 50 * 1024 && shown.starts_with("漢字\u{fffd}漢"),
        "{}",
        shown.len()
    );
}

#[tokio::test]
async fn short_output_makes_no_file() {
    let session = Session::new();
    session.text("bash", json!({"command": "seq 1 1500"})).await;
    assert!(!session.above().join("output").exists());
}

#[tokio::test]
async fn a_fast_writer_is_shown_in_bounded_bundles() {
    let session = Session::new();
    session
        .text("bash", json!({"command": "seq 1 3000000; sleep 0.2"}))
        .await;
    let progress = session.host.progress.lock().unwrap();
    let sizes: Vec<usize> = progress
        .iter()
        .map(|progress| match progress {
            bezel_session_types::Progress::Append(text) => text.len(),
            bezel_session_types::Progress::Details(_) => 0,
        })
        .collect();
    drop(progress);
    assert!(sizes.iter().all(|size| *size < 9 * 1024), "{sizes:?}");
    assert!(session.host.appended().contains("bytes skipped"));
    assert!(session.host.appended().ends_with("3000000\n"));
}

#[tokio::test]
async fn output_that_cannot_be_saved_is_said_and_the_command_goes_on() {
    let session = Session::new();
    // A file stands where the directory of saved outputs would be made.
    std::fs::write(session.above().join("output"), "").unwrap();
    let output = session
        .call("bash", json!({"command": "seq 1 100000; echo done"}))
        .await
        .unwrap();
    let shown = text(&output);
    assert!(
        shown.starts_with("1\n2\n") && shown.trim_end().ends_with("100000\ndone"),
        "{shown}"
    );
    assert!(
        shown.contains("the middle is lost, because it could not be saved"),
        "{shown}"
    );
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_gigabyte_costs_no_memory() {
    let session = Session::new();
    session
        .text(
            "bash",
            json!({"command": "head -c 1000000 /dev/zero | tr '\\0' x"}),
        )
        .await;
    let before = resident();
    let output = session
        .call(
            "bash",
            json!({"command": "head -c 1073741824 /dev/zero", "timeout": 300}),
        )
        .await
        .unwrap();
    let grown = resident() - before;
    let ToolDetails::Bash(bash) = details(&output) else {
        panic!("no bash")
    };
    assert_eq!(bash.output_bytes, 1 << 30);
    let saved = bash.saved_file.expect("saved");
    assert_eq!(std::fs::metadata(&saved).unwrap().len(), 1 << 30);
    // Where tests share a process, others may have grown it meanwhile.
    let alone = std::env::var_os("NEXTEST").is_some();
    assert!(
        grown < if alone { 8 * 1024 } else { 256 * 1024 },
        "grew by {grown} KiB"
    );
}

/// A bare pipe into a file: the same writer, one reader that copies.
fn bare_pipe(path: &std::path::Path) -> Duration {
    let begun = Instant::now();
    let mut child = std::process::Command::new("head")
        .args(["-c", "67108864", "/dev/zero"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut file = std::fs::File::create(path).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match pipe.read(&mut buffer).unwrap() {
            0 => break,
            length => std::io::Write::write_all(&mut file, &buffer[..length]).unwrap(),
        }
    }
    child.wait().unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn long_output_is_saved_at_least_half_as_fast_as_by_a_bare_pipe() {
    let session = Session::new();
    let (mut bare, mut ours) = (Duration::MAX, Duration::MAX);
    // Other tests share the cores: the best of a few rounds counts.
    for round in 0..20 {
        bare = bare.min(bare_pipe(&session.above().join(format!("bare{round}"))));
        let begun = Instant::now();
        session
            .text("bash", json!({"command": "head -c 67108864 /dev/zero"}))
            .await;
        ours = ours.min(begun.elapsed());
        if round >= 2 && ours < 2 * bare {
            println!("bare {bare:?}, ours {ours:?}");
            return;
        }
    }
    panic!("bare {bare:?}, ours {ours:?}");
}

#[tokio::test]
async fn a_call_costs_little_more_than_a_bare_shell() {
    let session = Session::new();
    session.text("bash", json!({"command": "echo warm"})).await;
    let (mut bare, mut ours) = (Duration::MAX, Duration::MAX);
    for round in 0..20 {
        let begun = Instant::now();
        for _ in 0..20 {
            assert!(
                std::process::Command::new("sh")
                    .args(["-c", "true"])
                    .status()
                    .unwrap()
                    .success()
            );
        }
        bare = bare.min(begun.elapsed() / 20);
        let begun = Instant::now();
        for call in 0..20 {
            session
                .text("bash", json!({"command": format!("echo {call}")}))
                .await;
        }
        ours = ours.min(begun.elapsed() / 20);
        if round >= 4 && ours < 2 * bare {
            println!("bare {bare:?}, ours {ours:?}");
            return;
        }
    }
    panic!("bare {bare:?}, ours {ours:?}");
}
