//! Taking messages in.

use std::sync::Arc;

use bezel_harness::{EditError, EventKind, PromptError, PromptRequest};
use bezel_session_types::{Delivery, ImageContent, StopReason, UserContent, UserMessage};
use tokio::sync::Notify;

use crate::support::{Act, Model, Place, end, prompt_request, says, text};

fn later(command: &str, words: &str) -> PromptRequest {
    PromptRequest {
        resume: false,
        ..prompt_request(command, words)
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_command_again_returns_its_receipt_and_adds_nothing() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let session = place.open(&model, vec![]);
    let first = session.prompt("hello").await;
    let again = session.prompt("hello").await;
    assert_eq!(again, first);
    session.idle().await;
    let after = session.prompt("hello").await;
    assert_eq!(after, first);
    session.idle().await;
    assert_eq!(session.outline(), ["user: hello", "answer: Done."]);
    session.kill().await;
    let session = place.open(&model, vec![]);
    assert_eq!(
        session.prompt("hello").await,
        first,
        "the receipt survives the process"
    );
    assert!(session.lane.queued().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_command_id_with_other_input_is_a_conflict() {
    let place = Place::new();
    let model = Model::scripted([]);
    let session = place.open(&model, vec![]);
    session
        .lane
        .prompt(&session.cx, later("c1", "hello"))
        .await
        .unwrap();
    let others = [
        later("c1", "something else"),
        PromptRequest {
            delivery: Delivery::Queue,
            ..later("c1", "hello")
        },
    ];
    for other in others {
        let error = session.lane.prompt(&session.cx, other).await.unwrap_err();
        assert!(matches!(error, PromptError::Conflict { .. }), "{error}");
    }
    let side = session
        .harness
        .lane(&bezel_session_types::LaneName::new("side"));
    let error = side
        .prompt(&session.cx, later("c1", "hello"))
        .await
        .unwrap_err();
    assert!(matches!(error, PromptError::Conflict { .. }), "{error}");
    assert_eq!(session.lane.queued().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_says_nothing_is_refused() {
    let place = Place::new();
    let session = place.open(&Model::scripted([]), vec![]);
    for message in [
        UserMessage::text(" \n"),
        UserMessage {
            content: vec![],
            synthetic: false,
        },
    ] {
        let request = PromptRequest {
            message,
            ..prompt_request("c1", "")
        };
        let error = session.lane.prompt(&session.cx, request).await.unwrap_err();
        assert!(matches!(error, PromptError::Empty), "{error}");
    }
    let picture = ImageContent {
        media_type: "image/png".into(),
        data: "A".repeat(8 << 20),
    };
    let message = UserMessage {
        content: vec![UserContent::Image(picture)],
        synthetic: false,
    };
    let request = PromptRequest {
        message,
        ..prompt_request("c1", "")
    };
    let error = session.lane.prompt(&session.cx, request).await.unwrap_err();
    assert!(error.to_string().contains("5 MiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_admitted_message_is_on_the_disk_before_anybody_is_told() {
    let place = Place::new();
    let mut session = place.open(&Model::scripted([]), vec![]);
    session
        .lane
        .prompt(&session.cx, later("c1", "hello"))
        .await
        .unwrap();
    assert_eq!(session.store.syncs(), 1);
    assert!(matches!(
        session.happened()[..],
        [EventKind::QueueUpdate { .. }]
    ));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_message_can_be_edited_and_withdrawn_until_it_is_delivered() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([
        vec![
            text("First."),
            Act::Gate(Arc::clone(&gate)),
            end(StopReason::Stop),
        ],
        says("Second."),
    ]);
    let mut session = place.open(&model, vec![]);
    let first = session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    let second = session.queue("two").await;
    let third = session.queue("three").await;
    let changed = session
        .lane
        .edit(&session.cx, &second.message_id, UserMessage::text("2"))
        .await;
    assert_eq!(changed.unwrap().message.to_text(), "2");
    let taken = session
        .lane
        .withdraw(&session.cx, &third.message_id)
        .await
        .unwrap();
    assert_eq!(taken.message.to_text(), "three");
    let again = session
        .lane
        .withdraw(&session.cx, &third.message_id)
        .await
        .unwrap_err();
    assert!(matches!(again, EditError::Unknown { .. }), "{again}");
    let late = session
        .lane
        .withdraw(&session.cx, &first.message_id)
        .await
        .unwrap_err();
    assert!(matches!(late, EditError::Delivered { .. }), "{late}");
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline(),
        ["user: one", "answer: First.", "user: 2", "answer: Second."]
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_survive_the_process_and_are_reported_when_it_opens() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let session = place.open(&model, vec![]);
    let admission = session
        .lane
        .prompt(&session.cx, later("c1", "hello"))
        .await
        .unwrap();
    let edited = session
        .lane
        .edit(&session.cx, &admission.message_id, UserMessage::text("hi"))
        .await;
    edited.unwrap();
    session.kill().await;
    let session = place.open(&model, vec![]);
    assert_eq!(
        (
            session.harness.opened()[0].queued,
            session.harness.opened()[0].resume
        ),
        (1, false)
    );
    assert_eq!(session.lane.queued()[0].message.to_text(), "hi");
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(session.outline(), ["user: hi", "answer: Done."]);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_the_prompt_and_the_next_one_works() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let session = place.open(&model, vec![]);
    session.store.limit_growth(0).unwrap();
    let large = "x".repeat(1 << 20);
    let error = session
        .lane
        .prompt(&session.cx, prompt_request("c1", &large))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("disk is full"), "{error}");
    assert!(session.lane.queued().is_empty());
    session.store.limit_growth(1 << 20).unwrap();
    session
        .lane
        .prompt(&session.cx, prompt_request("c1", "hello"))
        .await
        .unwrap();
    session.idle().await;
    assert_eq!(session.outline(), ["user: hello", "answer: Done."]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_leaves_a_whole_admission_behind() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let mut session = place.open(&model, vec![]);
    let mut prompt = Box::pin(
        session
            .lane
            .prompt(&session.cx, prompt_request("c1", "hello")),
    );
    let first = futures::future::poll_immediate(&mut prompt).await;
    assert!(first.is_none(), "the disk takes time");
    drop(prompt);
    session
        .event(|event| matches!(event, EventKind::RunEnd { .. }).then_some(()))
        .await;
    assert_eq!(session.outline(), ["user: hello", "answer: Done."]);
}
