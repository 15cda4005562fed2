//! What is shown and can be done while a turn runs.

use bezel_chat_contract::{
    Activity, Delivery, Failure, FailureKind, Outcome, OutcomeStatus, Phase,
};
use bezel_context::Context;
use bezel_host_tui::Screen;
use bezel_session_types::OperationId;
use bezel_usage_contract::UsageState;

use super::support::{Stage, queued, text, waited};

/// The screen with the spinner standing still.
fn still(screen: &Screen) -> String {
    screen.still_text().trim_start().to_owned()
}

#[tokio::test]
async fn a_turn_shows_what_goes_on_and_for_how_long() {
    let stage = Stage::attached().await;
    let cases = [
        (Phase::Starting, "Preparing… · 12s · esc to interrupt"),
        (Phase::WaitingForModel, "Waiting for the model… · 12s"),
        (Phase::Thinking, "Thinking… · 12s"),
        (Phase::Answering, "Writing… · 12s"),
        (Phase::Compacting, "Summarising the conversation… · 12s"),
        (
            Phase::Tools {
                names: vec!["read".into(), "read".into(), "grep".into()],
            },
            "Running read ×2, grep · 12s",
        ),
    ];
    for (phase, shown) in cases {
        stage.played.run(phase);
        stage.tui.wait_for_text(shown).await;
    }
    let retrying = Phase::Retrying {
        attempt: 3,
        at: "2026-03-01T12:00:08.2Z".into(),
        reason: "429 too many requests".into(),
    };
    stage.played.run(retrying);
    let screen = stage
        .tui
        .wait_for_text("Trying again in 9s (try 3) · 429 too many requests")
        .await;
    insta::assert_snapshot!(still(&screen));
}

#[tokio::test]
async fn tokens_are_counted_from_the_beginning_of_the_turn() {
    let stage = Stage::attached().await;
    let usage = |output| UsageState {
        total: bezel_session_types::Usage {
            output,
            ..Default::default()
        },
        ..UsageState::default()
    };
    stage.played.usage.set(&Context::background(), usage(5_000));
    stage.played.run(Phase::Answering);
    stage.tui.wait_for_text("Writing…").await;
    stage.played.usage.set(&Context::background(), usage(6_200));
    stage.played.run(Phase::Thinking);
    stage.tui.wait_for_text("↓ 1.2k tokens").await;
}

#[tokio::test]
async fn esc_interrupts_durably() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.tui.wait_for_text("esc to interrupt").await;
    stage.tui.type_text("a draft").await;
    stage.tui.press("esc").await;
    let screen = stage.tui.wait_for_text("Interrupting…").await;
    assert_eq!(*stage.played.aborted.borrow(), [OperationId::new("op")]);
    assert_eq!(Stage::written(&screen), "a draft");
    assert!(!screen.contains("esc to interrupt"), "{}", screen.text());
}

#[tokio::test]
async fn while_it_works_enter_steers_and_tab_queues() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.tui.wait_for_text("Writing…").await;
    let screen = stage.tui.type_text("also the docs").await;
    assert!(
        screen.contains("enter steer · tab queue"),
        "{}",
        screen.text()
    );
    stage.tui.press("enter").await;
    stage.tui.type_text("then run the tests").await;
    stage.tui.press("tab").await;
    let prompts = stage.played.prompted(2).await;
    assert_eq!(
        prompts
            .iter()
            .map(|prompt| prompt.delivery)
            .collect::<Vec<_>>(),
        [Delivery::Steer, Delivery::Queue]
    );
    stage.played.set(|state| {
        state.queue = vec![
            queued("e1", "also the docs", Delivery::Steer),
            queued("e2", "then run the tests", Delivery::Queue),
        ];
    });
    let screen = stage.tui.wait_for_text("queued  then run the tests").await;
    insta::assert_snapshot!(still(&screen));
}

