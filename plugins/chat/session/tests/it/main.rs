//! Chat as a presentation uses it: over a connection.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use bezel_api_session::{EventBody, Outcome, PromptError};
use bezel_chat_contract::{
    Activity, ChatClient, Delivery, FailureKind, OutcomeStatus, Phase, PromptRequest,
};
use bezel_rpc::Context;
use bezel_session_types::{
    CommandId, EntryId, OperationId, QueuedMessage, RunOutcome, RunPhase, RunState, UserContent,
    UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};

async fn chat() -> (FakeSession, ChatClient, Context) {
    let directory = tempfile::tempdir().unwrap();
    let facets = vec![bezel_chat_session::facet()];
    let session = FakeSession::start(facets, directory.path(), FakeSessionOptions::default())
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
        content: vec![UserContent::Text { text: text.into() }],
        delivery: Delivery::Queue,
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
