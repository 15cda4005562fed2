//! Background commands, `bash_output` and `bash_kill`.

use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::ToolError;
use bezel_tools_contract::{CommandStatus, ToolDetails};
use serde_json::json;

use crate::fixture::{Session, details, text};

async fn start(session: &Session, command: &str) -> String {
    session
        .text("bash", json!({"command": command, "background": true}))
        .await
}

#[tokio::test]
async fn a_background_command_returns_at_once_and_its_output_comes_later() {
    let session = Session::new();
    let gate = session.path("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let started = start(&session, &format!("echo up; {wait}; echo down; exit 5")).await;
    assert_eq!(
        started,
        "Started in the background as bash_1. Read its output with bash_output, end it with bash_kill."
    );
    let mut seen = String::new();
    while seen.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let output = session
            .call("bash_output", json!({"id": "bash_1"}))
            .await
            .unwrap();
        let ToolDetails::Background(details) = details(&output) else {
            panic!("no background")
        };
        assert_eq!(details.command.status, CommandStatus::Running);
        if details.new_bytes > 0 {
            seen = text(&output);
        }
    }
    assert!(
        seen.starts_with("up\n\n[bash_1: still running after "),
        "{seen}"
    );
    std::fs::write(gate, "").unwrap();
    let rest = session
        .text("bash_output", json!({"id": "bash_1", "wait": 60}))
        .await;
    assert_eq!(rest, "down\n\n[bash_1: exit code 5]");
    assert_eq!(
        session.text("bash_output", json!({"id": "bash_1"})).await,
        "(no new output)\n\n[bash_1: exit code 5]"
    );
}

#[tokio::test]
async fn waiting_ends_with_the_time_or_the_call() {
    let session = Session::new();
    start(&session, "sleep 300").await;
    let waited = session
        .text("bash_output", json!({"id": "bash_1", "wait": 1}))
        .await;
    assert!(
        waited.starts_with("(no new output)\n\n[bash_1: still running"),
        "{waited}"
    );
    let (cx, cancel) = Context::background().with_cancel();
    let call = session.call_in(cx, "bash_output", json!({"id": "bash_1", "wait": 600}));
    let (result, ()) = tokio::join!(call, async { cancel.cancel() });
    assert_eq!(result, Err(ToolError::Interrupted));
}

#[tokio::test]
async fn killing_returns_the_last_output_and_is_no_error_twice() {
    let session = Session::new();
    start(
        &session,
        "trap 'echo bye; exit' TERM; echo up; while true; do sleep 0.05; done",
    )
    .await;
    let mut shown = String::new();
    while !shown.contains("up") {
        tokio::time::sleep(Duration::from_millis(5)).await;
        shown += &session.text("bash_output", json!({"id": "bash_1"})).await;
    }
    let ended = session.text("bash_kill", json!({"id": "bash_1"})).await;
    assert!(
        ended.contains("bye\n\n[bash_1: ended on request after "),
        "{ended}"
    );
    let again = session.text("bash_kill", json!({"id": "bash_1"})).await;
    assert!(again.starts_with("(no new output)"), "{again}");
}

#[tokio::test]
async fn an_unknown_id_names_the_known_ones() {
    let session = Session::new();
    let error = session.error("bash_output", json!({"id": "bash_7"})).await;
    assert!(error.contains("There is none in this session"), "{error}");
    start(&session, "true").await;
    let error = session.error("bash_kill", json!({"id": "bash_7"})).await;
    assert_eq!(
        error,
        "There is no background command \"bash_7\". There are bash_1."
    );
}

#[tokio::test]
async fn a_background_command_can_have_a_time_limit() {
    let session = Session::new();
    session
        .text(
            "bash",
            json!({"command": "sleep 300", "background": true, "timeout": 1}),
        )
        .await;
    let ended = session
        .text("bash_output", json!({"id": "bash_1", "wait": 60}))
        .await;
    assert!(ended.contains("[bash_1: timed out"), "{ended}");
}

#[tokio::test]
async fn processes_left_by_a_foreground_command_can_be_read_and_ended() {
    let session = Session::new();
    let gate = session.path("gate");
    let server = format!(
        "(until [ -e {} ]; do sleep 0.02; done; echo late) & echo early",
        gate.display()
    );
    let text = session.text("bash", json!({"command": server})).await;
    assert!(
        text.starts_with("early\n") && text.contains("in the background as bash_1"),
        "{text}"
    );
    std::fs::write(gate, "").unwrap();
    let rest = session
        .text("bash_output", json!({"id": "bash_1", "wait": 60}))
        .await;
    assert_eq!(rest, "late\n\n[bash_1: exit code 0]");
}

#[tokio::test]
async fn long_background_output_is_bounded_and_saved() {
    let session = Session::new();
    start(&session, "seq 1 100000").await;
    let output = session
        .call("bash_output", json!({"id": "bash_1", "wait": 60}))
        .await
        .unwrap();
    let shown = text(&output);
    assert!(
        shown.len() < 50 * 1024 && shown.contains("The whole is in"),
        "{}",
        shown.len()
    );
    let ToolDetails::Background(details) = details(&output) else {
        panic!("no background")
    };
    let saved = std::fs::read_to_string(details.command.saved_file.expect("saved")).unwrap();
    assert_eq!(saved.lines().count(), 100_000);
}

#[tokio::test]
async fn the_session_can_follow_its_background_commands() {
    let session = Session::new();
    let mut changes = session.shared.commands.changes();
    start(&session, "sleep 300").await;
    changes.changed().await.unwrap();
    let [command] = session
        .shared
        .commands
        .background()
        .try_into()
        .expect("one");
    assert_eq!(
        (command.id.as_str(), command.command.status),
        ("bash_1", CommandStatus::Running)
    );
    session
        .call("bash_kill", json!({"id": "bash_1"}))
        .await
        .unwrap();
    changes.changed().await.unwrap();
    assert_eq!(
        session.shared.commands.background()[0].command.status,
        CommandStatus::Killed
    );
}

#[tokio::test]
async fn background_commands_are_bounded_in_number() {
    let session = Session::new();
    for _ in 0..40 {
        start(&session, "true").await;
    }
    session
        .text("bash_output", json!({"id": "bash_40", "wait": 60}))
        .await;
    start(&session, "true").await;
    let kept = session.shared.commands.background();
    assert!(kept.len() < 40, "{} ended commands are kept", kept.len());
    assert_eq!(
        kept.last().map(|command| command.id.as_str()),
        Some("bash_41")
    );
    session
        .text("bash_output", json!({"id": "bash_41", "wait": 60}))
        .await;
    for _ in 0..50 {
        start(&session, "sleep 300").await;
    }
    let error = session
        .error("bash", json!({"command": "sleep 300", "background": true}))
        .await;
    assert!(
        error.contains("50 commands run in the background already. End some with bash_kill"),
        "{error}"
    );
}
