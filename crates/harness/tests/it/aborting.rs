//! Ending what runs: promptly, durably, with a history that a provider accepts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bezel_harness::{AbortError, EventKind, HookError, PromptRequest, ToolVerdict};
use bezel_session_types::{
    FileChange, OperationId, ResultContent, RunOutcome, StopReason, ToolError, ToolOutput,
};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::support::{
    Act, Model, Place, Session, TestTool, assert_valid, call, calls, end, fails, prompt_request,
    registration, says, text,
};

fn started(event: &EventKind) -> Option<()> {
    matches!(event, EventKind::MessageUpdate { .. }).then_some(())
}

async fn outcome(session: &Session) -> RunOutcome {
    session.idle().await;
    session.lane.last_outcome().unwrap().unwrap().outcome
}

#[tokio::test(start_paused = true)]
async fn an_abort_closes_the_request_and_keeps_what_was_said() {
    let place = Place::new();
    let model = Model::scripted([
        vec![
            text("I was just say"),
            call("a", "echo", json!({})),
            Act::Hang,
        ],
        says("Go on."),
    ]);
    let mut session = place.open(&model, vec![]);
    let admission = session.prompt("hello").await;
    session.event(started).await;
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    assert_eq!(
        model.open.load(Ordering::SeqCst),
        0,
        "the request is closed"
    );
    assert_eq!(
        session.outline(),
        ["user: hello", "answer (aborted): I was just say"]
    );
    let happened = session.happened();
    let aborts = happened
        .iter()
        .filter(|event| matches!(event, EventKind::OperationAbort { .. }));
    assert_eq!(aborts.count(), 1);
    session.turn("and?").await;
    let seen = model.request(1).messages.to_vec();
    assert_eq!(seen.len(), 3, "the model sees what it said: {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_abort_of_another_operation_changes_nothing() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([vec![
        text("Hi"),
        Act::Gate(Arc::clone(&gate)),
        end(StopReason::Stop),
    ]]);
    let mut session = place.open(&model, vec![]);
    session.prompt("hello").await;
    session.event(started).await;
    let error = session
        .lane
        .request_abort(&session.cx, &OperationId::new("other"))
        .await
        .unwrap_err();
    assert!(matches!(error, AbortError::NotRunning { .. }), "{error}");
    gate.notify_one();
    assert_eq!(outcome(&session).await, RunOutcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_keeps_what_waits_and_is_nothing_when_idle() {
    let place = Place::new();
    let model = Model::scripted([vec![text("Hi"), Act::Hang], says("Second."), says("Third.")]);
    let mut session = place.open(&model, vec![]);
    assert_eq!(session.lane.interrupt(&session.cx).await.unwrap(), None);
    let first = session.prompt("one").await;
    session.event(started).await;
    let steered = session.prompt("two").await;
    let queued = session.queue("three").await;
    assert_eq!(steered.operation_id, first.operation_id);
    let interrupted = session.lane.interrupt(&session.cx).await.unwrap();
    assert_eq!(interrupted, Some(first.operation_id.clone()));
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    assert_eq!(model.asked(), 1, "nothing starts by itself");
    let waiting = session.lane.queued();
    assert_eq!(
        waiting
            .iter()
            .map(|message| &message.id)
            .collect::<Vec<_>>(),
        [&steered.message_id, &queued.message_id]
    );
    assert_ne!(
        waiting[0].operation_id, first.operation_id,
        "it belongs to the next operation"
    );
    // The receipt tells the operation that will answer it.
    let receipt = session.prompt("two").await;
    assert_eq!(receipt.operation_id, waiting[0].operation_id);
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(
        session.outline()[2..],
        [
            "user: two",
            "answer: Second.",
            "user: three",
            "answer: Third."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_prompt_during_the_end_of_an_aborted_run_starts_the_next() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "slow", json!({}))]), says("Second.")]);
    let slow = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Err(ToolError::Interrupted)
    });
    let mut session = place.open(&model, vec![registration("slow", slow)]);
    session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
    session.lane.interrupt(&session.cx).await.unwrap();
    session.prompt("two").await;
    session.idle().await;
    let outline = session.outline();
    assert!(
        outline[2].starts_with("result (error) of a: Interrupted"),
        "{outline:?}"
    );
    assert_eq!(outline[3..], ["user: two", "answer: Second."]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_during_tools_leaves_a_result_for_every_call() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "quick", json!({})),
            call("b", "polite", json!({})),
            call("c", "stubborn", json!({})),
            call("d", "finishing", json!({})),
        ]),
        says("Next."),
    ]);
    let polite = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Err(ToolError::Interrupted)
    });
    let stubborn = TestTool::new(|_, _| std::future::pending());
    let finishing = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Ok(ToolOutput::text("done all the same"))
    });
    let tools = vec![
        registration("quick", TestTool::echo()),
        registration("polite", polite),
        registration("stubborn", stubborn),
        registration("finishing", finishing),
    ];
    let mut session = place.open(&model, tools);
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolEnd { .. }).then_some(()))
        .await;
    let asked = Instant::now();
    session.lane.interrupt(&session.cx).await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO, "it returns at once");
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    let results = session.results();
    assert_eq!(
        results
            .iter()
            .map(|result| result.call_id.as_str())
            .collect::<Vec<_>>(),
        ["a", "b", "c", "d"]
    );
    assert_eq!(
        results
            .iter()
            .map(|result| result.is_error)
            .collect::<Vec<_>>(),
        [false, true, true, true]
    );
    session.turn("next").await;
    assert_valid(&model.request(1).messages);
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_returns_after_its_operation_was_ended_is_no_ordinary_result_and_can_be_read() {
    let place = Place::new();
    let model = Model::scripted([calls([
        call("a", "fine", json!({})),
        call("b", "fails", json!({})),
        call("c", "done", json!({})),
    ])]);
    let fine = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        let output = ToolOutput::text("all fine").with_details(json!({ "kind": "own" }));
        Ok(ToolOutput {
            structured: Some(json!({ "sum": 3 })),
            changes: vec![FileChange {
                path: "/changed".into(),
            }],
            ..output
        })
    });
    let fails = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Err(ToolError::Failed {
            message: "half of it is there".into(),
            details: json!({ "code": "own.code", "left": 5 }),
        })
    });
    let done = TestTool::new(|_, _| std::future::ready(Ok(ToolOutput::text("done"))));
    let tools = vec![
        registration("fine", fine),
        registration("fails", fails),
        registration("done", done),
    ];
    let mut session = place.open(&model, tools);
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolEnd { .. }).then_some(()))
        .await;
    session.lane.interrupt(&session.cx).await.unwrap();
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    let results = session.results();
    let read = |at: usize| -> String {
        let texts = results[at].content.iter().filter_map(|part| match part {
            ResultContent::Text { text } => Some(text.as_str()),
            ResultContent::Image(_) => None,
        });
        texts.collect()
    };
    for (at, said) in [(0, "all fine"), (1, "half of it is there")] {
        assert!(results[at].is_error);
        assert_eq!(results[at].details["code"], "interrupted");
        let read = read(at);
        assert!(read.starts_with("Interrupted while it ran"), "{read}");
        assert!(read.ends_with(said), "{read}");
    }
    assert_eq!(results[0].details["kind"], "own");
    assert_eq!(results[1].details["left"], 5);
    assert_eq!(results[0].structured, None);
    let changed = session
        .happened()
        .into_iter()
        .find_map(|event| match event {
            EventKind::ToolEnd { changes, .. } if !changes.is_empty() => Some(changes),
            _ => None,
        });
    assert_eq!(changed.unwrap(), [std::path::PathBuf::from("/changed")]);
    assert_eq!((results[2].is_error, read(2).as_str()), (false, "done"));
}

