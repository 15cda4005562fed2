//! Model requests that fail.

use std::time::Duration;

use bezel_harness::{EventKind, HarnessConfig};
use bezel_session_types::{ProviderError, ProviderErrorKind, RunOutcome, RunPhase, RunState};
use tokio::time::Instant;

use crate::support::{Act, Model, Place, fails, model_spec, provider_error, says, text};

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_tried_again_and_leaves_no_trace_in_the_tree() {
    let place = Place::new();
    let cut = vec![text("Half an ans"), Act::Cut];
    let model = Model::scripted([fails(ProviderErrorKind::Overloaded), cut, says("Whole.")]);
    let mut session = place.open(&model, vec![]);
    let started = Instant::now();
    session.turn("hello").await;
    assert_eq!(session.outline(), ["user: hello", "answer: Whole."]);
    let waited = started.elapsed().as_millis();
    assert!(
        (1_125..=1_900).contains(&waited),
        "{waited} ms for a wait of 500 and one of 1,000"
    );
    let happened = session.happened();
    let retries: Vec<u32> = happened
        .iter()
        .filter_map(|event| match event {
            EventKind::RetryScheduled { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [1, 2]);
    let dropped = |event: &&EventKind| matches!(event, EventKind::MessageEnd { message: None, .. });
    assert_eq!(
        happened.iter().filter(dropped).count(),
        1,
        "the half answer is taken back"
    );
}

#[tokio::test(start_paused = true)]
async fn the_providers_wait_is_honoured_and_shown() {
    let place = Place::new();
    let limited = ProviderError {
        retry_after: Some(Duration::from_secs(30)),
        ..provider_error(ProviderErrorKind::RateLimited, "slow down")
    };
    let model = Model::scripted([vec![Act::Fail(limited)], says("Done.")]);
    let session = place.open(&model, vec![]);
    let started = Instant::now();
    session.prompt("hello").await;
    let waiting = |state: &RunState| matches!(state, RunState::Running { phase: RunPhase::RetryWait { attempt: 1, error, .. }, .. } if error == "slow down");
    session.lane.states().wait_for(waiting).await.unwrap();
    session.idle().await;
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_secs(29) && waited < Duration::from_secs(32),
        "{waited:?}"
    );
    assert_eq!(model.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_stays_ends_the_run_after_four_retries() {
    let place = Place::new();
    let model = Model::new(|_, _| fails(ProviderErrorKind::Unreachable));
    let session = place.open(&model, vec![]);
    session.turn("hello").await;
    assert_eq!(model.asked(), 5);
    assert_eq!(session.outline(), ["user: hello", "answer (error): "]);
    assert_eq!(
        session.answers()[0].error.as_deref(),
        Some("the provider said no")
    );
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    assert!(matches!(outcome, RunOutcome::Failed { code, .. } if code == "model.unreachable"));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_will_not_go_away_is_not_tried_again_and_not_shown_to_the_model() {
    let place = Place::new();
    let model = Model::scripted([fails(ProviderErrorKind::Authentication), says("Hello.")]);
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    assert_eq!(model.asked(), 1);
    session.turn("two").await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer (error): ",
            "user: two",
            "answer: Hello."
        ]
    );
    assert_eq!(
        model.request(1).messages.len(),
        2,
        "two user messages and no failed answer"
    );
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_anew_for_every_request() {
    let place = Place::new();
    let model = Model::new(|request, count| match (request.messages.len(), count % 3) {
        (_, 0 | 1) => fails(ProviderErrorKind::Overloaded),
        (1, _) => crate::support::calls([crate::support::call("a", "echo", serde_json::json!({}))]),
        _ => says("Done."),
    });
    let tool = crate::support::registration("echo", crate::support::TestTool::echo());
    let session = place.open(&model, vec![tool]);
    session.turn("hello").await;
    assert_eq!(model.asked(), 6);
    assert_eq!(session.outline().last().unwrap(), "answer: Done.");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_falls_silent_is_given_up_and_asked_again() {
    let place = Place::new();
    let model = Model::scripted([vec![text("Well"), Act::Hang], says("Done.")]);
    let config = HarnessConfig {
        stream_idle: Duration::from_secs(60),
        ..HarnessConfig::default()
    };
    let session = place.open_with(&model, vec![], model_spec(), config);
    let started = Instant::now();
    session.turn("hello").await;
    assert_eq!(session.outline(), ["user: hello", "answer: Done."]);
    assert!(started.elapsed() >= Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_is_not_taken_for_a_silent_one() {
    let place = Place::new();
    let slow = |words: &str| [Act::Wait(Duration::from_secs(50)), text(words)];
    let acts = ["a", "b", "c", "d"].iter().flat_map(|words| slow(words));
    let end = crate::support::end(bezel_session_types::StopReason::Stop);
    let model = Model::scripted([acts.chain([end]).collect()]);
    let config = HarnessConfig {
        stream_idle: Duration::from_secs(60),
        ..HarnessConfig::default()
    };
    let session = place.open_with(&model, vec![], model_spec(), config);
    session.turn("hello").await;
    assert_eq!(session.outline(), ["user: hello", "answer: abcd"]);
}
