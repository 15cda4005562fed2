//! Chat as a presentation uses it: over a connection.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bezel_api_session::{EventBody, Outcome, PromptError};
use bezel_blobs_contract::{BlobsClient, blob_id, upload};
use bezel_chat_contract::{
    Activity, ChatClient, Delivery, FailureKind, OutcomeStatus, Phase, PromptPart, PromptRequest,
};
use bezel_rpc::Context;
use bezel_session_types::{
    BlobId, CommandId, EntryId, ImageContent, OperationId, QueuedMessage, RunOutcome, RunPhase,
    RunState, UploadedImage, UserContent, UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};

async fn chat() -> (FakeSession, ChatClient, Context) {
    let directory = tempfile::tempdir().unwrap();
    chat_of(vec![bezel_chat_session::facet()], directory.path()).await
}

async fn chat_of(
    facets: Vec<bezel_api_session::SessionFacet>,
    directory: &std::path::Path,
) -> (FakeSession, ChatClient, Context) {
    let session = FakeSession::start(facets, directory, FakeSessionOptions::default())
        .await
        .unwrap();
    let chat: ChatClient = session.remote().use_service();
    let cx = Context::background();
    chat.state().ready(&cx).await.unwrap();
    (session, chat, cx)
}

fn request(text: &str) -> PromptRequest {
    PromptRequest {
        command_id: CommandId::new("c1"),
        content: vec![PromptPart::Text { text: text.into() }],
        delivery: Delivery::Queue,
        resume: true,
    }
}

fn running(phase: RunPhase) -> RunState {
    RunState::Running {
        operation_id: OperationId::new("run"),
        since: 0,
        phase,
        aborting: false,
    }
}

#[tokio::test]
async fn a_prompt_reaches_the_lane_with_its_command_id_and_names_its_operation() {
    let (session, chat, cx) = chat().await;
    let reply = chat.prompt(&cx, request("fix it")).await.unwrap();
    assert!(reply.accepted && reply.error.is_none());
    assert_eq!(reply.operation_id, Some(OperationId::new("operation-0")));
    let sent = session.agent.prompts().remove(0);
    assert_eq!(
        (sent.command_id, sent.delivery),
        (CommandId::new("c1"), Delivery::Queue)
    );
    assert_eq!(sent.message, UserMessage::text("fix it"));
}

#[tokio::test]
async fn a_blank_prompt_and_a_refused_one_say_what_to_do_and_admit_nothing() {
    let (session, chat, cx) = chat().await;
    let reply = chat.prompt(&cx, request(" \n\t")).await.unwrap();
    assert!(!reply.accepted && reply.error.unwrap().contains("write something"));
    let nameless = PromptRequest {
        command_id: CommandId::new(""),
        ..request("hello")
    };
    let reply = chat.prompt(&cx, nameless).await.unwrap();
    assert!(!reply.accepted && reply.error.unwrap().contains("command id is empty"));
    session.agent.refuse_prompts(PromptError::Storage(
        "the disk is full: free some space".into(),
    ));
    let reply = chat.prompt(&cx, request("hello")).await.unwrap();
    assert!(!reply.accepted && reply.operation_id.is_none());
    assert_eq!(
        reply.error.as_deref(),
        Some("the disk is full: free some space")
    );
    assert!(session.agent.prompts().is_empty());
}

#[tokio::test]
async fn the_state_follows_the_lane_and_tells_reasoning_from_answering() {
    let (session, chat, cx) = chat().await;
    let entry = EntryId::new("a");
    session.agent.set_activity(running(RunPhase::Streaming));
    session.agent.emit(EventBody::Thinking {
        entry: entry.clone(),
        text: "hm".into(),
    });
    let phase = |wanted: Phase| move |state: &bezel_chat_contract::ChatState| matches!(&state.activity, Activity::Running { phase, .. } if *phase == wanted);
    chat.state()
        .wait_for(&cx, phase(Phase::Thinking))
        .await
        .unwrap();
    session.agent.emit(EventBody::Text {
        entry,
        text: "so".into(),
    });
    chat.state()
        .wait_for(&cx, phase(Phase::Answering))
        .await
        .unwrap();
    let names = vec!["bash".to_owned()];
    session.agent.set_activity(running(RunPhase::Tools {
        names: names.clone(),
    }));
    chat.state()
        .wait_for(&cx, phase(Phase::Tools { names }))
        .await
        .unwrap();
    session.agent.set_activity(RunState::Idle);
    chat.state()
        .wait_for(&cx, |state| state.activity == Activity::Idle)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_abort_names_its_operation_and_another_operation_is_left_alone() {
    let (session, chat, cx) = chat().await;
    session.agent.set_activity(running(RunPhase::Preparing));
    assert!(
        !chat
            .request_abort(&cx, OperationId::new("another"))
            .await
            .unwrap()
    );
    assert!(
        chat.request_abort(&cx, OperationId::new("run"))
            .await
            .unwrap()
    );
    assert_eq!(session.agent.aborts(), [OperationId::new("run")]);
}

#[tokio::test]
async fn waiting_ends_with_the_outcome_and_a_failure_says_its_kind() {
    let (session, chat, cx) = chat().await;
    for (code, kind) in [
        ("model.authentication", FailureKind::Authentication),
        ("model.rate_limited", FailureKind::Provider),
        ("model.none", FailureKind::NoModel),
        ("model.unknown", FailureKind::NoModel),
        ("session.refused", FailureKind::Refused),
        ("storage", FailureKind::Internal),
    ] {
        let operation_id = OperationId::new(code);
        let outcome = RunOutcome::Failed {
            code: code.into(),
            message: "why".into(),
        };
        session.agent.emit(EventBody::RunEnded(Outcome {
            operation_id: operation_id.clone(),
            outcome,
        }));
        let outcome = chat.wait(&cx, operation_id.clone()).await.unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Failed);
        assert_eq!(outcome.error.unwrap().kind, kind, "{code}");
        let last = |state: &bezel_chat_contract::ChatState| {
            state
                .last
                .as_ref()
                .is_some_and(|last| last.operation_id == operation_id)
        };
        chat.state().wait_for(&cx, last).await.unwrap();
    }
}

