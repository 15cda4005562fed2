//! Others take part.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_harness::{Approval, EventKind, HookError, RequestPatch, ToolPatch, ToolVerdict};
use bezel_session_types::{
    AssistantContent, Message, ResultContent, RunOutcome, ThinkingLevel, ToolError, UserMessage,
};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Model, Place, Session, TestTool, call, calls, registration, says, text_of};

fn one_call(arguments: serde_json::Value) -> Arc<Model> {
    Model::scripted([calls([call("a", "echo", arguments)]), says("Done.")])
}

fn open(place: &Place, model: &Arc<Model>) -> Session {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    place.open(
        model,
        vec![registration("echo", TestTool::echo().schema(schema))],
    )
}

fn errors(session: &mut Session) -> Vec<(String, &'static str, String)> {
    session
        .happened()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::HandlerError {
                registrant,
                hook,
                message,
            } => Some((registrant.to_string(), hook, message)),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn hooks_before_a_tool_run_in_order_each_seeing_the_others_arguments() {
    let place = Place::new();
    let model = one_call(json!({ "n": 1 }));
    let session = open(&place, &model);
    let guards: Vec<_> = ["first", "second"]
        .map(|name| {
            session
                .harness
                .hooks()
                .before_tool(name, |_, call| async move {
                    let n = call.arguments["n"].as_i64().unwrap();
                    Ok(ToolVerdict::Replace(json!({ "n": n * 10 + 1 })))
                })
        })
        .into();
    session.turn("do it").await;
    assert_eq!(text_of(&session.results()[0].content), r#"{"n":111}"#);
    drop(guards);
    let again = one_call(json!({ "n": 1 }));
    session.kill().await;
    let session = open(&place, &again);
    session.turn("again").await;
    assert_eq!(text_of(&session.results()[1].content), r#"{"n":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_was_taken_out_is_not_called() {
    let place = Place::new();
    let model = one_call(json!({}));
    let session = open(&place, &model);
    let guard = session
        .harness
        .hooks()
        .before_tool("blocker", |_, _| async {
            Ok(ToolVerdict::Block {
                reason: "no".into(),
            })
        });
    drop(guard);
    session.turn("do it").await;
    assert!(!session.results()[0].is_error);
}

#[tokio::test(start_paused = true)]
async fn a_block_a_failure_a_panic_and_a_hang_before_a_tool_all_keep_it_from_running() {
    type Hook = fn() -> futures::future::BoxFuture<'static, Result<ToolVerdict, HookError>>;
    let hooks: [(Hook, &str); 4] = [
        (
            || {
                Box::pin(async {
                    Ok(ToolVerdict::Block {
                        reason: "not on my watch".into(),
                    })
                })
            },
            "not on my watch",
        ),
        (
            || Box::pin(async { Err(HookError::new("lost the rules")) }),
            "lost the rules",
        ),
        (|| panic!("oh"), "panicked"),
        (
            || Box::pin(std::future::pending()),
            "did not answer within 30s",
        ),
    ];
    for (hook, reason) in hooks {
        let place = Place::new();
        let model = one_call(json!({}));
        let mut session = open(&place, &model);
        let _guard = session
            .harness
            .hooks()
            .before_tool("guard", move |_, _| hook());
        session.turn("do it").await;
        let result = &session.results()[0];
        assert!(
            result.is_error && text_of(&result.content).contains(reason),
            "{result:?}"
        );
        assert_eq!(session.outline().last().unwrap(), "answer: Done.");
        let reported = errors(&mut session);
        if reason != "not on my watch" {
            assert_eq!(
                (reported[0].0.as_str(), reported[0].1),
                ("guard", "before_tool")
            );
            assert!(reported[0].2.contains(reason), "{reported:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_that_a_hook_breaks_are_not_run() {
    let place = Place::new();
    let model = one_call(json!({ "n": 1 }));
    let session = open(&place, &model);
    let _guard = session
        .harness
        .hooks()
        .before_tool("breaker", |_, _| async {
            Ok(ToolVerdict::Replace(json!({ "n": "many" })))
        });
    session.turn("do it").await;
    let result = &session.results()[0];
    assert!(
        result.is_error && text_of(&result.content).contains("/n"),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_approved_is_what_runs_and_an_approval_may_take_its_time() {
    let place = Place::new();
    let model = one_call(json!({ "n": 1 }));
    let session = open(&place, &model);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = Arc::clone(&seen);
    // Registered first, and still asked last.
    let _approver = session
        .harness
        .hooks()
        .approve_tool("asker", move |_, call| {
            see.lock().unwrap().push(call.arguments.to_string());
            async {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                Ok(Approval::Allow)
            }
        });
    let _changer = session
        .harness
        .hooks()
        .before_tool("changer", |_, _| async {
            Ok(ToolVerdict::Replace(json!({ "n": 2 })))
        });
    session.turn("do it").await;
    assert_eq!(*seen.lock().unwrap(), [r#"{"n":2}"#]);
    assert_eq!(text_of(&session.results()[0].content), r#"{"n":2}"#);
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_tells_the_model_why_and_what_was_allowed_before_it_runs_meanwhile() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "echo", json!({ "n": 1 })),
            call("b", "echo", json!({ "n": 2 })),
        ]),
        says("Done."),
    ]);
    let mut session = open(&place, &model);
    let gate = Arc::new(tokio::sync::Notify::new());
    let held = Arc::clone(&gate);
    let _approver = session
        .harness
        .hooks()
        .approve_tool("asker", move |_, call| {
            let held = Arc::clone(&held);
            async move {
                if call.arguments["n"] == 2 {
                    held.notified().await;
                    return Ok(Approval::Deny {
                        reason: "the person said no".into(),
                    });
                }
                Ok(Approval::Allow)
            }
        });
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolEnd { .. }).then_some(()))
        .await;
    assert_eq!(session.outline().last().unwrap(), r#"result of a: {"n":1}"#);
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline()[3],
        "result (error) of b: the person said no"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_after_a_tool_patches_fields_and_one_that_fails_is_passed_over() {
    let place = Place::new();
    let model = one_call(json!({ "n": 1 }));
    let mut session = open(&place, &model);
    let hooks = session.harness.hooks();
    let _failing = hooks.after_tool("failing", |_, _| async { Err(HookError::new("no")) });
    let _patching = hooks.after_tool("patching", |_, settled| async move {
        let text = format!("{} patched", text_of(&settled.result.content));
        let content = Some(vec![ResultContent::text(text)]);
        Ok(ToolPatch {
            content,
            is_error: Some(true),
            ..ToolPatch::default()
        })
    });
    session.turn("do it").await;
    let result = &session.results()[0];
    assert_eq!(
        (text_of(&result.content).as_str(), result.is_error),
        (r#"{"n":1} patched"#, true)
    );
    assert_eq!(
        errors(&mut session),
        [("failing".into(), "after_tool", "no".into())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_before_a_request_changes_that_request_and_nothing_that_lasts() {
    let place = Place::new();
    let model = one_call(json!({ "n": 1 }));
    let session = open(&place, &model);
    let hooks = session.harness.hooks();
    let _changer = hooks.before_request("changer", |_, request| async move {
        let mut options = request.options.clone();
        options.thinking = ThinkingLevel::High;
        // Takes the results away: the calls must not be left without any.
        let messages = request
            .messages
            .iter()
            .filter(|message| !matches!(***message, Message::ToolResult(_)));
        Ok(RequestPatch {
            system: Some("Be brief.".into()),
            messages: Some(messages.cloned().collect()),
            options: Some(options),
        })
    });
    let _hanging = hooks.before_request("hanging", |_, _| std::future::pending());
    let started = Instant::now();
    session.turn("do it").await;
    assert_eq!(
        started.elapsed(),
        Duration::from_secs(60),
        "a hang costs its deadline and no more"
    );
    let request = model.request(1);
    assert_eq!(
        (&*request.system, request.options.thinking),
        ("Be brief.", ThinkingLevel::High)
    );
    let Some(Message::ToolResult(result)) = request.messages.last().map(|last| &**last) else {
        panic!()
    };
    assert!(text_of(&result.content).contains("not known"));
    assert_eq!(text_of(&session.results()[0].content), r#"{"n":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_hook_after_an_answer_changes_what_enters_the_tree() {
    let place = Place::new();
    let model = Model::scripted([says("the secret")]);
    let session = open(&place, &model);
    let _guard = session
        .harness
        .hooks()
        .after_response("redactor", |_, answer| async move {
            let mut message = (*answer.message).clone();
            message.content = vec![AssistantContent::Text {
                text: "[redacted]".into(),
            }];
            Ok(Some(message))
        });
    session.turn("tell").await;
    assert_eq!(session.outline(), ["user: tell", "answer: [redacted]"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_before_the_end_gives_the_run_more_to_do() {
    let place = Place::new();
    let model = Model::scripted([says("Done."), says("Checked.")]);
    let mut session = open(&place, &model);
    let _guard = session
        .harness
        .hooks()
        .before_run_end("checker", |_, ending| async move {
            let more = ending.message.to_text() == "Done.";
            Ok(more.then(|| UserMessage {
                synthetic: true,
                ..UserMessage::text("Run the tests.")
            }))
        });
    session.turn("do it").await;
    assert_eq!(
        session.outline(),
        [
            "user: do it",
            "answer: Done.",
            "user: Run the tests.",
            "answer: Checked."
        ]
    );
    let ends = session.happened();
    assert_eq!(
        ends.iter()
            .filter(|event| matches!(event, EventKind::RunEnd { .. }))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_declined_call_ends_the_turn_and_keeps_its_reason_in_the_history() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "echo", json!({ "n": 1 })),
            call("b", "echo", json!({ "n": 2 })),
        ]),
        says("never asked for"),
    ]);
    let session = open(&place, &model);
    let _approver = session
        .harness
        .hooks()
        .approve_tool("asker", move |_, _| async {
            Ok(Approval::End {
                reason: "the person declined".into(),
            })
        });
    session.turn("do it").await;
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    assert_eq!(outcome, RunOutcome::Aborted);
    let results = session.results();
    assert_eq!(text_of(&results[0].content), "the person declined");
    assert!(
        text_of(&results[1].content).contains("Not run"),
        "{results:?}"
    );
    assert_eq!(
        model.requests.lock().unwrap().len(),
        1,
        "the model was not asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_every_call_that_ran_is_told_before_its_outcome_is_recorded() {
    let place = Place::new();
    let model = Model::scripted([calls([
        call("a", "echo", json!({})),
        call("b", "failing", json!({})),
        call("c", "barred", json!({})),
        call("d", "polite", json!({})),
        call("e", "stubborn", json!({})),
    ])]);
    let failing = TestTool::new(|_, _| std::future::ready(Err(ToolError::failed("no"))));
    let polite = TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Err(ToolError::Interrupted)
    });
    let stubborn = TestTool::new(|_, _| std::future::pending());
    let tools = vec![
        registration("echo", TestTool::echo()),
        registration("failing", failing),
        registration("barred", TestTool::echo()),
        registration("polite", polite),
        registration("stubborn", stubborn),
    ];
    let mut session = place.open(&model, tools);
    let hooks = session.harness.hooks();
    let _barring = hooks.before_tool("barring", |_, call| async move {
        Ok(match &*call.tool {
            "barred" => ToolVerdict::Block {
                reason: "no".into(),
            },
            _ => ToolVerdict::Continue,
        })
    });
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&told);
    let _told = hooks.tool_ended("told", move |cx, call| {
        let noted = Arc::clone(&noted);
        async move {
            // It has the time that it needs, also when the turn is interrupted.
            assert!(!cx.is_cancelled());
            tokio::time::sleep(Duration::from_millis(5)).await;
            noted.lock().unwrap().push(call.tool.to_string());
            Ok(())
        }
    });
    session.prompt("do it").await;
    for _ in 0..3 {
        let ended = |event: &EventKind| matches!(event, EventKind::ToolEnd { .. }).then_some(());
        session.event(ended).await;
    }
    assert_eq!(*told.lock().unwrap(), ["echo", "failing"]);
    session.lane.interrupt(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(
        *told.lock().unwrap(),
        ["echo", "failing", "polite", "stubborn"]
    );
}
