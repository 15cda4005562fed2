//! `bash` and its background commands.

use bezel_presentation::StyledLine;
use bezel_tools_contract::{BackgroundDetails, CommandStatus, ToolDetails};
use serde_json::json;

use super::support::{Ended, bash, paths, running};
use crate::bash::{BackgroundRenderer, BashRenderer};
use crate::changes::ChangesRenderer;

#[test]
fn bash_shows_the_end_of_its_output_and_how_it_ended() {
    let output = "   Compiling a\n   Compiling b\nrunning 3 tests\ntest one ... ok\ntest two ... FAILED\ntest three ... ok\n\nfailures:\n    two\n";
    let failed = Ended {
        details: Some(bash("cargo test", CommandStatus::Exited { code: 101 })),
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
