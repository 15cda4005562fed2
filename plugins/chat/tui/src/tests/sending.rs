//! Sending, refusals and reconnects.

use bezel_api_tui::Launch;
use bezel_chat_contract::Delivery;
use tokio::sync::Semaphore;

use super::support::{SESSION, Stage, text, waited};

#[tokio::test]
async fn what_is_written_is_sent_once() {
    let stage = Stage::attached().await;
    stage.tui.type_text("fix the parser\n").await;
    let prompts = stage.played.prompted(1).await;
    assert_eq!(
        (text(&prompts[0]).as_str(), prompts[0].delivery),
        ("fix the parser", Delivery::Steer)
    );
    stage.tui.type_text("and the lexer\n").await;
    let prompts = stage.played.prompted(2).await;
    assert_ne!(prompts[0].command_id, prompts[1].command_id);
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("sending"))
        .await;
    assert!(screen.contains("Ask for a change"), "{}", screen.text());
    assert_eq!(stage.played.prompts.borrow().len(), 2);
}

#[tokio::test]
async fn nothing_blank_is_sent() {
    let stage = Stage::attached().await;
    stage.tui.type_text("   \n").await;
    stage.tui.press("ctrl+u").await;
    stage.tui.type_text("hello\n").await;
    assert_eq!(text(&stage.played.prompted(1).await[0]), "hello");
}

#[tokio::test]
async fn a_refused_message_comes_back_with_the_reason() {
    let stage = Stage::attached().await;
    stage
        .played
        .refuse("no model is configured; choose one with /model");
    stage.tui.type_text("do it\n").await;
    let screen = stage
        .tui
        .wait_for_text("no model is configured; choose one with /model")
        .await;
    assert_eq!(Stage::written(&screen), "do it");
}

#[tokio::test]
async fn a_refused_message_comes_before_what_was_written_since() {
    let stage = Stage::attached().await;
    stage.played.gate.forget_permits(Semaphore::MAX_PERMITS);
    stage.played.refuse("no");
    stage.tui.type_text("first\n").await;
    stage.played.prompted(1).await;
    let screen = stage.tui.type_text("second").await;
    assert!(screen.contains("sending first"), "{}", screen.text());
    stage.played.gate.add_permits(1);
    let screen = stage
        .tui
        .wait_for(|screen| Stage::written(screen).contains("first"))
        .await;
    assert_eq!(Stage::written(&screen), "first\n\nsecond");
}

#[tokio::test]
async fn writing_ahead_is_sent_when_the_session_is_there() {
    let mut stage = Stage::detached(Launch::default()).await;
    let screen = stage.tui.type_text("early\n").await;
    assert!(screen.contains("↳ waiting early"), "{}", screen.text());
    stage.tui.type_text("bird\n").await;
    stage.attach(SESSION).await;
    let prompts = stage.played.prompted(2).await;
    assert_eq!(
        prompts.iter().map(text).collect::<Vec<_>>(),
        ["early", "bird"]
    );
}

#[tokio::test]
async fn the_prompt_of_the_command_line_is_sent_first() {
    let launch = Launch {
        prompt: "from the shell".into(),
        ..Launch::default()
    };
    let mut stage = Stage::detached(launch).await;
    stage.attach(SESSION).await;
    assert_eq!(text(&stage.played.prompted(1).await[0]), "from the shell");
}

#[tokio::test]
async fn after_a_lost_connection_the_same_command_is_sent_again() {
    let stage = Stage::attached().await;
    stage.played.gate.forget_permits(Semaphore::MAX_PERMITS);
    stage.tui.type_text("once only\n").await;
    stage.played.prompted(1).await;
    assert!(stage.server.cut().await);
    stage.tui.wait_for_text("waiting once only").await;
    stage.played.gate.add_permits(8);
    stage.server.restore();
    stage.bind(SESSION).await;
    let prompts = stage.played.prompted(2).await;
    assert_eq!(
        prompts[0], prompts[1],
        "the command id and the content are the same"
    );
    stage
        .tui
        .wait_for(|screen| !screen.contains("once only"))
        .await;
}

#[tokio::test]
async fn a_session_whose_worker_died_is_started_again_for_a_message() {
    let mut stage = Stage::attached().await;
    stage.stop_worker().await;
    stage.tui.type_text("wake up\n").await;
    let attached = waited(&stage.played.attached, |attached| !attached.is_empty()).await;
    assert_eq!(attached[0].as_str(), SESSION);
    stage.attach(SESSION).await;
    assert_eq!(text(&stage.played.prompted(1).await[0]), "wake up");
}

#[tokio::test]
async fn a_message_for_another_session_is_not_sent_to_this_one() {
    let mut stage = Stage::attached().await;
    stage.stop_worker().await;
    stage.tui.type_text("for one\n").await;
    stage.tui.wait_for_text("waiting for one").await;
    stage.attach("two").await;
    let screen = stage.tui.wait_for_text("the message was not sent").await;
    assert_eq!(Stage::written(&screen), "for one");
    assert!(stage.played.prompts.borrow().is_empty());
}

#[tokio::test]
async fn esc_takes_back_what_was_not_sent_yet() {
    let stage = Stage::detached(Launch::default()).await;
    stage.tui.type_text("too early\n").await;
    stage.tui.press("esc").await;
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("waiting"))
        .await;
    assert_eq!(Stage::written(&screen), "too early");
}

#[tokio::test]
async fn what_nobody_will_ever_take_comes_back() {
    let stage = Stage::attached().await;
    stage.played.gate.forget_permits(Semaphore::MAX_PERMITS);
    stage.tui.type_text("offered\n").await;
    stage.played.prompted(1).await;
    stage.tui.type_text("waiting\n").await;
    assert!(stage.server.revoke().await);
    let screen = stage
        .tui
        .wait_for(|screen| Stage::written(screen).contains("waiting"))
        .await;
    assert_eq!(Stage::written(&screen), "offered\n\nwaiting");
    stage
        .tui
        .wait_for_text("it is not known whether the session has the message")
        .await;
}
