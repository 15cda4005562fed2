//! Messages that wait: when they enter, in what order, and what starts them.

use std::sync::Arc;

use bezel_harness::{EventKind, PromptRequest, Resumed};
use bezel_session_types::{RunOutcome, RunState};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{
    Act, Model, Place, TestTool, call, calls, end, prompt_request, registration, says, text,
};

#[tokio::test(start_paused = true)]
async fn a_steering_message_enters_at_the_next_step_boundary() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "wait", json!({}))]), says("Done.")]);
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let wait = TestTool::new(move |_, _| {
        let held = Arc::clone(&held);
        async move {
            held.notified().await;
            Ok(Default::default())
        }
    });
    let mut session = place.open(&model, vec![registration("wait", wait)]);
    let first = session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
    let second = session.prompt("two").await;
    let third = session.prompt("three").await;
    assert_eq!(second.operation_id, first.operation_id);
    assert_eq!(session.lane.queued().len(), 2);
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: a",
            "result of a: ",
            "user: two",
            "user: three",
            "answer: Done."
        ]
    );
    assert!(session.lane.queued().is_empty());
    assert_eq!(third.operation_id, first.operation_id);
}

#[tokio::test(start_paused = true)]
async fn a_steering_message_after_the_last_answer_goes_on_with_the_same_run() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([
        vec![
            text("First."),
            Act::Gate(Arc::clone(&gate)),
            end(bezel_session_types::StopReason::Stop),
        ],
        says("Second."),
    ]);
    let mut session = place.open(&model, vec![]);
    session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    session.prompt("two").await;
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: First.",
            "user: two",
            "answer: Second."
        ]
    );
    let ended = |event: &EventKind| matches!(event, EventKind::RunEnd { .. });
    assert_eq!(
        session
            .happened()
            .iter()
            .filter(|event| ended(event))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn queued_messages_run_one_at_a_time_each_as_its_own_operation() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([
        vec![
            text("First."),
            Act::Gate(Arc::clone(&gate)),
            end(bezel_session_types::StopReason::Stop),
        ],
        says("Second."),
        says("Third."),
    ]);
    let mut session = place.open(&model, vec![]);
    let first = session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    let second = session.queue("two").await;
    let third = session.queue("three").await;
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: First.",
            "user: two",
            "answer: Second.",
            "user: three",
            "answer: Third."
        ]
    );
    let started: Vec<_> = session
        .happened()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::RunStart { operation_id } => Some(operation_id),
            _ => None,
        })
        .collect();
    assert_eq!(started, [second.operation_id, third.operation_id]);
    assert!(!started.contains(&first.operation_id));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_to_run_waits_until_somebody_resumes() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let session = place.open(&model, vec![]);
    let request = PromptRequest {
        resume: false,
        ..prompt_request("c1", "later")
    };
    let admission = session.lane.prompt(&session.cx, request).await.unwrap();
    assert_eq!(session.lane.state(), RunState::Idle);
    session.idle().await;
    assert_eq!(model.asked(), 0, "waiting for idle starts nothing");
    assert_eq!(session.lane.queued()[0].id, admission.message_id);
    let resumed = session.lane.resume(&session.cx).await.unwrap();
    assert_eq!(resumed, Resumed::Started(admission.operation_id));
    session.idle().await;
    assert_eq!(session.outline(), ["user: later", "answer: Done."]);
    assert_eq!(
        session.lane.resume(&session.cx).await.unwrap(),
        Resumed::Nothing
    );
}

#[tokio::test(start_paused = true)]
async fn many_wakes_during_a_run_cause_one_more_pass() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    // The answer fails, so that only a wake brings what waits to run.
    let broken = crate::support::provider_error(
        bezel_session_types::ProviderErrorKind::InvalidRequest,
        "the provider said no",
    );
    let model = Model::scripted([
        vec![
            text("First."),
            Act::Gate(Arc::clone(&gate)),
            Act::Fail(broken),
        ],
        says("Second."),
    ]);
    let mut session = place.open(&model, vec![]);
    session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    for words in ["two", "three"] {
        let request = PromptRequest {
            resume: false,
            ..prompt_request(words, words)
        };
        session.lane.prompt(&session.cx, request).await.unwrap();
    }
    for _ in 0..10 {
        let resumed = session.lane.resume(&session.cx).await.unwrap();
        assert!(matches!(resumed, Resumed::Joined(_)), "{resumed:?}");
    }
    gate.notify_one();
    session.idle().await;
    assert_eq!(model.asked(), 2);
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer (error): First.",
            "user: two",
            "user: three",
            "answer: Second."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_waits_after_a_run_that_failed() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let broken = crate::support::provider_error(
        bezel_session_types::ProviderErrorKind::Authentication,
        "wrong key",
    );
    let model = Model::scripted([
        vec![
            text("First."),
            Act::Gate(Arc::clone(&gate)),
            Act::Fail(broken),
        ],
        says("Second."),
        says("Third."),
    ]);
    let mut session = place.open(&model, vec![]);
    session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    session.queue("two").await;
    gate.notify_one();
    session.idle().await;
    assert_eq!(model.asked(), 1);
    assert_eq!(session.lane.queued().len(), 1);
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    let RunOutcome::Failed { code, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("model.authentication", "wrong key")
    );
    session.turn("three").await;
    let outline = session.outline();
    assert_eq!(
        outline[2..],
        [
            "user: three",
            "answer: Second.",
            "user: two",
            "answer: Third."
        ]
    );
}
