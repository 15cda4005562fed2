//! Summaries in place of older entries.

use std::sync::Arc;

use bezel_harness::{CompactionVerdict, EventKind, HarnessConfig};
use bezel_session_types::{
    CompactionReason, EntryBody, Message, ModelEvent, ModelRequest, ModelSpec, ProviderErrorKind,
    RunOutcome, StopReason, Usage,
};
use serde_json::json;

use crate::support::{
    Act, Model, Place, Reply, Session, TestTool, call, calls, fails, model_spec, registration,
    says, text,
};

fn asks_for_summary(request: &ModelRequest) -> bool {
    request.system.contains("summarise")
}

/// An answer after which the provider counts this many tokens.
fn says_at(words: &str, input: u64) -> Reply {
    let usage = Usage {
        input,
        output: 10,
        ..Usage::default()
    };
    vec![
        text(words),
        Act::Say(ModelEvent::End {
            stop_reason: StopReason::Stop,
            usage,
        }),
    ]
}

fn small_window() -> (ModelSpec, HarnessConfig) {
    let mut config = HarnessConfig::default();
    config.compaction.reserve = 1_000;
    config.compaction.keep_recent = 100;
    (
        ModelSpec {
            context: 10_000,
            ..model_spec()
        },
        config,
    )
}

fn open(place: &Place, model: &Arc<Model>) -> Session {
    let (spec, config) = small_window();
    place.open_with(
        model,
        vec![registration("echo", TestTool::echo())],
        spec,
        config,
    )
}

