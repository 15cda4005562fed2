//! Turns from prompt to end, and what comes after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_harness::{EventKind, PromptRequest, Resumed};
use bezel_session_types::{LaneName, Message, RunOutcome, RunPhase, RunState};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{
    Act, Model, Place, TestTool, call, calls, end, prompt_request, registration, says, text,
};

#[tokio::test(start_paused = true)]
async fn a_turn_with_tools_reaches_the_tree_and_the_model_in_order() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            text("Looking."),
            call("a", "echo", json!({ "n": 1 })),
            call("b", "echo", json!({ "n": 2 })),
        ]),
        says("Done."),
    ]);
    let session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    let admission = session.turn("do it").await;
    assert_eq!(
        session.outline(),
        [
            "user: do it",
            "answer: Looking.a b",
            r#"result of a: {"n":1}"#,
            r#"result of b: {"n":2}"#,
            "answer: Done.",
        ]
    );
    assert_eq!(session.entries()[0].id, admission.message_id);
    let second = model.request(1);
    let seen: Vec<Message> = second
        .messages
        .iter()
        .map(|message| (**message).clone())
        .collect();
    assert_eq!(seen, session.messages()[..4]);
    assert_eq!(second.tools.len(), 1);
    let outcome = session.lane.last_outcome().unwrap().unwrap();
    assert_eq!(
        (outcome.operation_id, outcome.outcome),
        (admission.operation_id, RunOutcome::Completed)
    );
    let usage = session.harness.usage().unwrap();
    assert_eq!(
        (usage.requests, usage.usage.input, usage.usage.output),
        (2, 200, 20)
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_turn_goes_on_where_the_first_ended() {
    let place = Place::new();
    let model = Model::scripted([says("First."), says("Second.")]);
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: First.",
            "user: two",
            "answer: Second."
        ]
    );
    assert_eq!(model.request(1).messages.len(), 3);
    assert_eq!(
        model.open.load(Ordering::SeqCst),
        0,
        "a finished request is closed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_after_it_was_closed_and_opened() {
    let place = Place::new();
    let model = Model::scripted([says("First."), says("Second.")]);
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.harness.close().await;
    session.kill().await;
    let session = place.open(&model, vec![]);
    assert!(session.harness.opened().is_empty());
    session.turn("two").await;
    assert_eq!(session.outline().len(), 4);
    assert_eq!(model.request(1).messages.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn two_lanes_run_at_the_same_time_and_see_their_own_messages() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let model = Model::new(move |request, _| {
        let said = match request.messages.last().map(|last| &**last) {
            Some(Message::User(user)) => user.to_text(),
            _ => String::new(),
        };
        vec![
            text(&format!("To {said}.")),
            Act::Gate(Arc::clone(&held)),
            end(bezel_session_types::StopReason::Stop),
        ]
    });
    let session = place.open(&model, vec![]);
    let side = session.harness.lane(&LaneName::new("side"));
    session.prompt("one").await;
    side.prompt(&session.cx, prompt_request("side", "two"))
        .await
        .unwrap();
    for lane in [&session.lane, &side] {
        let streaming = |state: &RunState| {
            matches!(
                state,
                RunState::Running {
                    phase: RunPhase::Streaming,
                    ..
                }
            )
        };
        lane.states().wait_for(streaming).await.unwrap();
    }
    gate.notify_waiters();
    session.idle().await;
    side.wait_idle(&session.cx).await.unwrap();
    assert_eq!(session.outline(), ["user: one", "answer: To one."]);
    let other = session.harness.tree().recent(side.name(), 10).unwrap();
    assert_eq!(
        crate::support::outline(&other.entries),
        ["user: two", "answer: To two."]
    );
}

#[tokio::test(start_paused = true)]
async fn the_state_tells_what_goes_on() {
    let place = Place::new();
    let (gate, tool_gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let model = Model::scripted([
        vec![
            Act::Gate(Arc::clone(&gate)),
            text("Looking."),
            Act::Gate(Arc::clone(&gate)),
            call("a", "wait", json!({})),
            end(bezel_session_types::StopReason::ToolUse),
        ],
        says("Done."),
    ]);
    let held = Arc::clone(&tool_gate);
    let wait = TestTool::new(move |_, _| {
        let held = Arc::clone(&held);
        async move {
            held.notified().await;
            Ok(Default::default())
        }
    });
    let session = place.open(&model, vec![registration("wait", wait)]);
    let admission = session.prompt("do it").await;
    let mut states = session.lane.states();
    let expected = [
        (RunPhase::WaitingForModel, &gate),
        (RunPhase::Streaming, &gate),
        (
            RunPhase::Tools {
                names: vec!["wait".into()],
            },
            &tool_gate,
        ),
    ];
    for (expected, gate) in expected {
        let state = states.wait_for(
            |state| matches!(state, RunState::Running { phase, .. } if *phase == expected),
        );
        assert_eq!(
            state.await.unwrap().operation_id(),
            Some(&admission.operation_id)
        );
        gate.notify_one();
    }
    states.wait_for(RunState::is_idle).await.unwrap();
    assert_eq!(session.lane.active(), None);
}

#[tokio::test(start_paused = true)]
async fn without_a_model_the_run_fails_with_what_to_do() {
    let place = Place::new();
    let store = bezel_store::Store::open(place.database()).unwrap();
    let scope = bezel_context::TaskScope::new();
    let harness = bezel_harness::Harness::open(bezel_harness::HarnessOptions {
        store,
        session_id: bezel_session_types::SessionId::new("session"),
        directory: place.directory.path().to_owned(),
        output_directory: place.output(),
        spawner: scope.spawner(),
        config: Default::default(),
    })
    .unwrap();
    let cx = bezel_context::Context::background();
    let lane = harness.main();
    lane.prompt(&cx, prompt_request("c1", "hello"))
        .await
        .unwrap();
    lane.wait_idle(&cx).await.unwrap();
    let outcome = lane.last_outcome().unwrap().unwrap().outcome;
    let RunOutcome::Failed { code, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(code, "model.none");
    assert!(message.contains("choose one"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_system_prompt_is_asked_for_once_a_run_and_again_when_tools_change() {
    struct Counting(Arc<AtomicUsize>);
    impl bezel_harness::SystemPrompt for Counting {
        fn build(
            &self,
            _cx: &bezel_context::Context,
            subject: bezel_harness::SystemPromptSubject,
        ) -> futures::future::BoxFuture<'static, Result<Arc<str>, bezel_harness::SystemPromptError>>
        {
            let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            Box::pin(async move { Ok(format!("{count} for {}", subject.model).into()) })
        }
    }
    let place = Place::new();
    let model = Model::scripted([
        calls([call("a", "echo", json!({}))]),
        says("Done."),
        says("Again."),
    ]);
    let session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    let asked = Arc::new(AtomicUsize::new(0));
    session
        .harness
        .set_system_prompt(Arc::new(Counting(Arc::clone(&asked))));
    session.turn("one").await;
    assert_eq!(&*model.request(0).system, "1 for test::model");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    session.turn("two").await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_writes_nothing_and_a_closed_session_takes_nothing() {
    let place = Place::new();
    let model = Model::scripted([vec![text("First."), Act::Hang], says("Again.")]);
    let mut session = place.open(&model, vec![]);
    let admission = session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    let commits = session.store.commits();
    session.harness.close().await;
    assert_eq!(session.store.commits(), commits);
    assert_eq!(
        model.open.load(Ordering::SeqCst),
        0,
        "the request was closed"
    );
    let refused = session
        .lane
        .prompt(&session.cx, prompt_request("c2", "two"))
        .await;
    assert!(matches!(refused, Err(bezel_harness::PromptError::Closed)));
    assert!(session.lane.resume(&session.cx).await.is_err());
    session.kill().await;
    let session = place.open(&model, vec![]);
    let opened = session.harness.opened();
    assert_eq!(opened.len(), 1);
    assert_eq!(
        opened[0].operation_id.as_ref(),
        Some(&admission.operation_id)
    );
    assert_eq!(session.lane.active(), None, "opening starts nothing");
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(session.outline(), ["user: one", "answer: Again."]);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_tasks_have_ended_refuses_instead_of_waiting_for_ever() {
    let place = Place::new();
    let model = Model::scripted([]);
    let mut session = place.open(&model, vec![]);
    let request = PromptRequest {
        resume: false,
        ..prompt_request("c1", "later")
    };
    session.lane.prompt(&session.cx, request).await.unwrap();
    session.end_tasks().await;
    assert_eq!(
        session.lane.resume(&session.cx).await.unwrap(),
        Resumed::Nothing
    );
    session.idle().await;
    let refused = session
        .lane
        .prompt(&session.cx, prompt_request("c2", "now"))
        .await;
    assert!(matches!(refused, Err(bezel_harness::PromptError::Closed)));
}
