//! The built `xtask` as others call it: its usage errors, and the process that measures.

use std::path::Path;
use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .output()
        .expect("xtask starts")
}

#[test]
fn help_names_every_command() {
    let output = xtask(&["help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    for command in ["run", "test", "tidy", "edges", "bench"] {
        assert!(
            text.contains(&format!("\n  {command} ")),
            "{command} is not in: {text}"
        );
    }
}

#[test]
fn bad_usage_exits_with_2_and_says_what_is_wrong() {
    for (arguments, expected) in [
        (&["frobnicate"][..], "`frobnicate`"),
        (&["test", "--group", "nothing"], "`nothing`"),
        (&["tidy", "--fix"], "`--fix`"),
        (&["edges", "--force"], "`--bless`"),
        (&["bench", "--only", "nothing"], "`nothing`"),
        (&["run", "prompt"], "after `--`"),
    ] {
        let output = xtask(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

/// Measures a shell script; its status, the result and what it printed.
fn measure(script: &str) -> (Option<i32>, serde_json::Value, String) {
    let folder = tempfile::tempdir().expect("a directory");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (result, printed) = (file("result"), file("output"));
    let output = xtask(&["measure", &result, &printed, "sh", "-c", script]);
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    let cost = serde_json::from_str(&read(&result)).expect("JSON");
    (output.status.code(), cost, read(&printed))
}

#[test]
fn the_processor_time_of_children_counts_and_so_does_a_failure() {
    // A loop that a child of the shell runs, without waiting for anything.
    let busy = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 3";
    let (status, cost, _) = measure(busy);
    assert_eq!(status, Some(1));
    let processor = cost["processor"].as_f64().expect("a number");
    let wall = cost["wall"].as_f64().expect("a number");
    assert!(processor > 0.02 && processor < wall * 1.5, "{cost}");
    assert!(cost["peak"].as_i64().expect("a number") > 0);
    assert_eq!(cost["left"], 0);
}

#[test]
fn what_a_program_leaves_running_is_counted_and_ended() {
    // A process that its starter abandons, as a server is.
    let (status, cost, printed) = measure("(sleep 1000 >/dev/null 2>&1 & echo $!)");
    assert_eq!(status, Some(0));
    assert_eq!(cost["left"], 1, "{cost}");
    assert!(cost["wall"].as_f64().expect("a number") < 5.0);
    let pid: u32 = printed.trim().parse().expect("an id");
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "{pid} still runs"
    );
}
