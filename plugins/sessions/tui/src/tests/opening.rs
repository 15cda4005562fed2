//! What is open at the start, and what is left at the end.

use std::sync::Arc;

use bezel_api_tui::LaunchSession;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_plugin::ManifestEntry;
use bezel_presentation::clock::Clock;
use bezel_rpc::{CallError, ErrorCode, RpcError};
use bezel_session_types::{Message, UserMessage};
use bezel_sessions_contract::{PermissionMode, SessionError};
use serde_json::json;

use super::support::{NOW, Stage, sessions, still};
use crate::desk::OpenError;
use crate::facet_at;

#[tokio::test]
async fn at_the_start_there_is_a_new_session_as_configured() {
    let config =
        json!({"model": {"provider": "acme", "model_id": "swift"}, "permission_mode": "plan"});
    let stage = Stage::launched(LaunchSession::New, Vec::new(), config).await;
    assert_eq!(
        stage.called(|calls| calls.len() == 2).await,
        ["create", "attach fresh with 2"]
    );
    let created = stage.played.created.borrow()[0].clone();
    assert_eq!(
        (created.directory.as_str(), created.permission_mode),
        ("/code/parser", PermissionMode::Plan)
    );
    assert_eq!(
        created.model.map(|model| model.to_string()).as_deref(),
        Some("acme::swift")
    );
    assert_eq!(
        created.environment.map(|environment| environment.0.len()),
        Some(2)
    );
    let screen = stage.tui.wait_for_text("●").await;
    assert!(
        screen.row(0).contains("new session") && screen.row(0).ends_with("parser"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn the_last_session_of_the_directory_is_continued() {
    let stage = Stage::launched(LaunchSession::Last, sessions(), json!(null)).await;
    stage
        .called(|calls| {
            calls.starts_with(&["newest in /code/parser".into(), "attach a1 with 2".into()])
        })
        .await;
    let screen = stage.tui.wait_for_text("Fix the parser").await;
    assert!(
        screen.row(0).starts_with("  Fix the parser") && screen.row(0).ends_with("parser"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn without_an_earlier_session_continuing_begins_one() {
    let stage = Stage::launched(LaunchSession::Last, Vec::new(), json!(null)).await;
    stage
        .called(|calls| {
            calls
                .last()
                .is_some_and(|call| call == "attach fresh with 2")
        })
        .await;
    stage
        .tui
        .wait_for_text("there is no earlier session here")
        .await;
}

#[tokio::test]
async fn a_session_is_opened_by_the_beginning_of_its_id() {
    let stage = Stage::launched(LaunchSession::Id("b".into()), sessions(), json!(null)).await;
    stage
        .called(|calls| calls.starts_with(&["attach b1 with 2".into()]))
        .await;
    for (prefix, note) in [
        ("zz", "there is no session zz"),
        ("a", "several sessions begin with a"),
    ] {
        let stage =
            Stage::launched(LaunchSession::Id(prefix.into()), sessions(), json!(null)).await;
        stage.tui.wait_for_text(note).await;
        // The list helps on.
        stage.tui.wait_for_text("Try a new lexer").await;
    }
}

#[tokio::test]
async fn who_picks_at_the_start_and_picks_nothing_gets_a_new_session() {
    let stage = Stage::launched(LaunchSession::Pick, sessions(), json!(null)).await;
    let screen = stage.tui.wait_for_text("Try a new lexer").await;
    insta::assert_snapshot!(still(&screen));
    stage.tui.press("esc").await;
    stage
        .called(|calls| calls == ["create", "attach fresh with 2"])
        .await;
}

#[tokio::test]
async fn who_named_no_place_on_another_machine_is_asked_for_one() {
    let pick = LaunchSession::Pick;
    let stage = Stage::launched_in("", pick, sessions(), json!(null)).await;
    stage.tui.wait_for_text("Try a new lexer").await;
    stage.tui.press("esc").await;
    let asked = "Where does the new session work?";
    stage.tui.wait_for_text(asked).await;
    // Who names none has no session, and begins one later.
    stage.tui.press("esc").await;
    stage.tui.wait_for_text("no session").await;
    stage.tui.press("f3").await;
    stage.tui.wait_for_text(asked).await;
    stage.tui.type_text("project").await;
    stage.tui.press("enter").await;
    let refused = "cannot work in project: it is not";
    stage.tui.wait_for(|screen| screen.contains(refused)).await;
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("/srv/project").await;
    stage.tui.press("enter").await;
    stage
        .called(|calls| calls == ["create", "attach fresh with 2"])
        .await;
    let created = stage.played.created.borrow()[0].clone();
    assert_eq!(created.directory, "/srv/project");
}

#[test]
fn who_may_only_look_is_told_so_and_what_to_do() {
    let refused = RpcError::new(ErrorCode::NotAuthorized, "scope");
    let told = OpenError::from(CallError::<SessionError>::Rpc(refused)).to_string();
    assert!(told.contains("`bezel access pair`"), "{told}");
}

#[tokio::test]
async fn an_empty_session_is_deleted_on_leaving_and_one_with_messages_stays() {
    for (messages, kept) in [
        (Vec::new(), false),
        (vec![Message::User(UserMessage::text("hello"))], true),
    ] {
        let stage = Stage::launched(LaunchSession::New, sessions(), json!(null)).await;
        stage.tui.wait_for_text("●").await;
        *stage.played.messages.lock().unwrap() = messages;
        let played = Arc::clone(&stage.played);
        let exit = stage.tui.stop().await;
        assert!(exit.failures.is_empty());
        let left = played
            .state
            .get()
            .sessions
            .iter()
            .any(|known| known.session_id.as_str() == "fresh");
        assert_eq!(left, kept);
    }
}

#[tokio::test]
async fn a_wrong_configuration_is_refused() {
    let mut entry = ManifestEntry::required("sessions", "0.0.0");
    entry.config = json!({"permission_mode": "root"});
    let now = NOW.parse().unwrap();
    let options = HarnessOptions {
        facets: vec![facet_at(Clock::new(move || now))],
        entries: vec![entry],
        ..HarnessOptions::default()
    };
    let error = TuiHarness::start(options)
        .await
        .err()
        .expect("an error")
        .to_string();
    assert!(
        error.contains("sessions") && error.contains("root"),
        "{error}"
    );
}