#[tokio::test]
async fn a_waiting_message_is_listed_and_can_be_withdrawn_once() {
    let (session, chat, cx) = chat().await;
    session.agent.set_queue(vec![QueuedMessage {
        id: EntryId::new("q"),
        operation_id: OperationId::new("run"),
        delivery: Delivery::Steer,
        message: UserMessage::text("also this"),
        seq: 1,
    }]);
    let state = chat
        .state()
        .wait_for(&cx, |state| !state.queue.is_empty())
        .await
        .unwrap();
    assert_eq!(
        (state.queue[0].text.as_str(), state.queue[0].delivery),
        ("also this", Delivery::Steer)
    );
    assert!(chat.withdraw(&cx, EntryId::new("q")).await.unwrap());
    chat.state()
        .wait_for(&cx, |state| state.queue.is_empty())
        .await
        .unwrap();
    assert!(!chat.withdraw(&cx, EntryId::new("q")).await.unwrap());
}

fn with_pictures(blobs: Vec<BlobId>) -> PromptRequest {
    let picture = |blob| {
        PromptPart::UploadedImage(UploadedImage {
            media_type: "image/png".into(),
            blob,
        })
    };
    let mut request = request("look");
    request.content.extend(blobs.into_iter().map(picture));
    request
}

#[tokio::test]
async fn an_uploaded_picture_is_in_the_message_as_if_it_had_been_inline() {
    let directory = tempfile::tempdir().unwrap();
    let facets = vec![bezel_chat_session::facet(), bezel_blobs_session::facet()];
    let (session, chat, cx) = chat_of(facets, directory.path()).await;
    let blobs: BlobsClient = session.remote().use_service();
    let picture = vec![7; 200_000];
    let id = upload(&cx, &blobs, &picture, |_| ()).await.unwrap();
    for _ in 0..2 {
        let reply = chat
            .prompt(&cx, with_pictures(vec![id.clone()]))
            .await
            .unwrap();
        assert!(reply.accepted, "{reply:?}");
    }
    let sent = session.agent.prompts().remove(0);
    let image = ImageContent {
        media_type: "image/png".into(),
        data: BASE64_STANDARD.encode(&picture),
    };
    let text = "look".into();
    assert_eq!(
        sent.message.content,
        [UserContent::Text { text }, UserContent::Image(image)]
    );
}

#[tokio::test]
async fn a_picture_that_is_not_there_or_too_large_is_refused_and_admits_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let facets = vec![bezel_chat_session::facet(), bezel_blobs_session::facet()];
    let (session, chat, cx) = chat_of(facets, directory.path()).await;
    let blobs: BlobsClient = session.remote().use_service();
    let refusal = async |blobs: Vec<BlobId>| {
        let reply = chat.prompt(&cx, with_pictures(blobs)).await.unwrap();
        assert!(!reply.accepted && reply.operation_id.is_none());
        reply.error.unwrap()
    };
    let small = upload(&cx, &blobs, b"picture", |_| ()).await.unwrap();
    let unknown = blob_id(b"another");
    let error = refusal(vec![small, unknown.clone()]).await;
    assert!(
        error.contains("picture 2") && error.contains("upload it first"),
        "{error}"
    );
    assert!(error.contains(unknown.as_str()), "{error}");
    let large = vec![1; ImageContent::MAX_BYTES + 1];
    let large = upload(&cx, &blobs, &large, |_| ()).await.unwrap();
    let error = refusal(vec![large]).await;
    assert!(error.contains("5242880 are allowed"), "{error}");
    let fits = upload(&cx, &blobs, &vec![1; ImageContent::MAX_BYTES], |_| ()).await;
    let error = refusal(vec![fits.unwrap(); 13]).await;
    assert!(error.contains("64 MiB together"), "{error}");
    assert!(session.agent.prompts().is_empty());
}

#[tokio::test]
async fn without_the_plugin_of_blobs_a_picture_that_names_one_is_refused() {
    let (session, chat, cx) = chat().await;
    let request = with_pictures(vec![blob_id(b"picture")]);
    let error = chat.prompt(&cx, request).await.unwrap().error.unwrap();
    assert!(error.contains("`blobs` is not running"), "{error}");
    assert!(session.agent.prompts().is_empty());
}