#[tokio::test(start_paused = true)]
async fn a_step_with_a_sequential_tool_leaves_the_rest_unrun_when_it_is_ended() {
    let place = Place::new();
    let model = Model::scripted([calls([
        call("a", "alone", json!({})),
        call("b", "count", json!({})),
    ])]);
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let count = TestTool::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(ToolOutput::default()))
    });
    let alone = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Err(ToolError::Interrupted)
    });
    let mut session = place.open(
        &model,
        vec![
            registration("alone", alone.sequential()),
            registration("count", count),
        ],
    );
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
    session.lane.interrupt(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let outline = session.outline();
    assert!(outline[3].contains("Not run"), "{outline:?}");
}

#[tokio::test(start_paused = true)]
async fn an_abort_reaches_waits_for_a_retry_a_hook_and_an_approval() {
    let place = Place::new();
    // A wait for the next try.
    let model = Model::scripted([fails(bezel_session_types::ProviderErrorKind::Overloaded)]);
    let mut session = place.open(&model, vec![]);
    session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::RetryScheduled { .. }).then_some(()))
        .await;
    session.lane.interrupt(&session.cx).await.unwrap();
    let ended = Instant::now();
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    assert_eq!(ended.elapsed(), Duration::ZERO);
    session.kill().await;
    // A hook that hangs, then an approval that nobody gives.
    for approval in [false, true] {
        let place = Place::new();
        let model = Model::scripted([calls([call("a", "echo", json!({}))])]);
        let session = place.open(&model, vec![registration("echo", TestTool::echo())]);
        let entered = Arc::new(Notify::new());
        let inside = Arc::clone(&entered);
        let hooks = session.harness.hooks();
        let _guard = if approval {
            hooks.approve_tool("asker", move |_, _| {
                inside.notify_one();
                std::future::pending()
            })
        } else {
            hooks.before_tool("hanger", move |_, _| {
                inside.notify_one();
                std::future::pending::<Result<ToolVerdict, HookError>>()
            })
        };
        session.prompt("one").await;
        entered.notified().await;
        session.lane.interrupt(&session.cx).await.unwrap();
        let ended = Instant::now();
        assert_eq!(outcome(&session).await, RunOutcome::Aborted);
        assert_eq!(ended.elapsed(), Duration::ZERO);
        assert!(
            session.outline()[2].contains("Not run"),
            "{:?}",
            session.outline()
        );
    }
}

