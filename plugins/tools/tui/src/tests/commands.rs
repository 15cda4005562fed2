//! `bash` and its background commands.

use std::time::Duration;

use bezel_api_tui::{ToolCard, ToolOutcome, ToolRenderer, ToolStatus};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_tools_contract::{BackgroundDetails, CommandStatus, ToolDetails};
use serde_json::json;

use super::support::{Ended, bash, paths, running};
use crate::bash::{BackgroundRenderer, BashRenderer};
use crate::changes::ChangesRenderer;

#[test]
fn bash_shows_the_end_of_its_output_and_how_it_ended() {
    let output = "   Compiling a\n   Compiling b\nrunning 3 tests\ntest one ... ok\ntest two ... FAILED\ntest three ... ok\n\nfailures:\n    two\n";
    let ToolDetails::Bash(mut details) = bash("cargo test", CommandStatus::Exited { code: 101 })
    else {
        panic!("bash")
    };
    details.output_bytes = output.len() as u64;
    let failed = Ended {
        details: Some(ToolDetails::Bash(details)),
        ..Ended::badly(json!({"command": "cargo test"}), output)
    };
    insta::assert_snapshot!(failed.shown(&BashRenderer::default()));
}

#[test]
fn a_script_is_told_by_its_description_until_it_is_opened() {
    let command = "set -e\nfor f in *.rs; do\n  rustfmt \"$f\"\ndone";
    let arguments = json!({"command": command, "description": "Format all sources"});
    let call = Ended::well(
        arguments,
        bash(command, CommandStatus::Exited { code: 0 }),
        "",
    );
    insta::assert_snapshot!(call.shown(&BashRenderer::default()));
}

#[test]
fn every_way_to_end_has_a_word() {
    let last = |status| {
        let call = Ended::well(json!({}), bash("x", status), "");
        call.lines(&BashRenderer::default(), false)
            .last()
            .map(StyledLine::to_text)
            .unwrap_or_default()
    };
    assert_eq!(last(CommandStatus::Exited { code: 0 }), "$ x");
    assert_eq!(last(CommandStatus::Exited { code: 2 }), "exit 2");
    assert_eq!(
        last(CommandStatus::Signalled { signal: 9 }),
        "ended by signal 9"
    );
    assert_eq!(
        last(CommandStatus::TimedOut { after_ms: 120_000 }),
        "stopped after 2m 00s"
    );
    assert_eq!(last(CommandStatus::Killed), "ended");
    assert_eq!(
        last(CommandStatus::OutputLimit {
            limit_bytes: 1 << 30
        }),
        "stopped after 1.0 GiB of output"
    );
    let ToolDetails::Bash(mut details) = bash("npm start", CommandStatus::Running) else {
        panic!("bash")
    };
    details.background_id = Some("bg-1".into());
    let call = Ended::well(json!({}), ToolDetails::Bash(details.clone()), "");
    assert_eq!(
        call.lines(&BashRenderer::default(), false)[1].to_text(),
        "runs in the background as bg-1"
    );
    let looked = ToolDetails::Background(BackgroundDetails {
        id: "bg-1".into(),
        command: details,
        new_bytes: 9,
    });
    let call = Ended::well(json!({"id": "bg-1"}), looked, "listening\n");
    insta::assert_snapshot!(call.shown(&BackgroundRenderer::new("Output of")));
}

#[test]
fn what_the_model_is_told_of_the_end_is_not_shown_twice() {
    let shown = |status, text| {
        let call = Ended::well(json!({}), bash("x", status), text);
        let lines = call.lines(&BashRenderer::default(), false);
        lines[1..]
            .iter()
            .map(StyledLine::to_text)
            .collect::<Vec<_>>()
    };
    let code = |code| CommandStatus::Exited { code };
    assert_eq!(shown(code(3), "oops\n\n[exit code 3]"), ["oops", "exit 3"]);
    assert_eq!(
        shown(
            code(127),
            "sh: x\n\n[exit code 127: command not found, or it could not be run]"
        ),
        ["sh: x", "exit 127"]
    );
    // Another code, and a line of the output's own.
    assert_eq!(
        shown(code(3), "[exit code 3]\nthen\n\n[exit code 31]"),
        ["[exit code 3]", "then", "", "[exit code 31]", "exit 3"]
    );
    assert_eq!(
        shown(
            code(2),
            "a\n\n[exit code 2]\n[working directory is now /tmp]"
        ),
        ["a", "", "[working directory is now /tmp]", "exit 2"]
    );
}

