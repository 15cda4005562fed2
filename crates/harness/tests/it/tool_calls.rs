//! Tool calls from arguments to results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bezel_harness::{EventKind, ToolIdentity, ToolRegistration, ToolSet};
use bezel_session_types::{Progress, ResultContent, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::support::{Model, Place, TestTool, call, calls, registration, says, text_of};

/// Runs one turn whose only step makes these calls, and gives each result's text and whether it failed.
async fn results_of(
    tools: Vec<ToolRegistration>,
    made: Vec<(&'static str, Value)>,
) -> Vec<(String, bool)> {
    let place = Place::new();
    let ids = ["a", "b", "c", "d"];
    let acts = made
        .into_iter()
        .zip(ids)
        .map(|((name, arguments), id)| call(id, name, arguments));
    let model = Model::scripted([calls(acts), says("Done.")]);
    let session = place.open(&model, tools);
    session.turn("do it").await;
    assert_eq!(model.asked(), 2, "the model hears of every result");
    session
        .results()
        .iter()
        .map(|result| (text_of(&result.content), result.is_error))
        .collect()
}

fn path_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "lines": { "type": "integer", "minimum": 1 } },
        "required": ["path"],
        "additionalProperties": false,
    })
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_not_json_come_back_with_what_is_wrong_and_run_nothing() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = TestTool::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(ToolOutput::default()))
    });
    let results = results_of(
        vec![registration("read", tool.schema(path_schema()))],
        vec![("read", json!(r#"{"path": "a"#)), ("read", json!([1]))],
    )
    .await;
    assert!(
        results[0].0.contains("not valid JSON") && results[0].0.contains("column"),
        "{results:?}"
    );
    assert!(
        results[1].0.contains("must be one JSON object"),
        "{results:?}"
    );
    assert!(results.iter().all(|(_, failed)| *failed));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_break_the_schema_come_back_with_every_place_named() {
    let tools = || vec![registration("read", TestTool::echo().schema(path_schema()))];
    let wrong = json!({ "lines": 0, "deep": "secret".repeat(100) });
    let results = results_of(
        tools(),
        vec![("read", wrong), ("read", json!({ "path": "x" }))],
    )
    .await;
    let (text, failed) = &results[0];
    assert!(*failed);
    for named in ["path", "/lines", "deep", "Call it again"] {
        assert!(text.contains(named), "{named} is missing in {text}");
    }
    assert!(
        !text.contains("secretsecret"),
        "values are not repeated: {text}"
    );
    assert_eq!(results[1], (r#"{"path":"x"}"#.into(), false));
}

#[tokio::test(start_paused = true)]
async fn text_that_is_valid_json_and_empty_arguments_are_taken() {
    let results = results_of(
        vec![registration("echo", TestTool::echo())],
        vec![
            ("echo", json!(r#"{"n":1}"#)),
            ("echo", json!("")),
            ("echo", Value::Null),
        ],
    )
    .await;
    let expected = [r#"{"n":1}"#, "{}", "{}"].map(|text| (text.to_owned(), false));
    assert_eq!(results, expected);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_comes_back_with_those_there_are() {
    let results = results_of(
        vec![
            registration("echo", TestTool::echo()),
            registration("read", TestTool::echo()),
        ],
        vec![("ehco", json!({}))],
    )
    .await;
    assert!(results[0].1);
    assert!(
        results[0].0.contains("`ehco`") && results[0].0.contains("echo, read"),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_schema_is_broken_says_so() {
    let broken = TestTool::echo().schema(json!({ "type": "no such type" }));
    let results = results_of(vec![registration("bad", broken)], vec![("bad", json!({}))]).await;
    assert!(
        results[0].1 && results[0].0.contains("not a valid JSON Schema"),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_failure_are_results_and_leave_the_others_alone() {
    let panics =
        TestTool::new(|_, invocation| async move { panic!("at {}", invocation.arguments) });
    let fails = TestTool::new(|_, _| async { Err(ToolError::failed("no such file: x")) });
    let results = results_of(
        vec![
            registration("panics", panics),
            registration("fails", fails),
            registration("echo", TestTool::echo()),
        ],
        vec![
            ("panics", json!({})),
            ("fails", json!({})),
            ("echo", json!({})),
        ],
    )
    .await;
    assert!(
        results[0].1 && results[0].0.contains("at {}"),
        "{results:?}"
    );
    assert_eq!(results[1], ("no such file: x".into(), true));
    assert_eq!(results[2], ("{}".into(), false));
}

#[tokio::test(start_paused = true)]
async fn b28_calls_of_one_step_run_side_by_side_and_their_results_stand_in_source_order() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "slow", json!({})),
            call("b", "quick", json!({})),
            call("c", "quick", json!({})),
        ]),
        says("Done."),
    ]);
    let barrier = Arc::new(Barrier::new(3));
    let last = Arc::new(Notify::new());
    let (wait, held) = (Arc::clone(&barrier), Arc::clone(&last));
    let slow = TestTool::new(move |_, _| {
        let (wait, held) = (Arc::clone(&wait), Arc::clone(&held));
        async move {
            wait.wait().await;
            held.notified().await;
            Ok(ToolOutput::text("slow"))
        }
    });
    let quick = TestTool::new(move |_, _| {
        let wait = Arc::clone(&barrier);
        async move {
            wait.wait().await;
            Ok(ToolOutput::text("quick"))
        }
    });
    let mut session = place.open(
        &model,
        vec![registration("slow", slow), registration("quick", quick)],
    );
    session.prompt("do it").await;
    for _ in 0..2 {
        session
            .event(|event| matches!(event, EventKind::ToolEnd { .. }).then_some(()))
            .await;
    }
    assert_eq!(
        session.outline().len(),
        2,
        "results wait for those before them"
    );
    last.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline()[2..],
        [
            "result of a: slow",
            "result of b: quick",
            "result of c: quick",
            "answer: Done."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_sequential_tool_makes_its_step_sequential() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "echo", json!({})),
            call("b", "alone", json!({})),
            call("c", "echo", json!({})),
        ]),
        says("Done."),
    ]);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logging = |log: &Arc<Mutex<Vec<String>>>| {
        let log = Arc::clone(log);
        TestTool::new(move |_, invocation| {
            let log = Arc::clone(&log);
            async move {
                log.lock()
                    .unwrap()
                    .push(format!("{} begins", invocation.tool));
                tokio::task::yield_now().await;
                log.lock()
                    .unwrap()
                    .push(format!("{} ends", invocation.tool));
                Ok(ToolOutput::default())
            }
        })
    };
    let tools = vec![
        registration("echo", logging(&log)),
        registration("alone", logging(&log).sequential()),
    ];
    place.open(&model, tools).turn("do it").await;
    let log = log.lock().unwrap();
    let expected = [
        "echo begins",
        "echo ends",
        "alone begins",
        "alone ends",
        "echo begins",
        "echo ends",
    ];
    assert_eq!(*log, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_was_replaced_or_removed_since_the_request_runs_nothing() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([
        vec![
            crate::support::text("Now."),
            crate::support::Act::Gate(Arc::clone(&gate)),
            call("a", "kept", json!({})),
            call("b", "replaced", json!({})),
            call("c", "removed", json!({})),
            call("d", "added", json!({})),
            crate::support::end(bezel_session_types::StopReason::ToolUse),
        ],
        says("Done."),
    ]);
    let tools = ["kept", "replaced", "removed"].map(|name| registration(name, TestTool::echo()));
    let mut session = place.open(&model, tools.to_vec());
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    let replaced = ToolRegistration {
        identity: ToolIdentity::new("another"),
        ..registration("replaced", TestTool::echo())
    };
    // The kept one is a rebuild of an unchanged registration.
    let kept = registration("kept", TestTool::echo());
    let added = registration("added", TestTool::echo());
    session
        .harness
        .set_tools(Arc::new(ToolSet::new([kept, replaced, added])));
    gate.notify_one();
    session.idle().await;
    let codes: Vec<Value> = session
        .results()
        .into_iter()
        .map(|result| result.details["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [
            Value::Null,
            json!("tool.stale"),
            json!("tool.stale"),
            json!("tool.unknown")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_invocation_id_is_the_result_entrys_and_progress_ends_with_the_call() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "bash", json!({}))]), says("Done.")]);
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let tool = TestTool::new(move |_, invocation| {
        let keep = Arc::clone(&keep);
        async move {
            invocation.host.progress(Progress::Append("one\n".into()));
            invocation.host.progress(Progress::Append("two\n".into()));
            let id = invocation.invocation_id.clone();
            *keep.lock().unwrap() = Some(invocation);
            Ok(ToolOutput::text(id.to_string()))
        }
    });
    let mut session = place.open(&model, vec![registration("bash", tool)]);
    session.turn("do it").await;
    let invocation = kept.lock().unwrap().take().unwrap();
    invocation.host.progress(Progress::Append("late".into()));
    let shown: Vec<Progress> = session
        .happened()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::ToolUpdate { progress, .. } => Some(progress),
            _ => None,
        })
        .collect();
    assert_eq!(shown, [Progress::Append("one\ntwo\n".into())]);
    let entries = session.entries();
    let result = entries
        .iter()
        .find(|entry| entry.id.as_str() == invocation.invocation_id.as_str());
    assert!(result.is_some(), "{entries:?}");
    assert_eq!(session.results()[0].invocation_id, invocation.invocation_id);
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_id_of_their_own_get_one() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("", "echo", json!({})),
            call("x", "echo", json!({})),
            call("x", "echo", json!({})),
        ]),
        says("Done."),
    ]);
    let session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    session.turn("do it").await;
    let ids: Vec<String> = session
        .results()
        .into_iter()
        .map(|result| result.call_id)
        .collect();
    assert_eq!(ids, ["call_2", "x", "x_2"]);
}