fn first_text(request: &ModelRequest) -> String {
    match &*request.messages[0] {
        Message::User(user) => user.to_text(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_context_close_to_the_window_is_summarised_before_the_next_request() {
    let place = Place::new();
    let model = Model::new(|request, count| match count {
        _ if asks_for_summary(request) => says("The goal is X."),
        0 => says_at(&"old ".repeat(200), 9_500),
        _ => says_at("New.", 500),
    });
    let mut session = open(&place, &model);
    session.turn("one").await;
    session.turn("two").await;
    let outline = session.outline();
    assert_eq!(
        outline[2..],
        ["user: two", "compaction: The goal is X.", "answer: New."]
    );
    let summary = model.request(1);
    assert!(
        first_text(&summary).contains("old old") && first_text(&summary).contains("[User]\none")
    );
    assert!(summary.tools.is_empty());
    let next = model.request(2);
    assert!(
        first_text(&next).contains("The goal is X."),
        "{:?}",
        next.messages
    );
    assert_eq!(
        next.messages.len(),
        2,
        "the summary and what was kept: {:?}",
        next.messages
    );
    let entries = session.entries();
    let EntryBody::Compaction(compaction) = &entries[3].body else {
        panic!()
    };
    assert_eq!(compaction.reason, CompactionReason::Threshold);
    assert_eq!(compaction.first_kept.as_ref(), Some(&entries[2].id));
    assert!(compaction.tokens_before > 9_500);
    assert_eq!(session.harness.usage().unwrap().requests, 3);
    let happened = session.happened();
    assert!(
        happened
            .iter()
            .any(|event| matches!(event, EventKind::CompactionEnd { error: None, .. }))
    );
    // A later process sees the same, and the whole tree.
    session.kill().await;
    let session = open(&place, &model);
    session.turn("three").await;
    assert!(first_text(&model.request(3)).contains("The goal is X."));
    assert_eq!(model.request(3).messages.len(), 4);
    assert_eq!(session.entries().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_summarised_once_and_asked_again() {
    let place = Place::new();
    let model = Model::new(|request, _| {
        if asks_for_summary(request) {
            return says("Short.");
        }
        let size: usize = request
            .messages
            .iter()
            .map(|message| format!("{message:?}").len())
            .sum();
        if size > 3_000 {
            fails(ProviderErrorKind::ContextOverflow)
        } else {
            says("Fine.")
        }
    });
    let session = place.open(&model, vec![]);
    session.turn(&"a".repeat(900)).await;
    session.turn(&"b".repeat(900)).await;
    session.turn(&"c".repeat(900)).await;
    assert_eq!(session.outline().last().unwrap(), "answer: Fine.");
    let compactions = session
        .entries()
        .into_iter()
        .filter_map(|entry| match entry.body {
            EntryBody::Compaction(compaction) => Some(compaction.reason),
            _ => None,
        });
    assert_eq!(
        compactions.collect::<Vec<_>>(),
        [CompactionReason::Overflow]
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_never_fits_fails_with_what_to_do() {
    let place = Place::new();
    let model = Model::new(|request, _| match asks_for_summary(request) {
        true => says("Short."),
        false => fails(ProviderErrorKind::ContextOverflow),
    });
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    let RunOutcome::Failed { code, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(code, "model.context_overflow");
    assert!(message.contains("new session"), "{message}");
    session.turn("two").await;
    assert!(
        model.asked() <= 4,
        "one summary for one overflow: {}",
        model.asked()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_still_does_not_fit_is_not_summarised_again() {
    let place = Place::new();
    let model = Model::new(|request, count| match count {
        _ if asks_for_summary(request) => says("Short."),
        0..=4 => says(&"words ".repeat(50)),
        _ => fails(ProviderErrorKind::ContextOverflow),
    });
    let session = place.open(&model, vec![]);
    for words in ["one", "two", "three", "four", "five", "six"] {
        session.turn(words).await;
    }
    let compactions = session.entries().into_iter();
    let compactions = compactions.filter(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    assert_eq!(compactions.count(), 1, "{:?}", session.outline());
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    assert!(matches!(outcome, RunOutcome::Failed { code, .. } if code == "model.context_overflow"));
}

#[tokio::test(start_paused = true)]
async fn somebody_asks_for_a_summary_while_nothing_runs() {
    let place = Place::new();
    let model = Model::new(|request, _| match asks_for_summary(request) {
        true => says("All of it."),
        false => says("Hello."),
    });
    let mut session = place.open(&model, vec![]);
    let nothing = session.lane.compact(&session.cx, None).await;
    assert!(matches!(nothing, Err(bezel_harness::CompactError::Nothing)));
    session.turn("one").await;
    let operation = session
        .lane
        .compact(&session.cx, Some("Keep the numbers.".into()))
        .await
        .unwrap();
    session.idle().await;
    assert_eq!(
        session.outline(),
        ["user: one", "answer: Hello.", "compaction: All of it."]
    );
    assert!(first_text(&model.request(1)).contains("Keep the numbers."));
    let outcome = session.lane.last_outcome().unwrap().unwrap();
    assert_eq!(
        (outcome.operation_id, outcome.outcome),
        (operation, RunOutcome::Completed)
    );
    session.turn("two").await;
    assert_eq!(model.request(2).messages.len(), 2);
    let started = |event: &EventKind| matches!(event, EventKind::CompactionStart { .. });
    assert_eq!(
        session
            .happened()
            .iter()
            .filter(|event| started(event))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn somebody_asks_for_a_summary_while_a_run_goes_on() {
    let place = Place::new();
    let gate = Arc::new(tokio::sync::Notify::new());
    let held = Arc::clone(&gate);
    let model = Model::new(move |request, count| match count {
        _ if asks_for_summary(request) => says("So far."),
        0 => calls([
            text("Hm."),
            Act::Gate(Arc::clone(&held)),
            call("a", "echo", json!({})),
        ]),
        _ => says("Done."),
    });
    let mut session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    let admission = session.prompt("one").await;
    session
        .event(|event| matches!(event, EventKind::MessageStart { .. }).then_some(()))
        .await;
    let operation = session.lane.compact(&session.cx, None).await.unwrap();
    assert_eq!(operation, admission.operation_id);
    gate.notify_one();
    session.idle().await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: Hm.a",
            "result of a: {}",
            "compaction: So far.",
            "answer: Done."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_declines_or_supplies_the_summary() {
    for supplies in [true, false] {
        let place = Place::new();
        let model = Model::new(|_, _| says("Hello."));
        let mut session = place.open(&model, vec![]);
        let _guard =
            session
                .harness
                .hooks()
                .before_compaction("own", move |_, pending| async move {
                    assert_eq!(pending.messages.len(), 2);
                    Ok(match supplies {
                        true => CompactionVerdict::Supply {
                            summary: "My own.".into(),
                        },
                        false => CompactionVerdict::Decline {
                            reason: "not now".into(),
                        },
                    })
                });
        session.turn("one").await;
        session.lane.compact(&session.cx, None).await.unwrap();
        session.idle().await;
        assert_eq!(model.asked(), 1, "the model is not asked to summarise");
        let outline = session.outline();
        let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
        if supplies {
            assert_eq!(outline[2], "compaction: My own.");
            assert_eq!(outcome, RunOutcome::Completed);
        } else {
            assert_eq!(outline.len(), 2);
            assert!(matches!(outcome, RunOutcome::Failed { message, .. } if message == "not now"));
            let ended = |event: &EventKind| {
                matches!(event, EventKind::CompactionEnd { error: Some(_), .. })
            };
            assert!(session.happened().iter().any(ended));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_threshold_summary_that_fails_does_not_keep_the_run_from_going_on() {
    let place = Place::new();
    let model = Model::new(|request, count| match count {
        _ if asks_for_summary(request) => fails(ProviderErrorKind::InvalidRequest),
        0 => says_at(&"old ".repeat(200), 9_500),
        _ => says_at("New.", 9_600),
    });
    let session = open(&place, &model);
    session.turn("one").await;
    session.turn("two").await;
    assert_eq!(session.outline()[2..], ["user: two", "answer: New."]);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_interrupted_leaves_the_conversation_as_it_was() {
    let place = Place::new();
    let model = Model::new(|request, _| match asks_for_summary(request) {
        true => vec![text("So"), Act::Hang],
        false => says("Hello."),
    });
    let mut session = place.open(&model, vec![]);
    session.turn("one").await;
    session.lane.compact(&session.cx, None).await.unwrap();
    session
        .event(|event| matches!(event, EventKind::CompactionStart { .. }).then_some(()))
        .await;
    let summarising = |state: &bezel_session_types::RunState| {
        matches!(
            state,
            bezel_session_types::RunState::Running {
                phase: bezel_session_types::RunPhase::Compacting,
                ..
            }
        )
    };
    session.lane.states().wait_for(summarising).await.unwrap();
    session.lane.interrupt(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(session.outline().len(), 2);
    assert_eq!(
        session.lane.last_outcome().unwrap().unwrap().outcome,
        RunOutcome::Aborted
    );
    // And at a kill, it is made anew.
    session.lane.compact(&session.cx, None).await.unwrap();
    session.lane.states().wait_for(summarising).await.unwrap();
    session.kill().await;
    let whole = Model::new(|_, _| says("Whole."));
    let session = place.open(&whole, vec![]);
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(session.outline()[2..], ["compaction: Whole."]);
}