/// A run with an answer of several parts, three calls of different length, and an end.
fn varied(wait: Duration) -> (Arc<Model>, Vec<bezel_harness::ToolRegistration>) {
    let model = Model::new(move |request, _| {
        let results = request
            .messages
            .iter()
            .filter(|message| matches!(***message, bezel_session_types::Message::ToolResult(_)));
        match results.count() {
            0 => vec![
                Act::Wait(wait * 3),
                text("Looking."),
                Act::Wait(wait * 3),
                call("a", "slow", json!({ "n": 5 })),
                call("b", "slow", json!({ "n": 9 })),
                call("c", "slow", json!({ "n": 2 })),
                Act::Wait(wait * 3),
                end(StopReason::ToolUse),
            ],
            _ => vec![Act::Wait(wait * 5), text("Done."), end(StopReason::Stop)],
        }
    });
    let slow = TestTool::new(move |cx, invocation| async move {
        let factor = u32::try_from(invocation.arguments["n"].as_u64().unwrap()).unwrap();
        match cx.run(tokio::time::sleep(wait * factor)).await {
            Ok(()) => Ok(ToolOutput::text("slept")),
            Err(_) => Err(ToolError::Interrupted),
        }
    });
    (model, vec![registration("slow", slow)])
}

/// Interrupts what runs and goes on; the model refuses a history that is not whole.
async fn interrupt_and_go_on(session: &Session, when: &str) {
    session.lane.interrupt(&session.cx).await.unwrap();
    session.idle().await;
    session.turn("go on").await;
    let outline = session.outline();
    let users = outline.iter().filter(|line| line.starts_with("user"));
    assert_eq!(users.count(), 2, "{when}: {outline:?}");
    let calls: usize = session
        .answers()
        .iter()
        .map(|answer| answer.tool_calls().count())
        .sum();
    assert_eq!(session.results().len(), calls, "{when}: {outline:?}");
    assert!(
        session
            .store
            .read(|queries| queries.keys("operation/"))
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn at_whatever_time_a_run_is_ended_the_next_request_is_one_that_a_provider_accepts() {
    for delay in 0..45 {
        let place = Place::new();
        let (model, tools) = varied(Duration::from_millis(1));
        let session = place.open(&model, tools);
        let _hook = session
            .harness
            .hooks()
            .before_tool("slow hook", |_, _| async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                Ok(ToolVerdict::Continue)
            });
        session.prompt("do it").await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        interrupt_and_go_on(&session, &format!("after {delay} ms")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn at_whatever_await_a_run_is_ended_the_next_request_is_one_that_a_provider_accepts() {
    for polls in 0..50 {
        let place = Place::new();
        let (model, tools) = varied(Duration::ZERO);
        let session = place.open(&model, tools);
        session.prompt("do it").await;
        // On a runtime of one thread each of these lets the others run to their next await.
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        interrupt_and_go_on(&session, &format!("after {polls} polls")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn at_whatever_event_a_run_is_ended_the_next_request_is_one_that_a_provider_accepts() {
    for number in 1.. {
        let place = Place::new();
        let (model, tools) = varied(Duration::from_millis(1));
        let mut session = place.open(&model, tools);
        session.prompt("do it").await;
        let mut ended = false;
        for _ in 0..number {
            let event = session.events.next().await.unwrap();
            ended |= matches!(event.kind, EventKind::RunEnd { .. });
        }
        interrupt_and_go_on(&session, &format!("after event {number}")).await;
        if ended {
            assert!(number > 15, "the run tells what it does");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_survives_the_process() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "stubborn", json!({}))]), says("Next.")]);
    let tools = || {
        let stubborn = TestTool::new(|_, _| std::future::pending());
        vec![registration("stubborn", stubborn.replay_safe())]
    };
    let mut session = place.open(&model, tools());
    let admission = session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    session.kill().await;
    let session = place.open(&model, tools());
    session.lane.resume(&session.cx).await.unwrap();
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    let outline = session.outline();
    assert!(outline[2].starts_with("result (error) of a"), "{outline:?}");
    assert_eq!(
        model.asked(),
        1,
        "a replay-safe tool is not run again once its run was ended"
    );
}

#[tokio::test(start_paused = true)]
async fn an_operation_found_open_can_be_ended_without_being_resumed_first() {
    let place = Place::new();
    let model = Model::scripted([vec![text("Hi"), Act::Hang]]);
    let mut session = place.open(&model, vec![]);
    let admission = session.prompt("hello").await;
    session.event(started).await;
    session.kill().await;
    let session = place.open(&model, vec![]);
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    assert_eq!(outcome(&session).await, RunOutcome::Aborted);
    assert_eq!(model.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_ended_context_of_a_caller_ends_nothing_but_its_waiting() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([vec![
        text("Hi"),
        Act::Gate(Arc::clone(&gate)),
        end(StopReason::Stop),
    ]]);
    let session = place.open(&model, vec![]);
    let (cx, cancel) = session.cx.with_cancel();
    session
        .lane
        .prompt(&cx, prompt_request("c1", "hello"))
        .await
        .unwrap();
    cancel.cancel();
    let refused = session
        .lane
        .prompt(
            &cx,
            PromptRequest {
                ..prompt_request("c2", "no")
            },
        )
        .await;
    assert!(refused.is_err());
    assert!(session.lane.wait_idle(&cx).await.is_err());
    gate.notify_one();
    assert_eq!(outcome(&session).await, RunOutcome::Completed);
}