#[tokio::test]
async fn what_waits_is_edited_made_to_steer_and_taken_back_from_its_list() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.played.set(|state| {
        state.queue = vec![
            queued("e1", "first", Delivery::Queue),
            queued("e2", "second", Delivery::Queue),
            queued("e3", "third", Delivery::Queue),
        ];
    });
    stage.tui.wait_for_text("third").await;
    stage.tui.type_text("/queue").await;
    stage.tui.press("enter").await;
    let screen = stage.tui.wait_for_text("Waiting messages").await;
    for text in ["first", "second", "third", "after this turn"] {
        assert!(screen.contains(text), "{text}: {}", screen.text());
    }
    let queue = || -> Vec<(String, Delivery)> {
        let state = stage.played.chat.get();
        let waiting = state.queue.iter();
        waiting
            .map(|message| (message.text.clone(), message.delivery))
            .collect()
    };
    // Enter edits, and the list comes back.
    stage.tui.press("enter").await;
    stage.tui.wait_for_text("Edit the message").await;
    stage.tui.type_text(" of all").await;
    stage.tui.press("enter").await;
    stage.tui.wait_for_text("Waiting messages").await;
    assert_eq!(queue()[0].0, "first of all");
    stage.tui.press("down").await;
    stage.tui.press("ctrl+s").await;
    stage.tui.wait_for_text("steers").await;
    assert_eq!(queue()[1], ("second".to_owned(), Delivery::Steer));
    stage.tui.press("up").await;
    stage.tui.press("ctrl+d").await;
    let screen = stage
        .tui
        .wait_for(|screen| {
            !screen.contains("Waiting messages") && !screen.contains("Ask for a change")
        })
        .await;
    // What is taken back can be written again.
    assert_eq!(queue().len(), 2, "{}", screen.text());
    assert_eq!(stage.played.withdrawn.borrow().len(), 1);
    let written = Stage::written(&screen);
    assert!(
        ["first of all", "third"].contains(&written.as_str()),
        "{written}: {}",
        screen.text()
    );
}

#[tokio::test]
async fn the_last_pending_message_can_be_taken_back() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.played.set(|state| {
        state.queue = vec![
            queued("e1", "first", Delivery::Steer),
            queued("e2", "second", Delivery::Queue),
        ];
    });
    stage.tui.wait_for_text("second").await;
    stage.tui.press("alt+up").await;
    let screen = stage
        .tui
        .wait_for(|screen| !screen.contains("queued"))
        .await;
    assert_eq!(Stage::written(&screen), "second");
    let withdrawn = waited(&stage.played.withdrawn, |withdrawn| !withdrawn.is_empty()).await;
    assert_eq!(withdrawn[0].as_str(), "e2");
    assert!(screen.contains("steer   first"), "{}", screen.text());
}