/// What `ask` says of a command that ended so.
fn of_ended<T>(status: CommandStatus, ask: impl FnOnce(&ToolCard<'_>) -> T) -> T {
    let details = bash("x", status).to_value();
    ask(&ToolCard {
        name: "bash",
        arguments: &serde_json::Value::Null,
        status: ToolStatus::Succeeded,
        output: "",
        progress: &serde_json::Value::Null,
        outcome: Some(ToolOutcome {
            text: "",
            details: &details,
            is_error: false,
        }),
        elapsed: None,
    })
}

#[test]
fn a_command_took_the_time_that_was_measured() {
    let took = |status| of_ended(status, |card| BashRenderer::default().took(card));
    assert_eq!(
        took(CommandStatus::Exited { code: 0 }),
        Some(Duration::from_millis(1200))
    );
    // It goes on in the background.
    assert_eq!(took(CommandStatus::Running), None);
}

#[test]
fn a_command_that_failed_is_marked_as_failed() {
    let failed = |status| of_ended(status, |card| BashRenderer::default().came_to_failure(card));
    assert!(failed(CommandStatus::Exited { code: 1 }));
    assert!(failed(CommandStatus::TimedOut { after_ms: 1 }));
    assert!(!failed(CommandStatus::Exited { code: 0 }));
    assert!(!failed(CommandStatus::Killed));
    assert!(!failed(CommandStatus::Running));
}

#[test]
fn of_an_output_that_is_not_here_as_a_whole_no_lines_are_counted() {
    let details = bash("seq 1 9000", CommandStatus::Exited { code: 0 });
    let call = Ended::well(json!({}), details, "1\n2\n…\n8997\n8998\n8999\n9000");
    let lines = call.lines(&BashRenderer::default(), false);
    let lines: Vec<String> = lines.iter().map(StyledLine::to_text).collect();
    assert_eq!(
        lines,
        [
            "$ x",
            "… the end of 68 KiB",
            "…",
            "8997",
            "8998",
            "8999",
            "9000"
        ]
        .map(|line| line.replace("$ x", "$ seq 1 9000"))
    );
}

#[test]
fn an_error_is_told_in_whole_sentences() {
    let text = "Interrupted while it ran: it may have had part of its effect. Look before you run it again.";
    let call = Ended::badly(json!({"command": "make"}), text);
    let lines = call.lines(&BashRenderer::default(), false);
    let rows: Vec<String> = lines[1..].iter().map(StyledLine::to_text).collect();
    assert_eq!(
        rows,
        [
            "Interrupted while it ran: it may have had part of its effect.",
            "Look before you run it again."
        ]
    );
    assert_eq!(lines[1].spans[0].style.role, Role::Error);
}

#[test]
fn long_output_says_where_the_whole_is() {
    let ToolDetails::Bash(mut details) = bash("make", CommandStatus::Exited { code: 1 }) else {
        panic!("bash")
    };
    details.saved_file = Some("/project/.out/1.txt".into());
    let call = Ended::well(json!({}), ToolDetails::Bash(details), "x");
    assert_eq!(
        call.lines(&BashRenderer::default(), false)[2].to_text(),
        "exit 1 · 68 KiB in /project/.out/1.txt"
    );
}

#[test]
fn what_runs_shows_what_is_known_of_it() {
    let unfinished = json!("{\"path\":\"src/new.rs\",\"content\":\"fn ma");
    assert_eq!(
        running(
            "write",
            &unfinished,
            "",
            &ChangesRenderer::new("Write", paths())
        ),
        "Write src/new.rs"
    );
    let arguments = json!({"command": "make all"});
    let output = "1\n2\n3\n4\n5\n6\n7";
    assert_eq!(
        running("bash", &arguments, output, &BashRenderer::default()),
        "$ make all\n… 2 more lines\n3\n4\n5\n6\n7"
    );
}