#[tokio::test(start_paused = true)]
async fn the_intents_of_a_step_share_one_commit_and_one_sync() {
    let place = Place::new();
    let many: Vec<_> = (0..20)
        .map(|index| call(&index.to_string(), "echo", json!({})))
        .collect();
    let model = Model::scripted([calls(many), says("Done.")]);
    let session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    session.turn("do it").await;
    // One for the prompt, one for the intents.
    assert_eq!(session.store.syncs(), 2);
    assert_eq!(session.results().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_replay_safe_tool_waits_for_no_sync() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "echo", json!({}))]), says("Done.")]);
    let session = place.open(
        &model,
        vec![registration("echo", TestTool::echo().replay_safe())],
    );
    session.turn("do it").await;
    assert_eq!(session.store.syncs(), 1);
}

#[tokio::test(start_paused = true)]
async fn pictures_pass_as_they_are() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "look", json!({}))]), says("Done.")]);
    let picture = bezel_session_types::ImageContent {
        media_type: "image/png".into(),
        data: "AAAA".into(),
    };
    let content = vec![ResultContent::text("here"), ResultContent::Image(picture)];
    let output = ToolOutput {
        content: content.clone(),
        ..ToolOutput::default()
    };
    let look = TestTool::new(move |_, _| std::future::ready(Ok(output.clone())));
    let session = place.open(&model, vec![registration("look", look)]);
    session.turn("do it").await;
    assert_eq!(session.results()[0].content, content);
}