#[tokio::test]
async fn many_pending_messages_are_counted() {
    let stage = Stage::attached().await;
    stage.played.set(|state| {
        state.queue = (1..=9)
            .map(|number| {
                queued(
                    &format!("e{number}"),
                    &format!("message {number}"),
                    Delivery::Queue,
                )
            })
            .collect();
    });
    let screen = stage.tui.wait_for_text("message 9").await;
    assert!(
        screen.contains("(+5) message 6") && !screen.contains("message 5"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn a_failed_turn_says_why_until_the_next_one() {
    let stage = Stage::attached().await;
    let failure = Failure {
        kind: FailureKind::Authentication,
        message: "the key of anthropic was refused (401); set ANTHROPIC_API_KEY and start again"
            .into(),
    };
    stage.played.set(|state| {
        let (operation_id, status) = (OperationId::new("op"), OutcomeStatus::Failed);
        state.last = Some(Outcome {
            operation_id,
            status,
            error: Some(failure),
        });
    });
    let screen = stage
        .tui
        .wait_for_text("✗ the key of anthropic was refused")
        .await;
    assert!(
        screen.contains("set ANTHROPIC_API_KEY"),
        "{}",
        screen.text()
    );
    stage.played.run(Phase::Starting);
    stage
        .tui
        .wait_for(|screen| !screen.contains("was refused"))
        .await;
}

#[tokio::test]
async fn what_the_conversation_tells_of_the_end_is_not_told_again() {
    let stage = Stage::attached().await;
    let end = |message: &str| Outcome {
        operation_id: OperationId::new("op"),
        status: OutcomeStatus::Failed,
        error: Some(Failure {
            kind: FailureKind::Provider,
            message: message.into(),
        }),
    };
    stage
        .played
        .set(|state| state.last = Some(end("the key was refused")));
    stage.tui.wait_for_text("✗ the key was refused").await;
    stage.played.fail_answer("the key was refused");
    stage
        .tui
        .wait_for(|screen| !screen.contains("was refused"))
        .await;
    // Another failure than the one that stands there is told.
    stage
        .played
        .set(|state| state.last = Some(end("the disk is full")));
    stage.tui.wait_for_text("✗ the disk is full").await;
}

#[tokio::test]
async fn an_interrupted_turn_says_so_until_the_next_one() {
    let stage = Stage::attached().await;
    stage.played.end(OutcomeStatus::Interrupted);
    stage
        .tui
        .wait_for_text("⊘ Interrupted · say what to do instead")
        .await;
    stage.played.run(Phase::Starting);
    stage
        .tui
        .wait_for(|screen| !screen.contains("⊘ Interrupted"))
        .await;
}

#[tokio::test]
async fn what_an_interrupted_turn_leaves_waiting_is_held_and_enter_sends_it() {
    let stage = Stage::attached().await;
    stage.played.set(|state| {
        state.queue = vec![
            queued("e1", "first", Delivery::Steer),
            queued("e2", "second", Delivery::Queue),
        ];
    });
    stage.played.end(OutcomeStatus::Interrupted);
    let screen = stage.tui.wait_for_text("held    first").await;
    assert!(
        screen.contains("held    second") && screen.contains("enter sends · alt+up takes back"),
        "{}",
        screen.text()
    );
    stage.tui.press("enter").await;
    assert_eq!(text(&stage.played.prompted(1).await[0]), "first");
    let withdrawn = waited(&stage.played.withdrawn, |withdrawn| !withdrawn.is_empty()).await;
    assert_eq!(withdrawn[0].as_str(), "e1");
}

#[tokio::test]
async fn a_long_reason_of_a_retry_leaves_room_for_how_to_stop_it() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Retrying {
        attempt: 2,
        at: "2026-03-01T12:00:03Z".into(),
        reason: "the provider limits the rate of requests (HTTP 429: too many of them)".into(),
    });
    let screen = stage.tui.wait_for_text("Trying again in 3s (try 2)").await;
    assert!(
        screen.contains("· the provider") && screen.contains("… · 12s · esc to interrupt"),
        "{}",
        screen.text()
    );
}

#[tokio::test]
async fn a_session_that_is_not_there_runs_nothing() {
    let mut stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.tui.wait_for_text("Writing…").await;
    stage.stop_worker().await;
    stage
        .tui
        .wait_for(|screen| !screen.contains("Writing…"))
        .await;
    let screen = stage.tui.press("esc").await;
    assert!(!screen.contains("Interrupting"), "{}", screen.text());
    assert!(stage.played.aborted.borrow().is_empty());
}

#[tokio::test]
async fn after_the_turn_a_message_starts_the_next() {
    let stage = Stage::attached().await;
    stage.played.run(Phase::Answering);
    stage.tui.wait_for_text("Writing…").await;
    stage.played.set(|state| state.activity = Activity::Idle);
    stage
        .tui
        .wait_for(|screen| !screen.contains("Writing…"))
        .await;
    stage.tui.type_text("next").await;
    // Tab queues nothing when nothing runs.
    let screen = stage.tui.press("tab").await;
    assert_eq!(Stage::written(&screen), "next");
    stage.tui.press("enter").await;
    assert_eq!(text(&stage.played.prompted(1).await[0]), "next");
}
