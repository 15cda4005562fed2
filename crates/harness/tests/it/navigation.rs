//! Moving a lane through the tree.

use std::sync::Arc;
use std::time::Duration;

use bezel_harness::{
    Departure, EventKind, HarnessConfig, LaneOutcome, NavigateError, NavigateRequest,
    NavigationVerdict, PromptRequest,
};
use bezel_session_types::{
    Entry, EntryBody, EntryId, Message, ModelRequest, ProviderErrorKind, RunOutcome,
};

use crate::support::{
    Act, Model, Place, Session, fails, is_resumed, model_spec, prompt_request, says, text,
};

/// Answers with the words it was asked last, and summarises where it is asked to.
fn echoing() -> Arc<Model> {
    Model::new(|request, _| {
        if request.system.contains("summarise") {
            return says("Tried X.");
        }
        says(&format!("re {}", last_words(request)))
    })
}

fn last_words(request: &ModelRequest) -> String {
    match request.messages.last().map(|message| &**message) {
        Some(Message::User(user)) => user.to_text(),
        other => panic!("{other:?}"),
    }
}

fn to(target: Option<&EntryId>) -> NavigateRequest {
    NavigateRequest {
        target: target.cloned(),
        ..NavigateRequest::default()
    }
}

fn summarised(target: &EntryId) -> NavigateRequest {
    NavigateRequest {
        summary: Some("what failed".into()),
        ..to(Some(target))
    }
}

async fn go(session: &Session, request: NavigateRequest) -> RunOutcome {
    let id = session.lane.navigate(&session.cx, request).await.unwrap();
    session.idle().await;
    let LaneOutcome {
        operation_id,
        outcome,
    } = session.lane.last_outcome().unwrap().unwrap();
    assert_eq!(operation_id, id);
    outcome
}

#[tokio::test(start_paused = true)]
async fn the_next_message_goes_on_from_where_the_lane_was_moved_to() {
    let place = Place::new();
    let model = echoing();
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let first_answer = session.entries()[1].id.clone();
    assert_eq!(
        go(&session, to(Some(&first_answer))).await,
        RunOutcome::Completed
    );
    assert_eq!(session.outline(), ["user: one", "answer: re one"]);
    session.turn("three").await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: re one",
            "user: three",
            "answer: re three"
        ]
    );
    assert_eq!(model.request(2).messages.len(), 3);
    let all = session.harness.tree().all(None, 100).unwrap();
    assert_eq!(all.len(), 6, "the branch that was left is still there");
    session.kill().await;
    let session = place.open(&model, vec![]);
    assert_eq!(session.outline().len(), 4);
    // Back to the tip of the other branch.
    assert_eq!(
        go(&session, to(Some(&all[3].id))).await,
        RunOutcome::Completed
    );
    assert_eq!(session.outline()[2..], ["user: two", "answer: re two"]);
}

#[tokio::test(start_paused = true)]
async fn to_say_the_first_message_again_the_lane_goes_before_the_first_entry() {
    let place = Place::new();
    let model = echoing();
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    assert_eq!(go(&session, to(None)).await, RunOutcome::Completed);
    assert!(session.outline().is_empty());
    session.turn("another").await;
    assert_eq!(session.outline(), ["user: another", "answer: re another"]);
    assert_eq!(model.request(1).messages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_summary_of_the_branch_that_is_left_stands_where_the_lane_goes_on() {
    let place = Place::new();
    let model = echoing();
    let mut session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let entries = session.entries();
    let (target, left) = (&entries[1].id, &entries[3].id);
    let request = NavigateRequest {
        label: Some(" after X ".into()),
        ..summarised(target)
    };
    assert_eq!(go(&session, request).await, RunOutcome::Completed);
    assert_eq!(
        session.outline(),
        ["user: one", "answer: re one", "branch: Tried X."]
    );
    let asked = model.request(2);
    let words = last_words(&asked);
    assert!(
        words.contains("[User]\ntwo") && words.contains("what failed"),
        "{words}"
    );
    assert!(
        !words.contains("[User]\none"),
        "what both branches share is not left: {words}"
    );
    let summary = session.entries()[2].clone();
    let EntryBody::BranchSummary(branch) = &summary.body else {
        panic!("{summary:?}")
    };
    assert_eq!(branch.from, *left);
    let label = session.harness.tree().label(&summary.id).unwrap();
    assert_eq!(label.as_deref(), Some("after X"));
    assert_eq!(session.harness.usage().unwrap().requests, 3);
    let ended = session
        .happened()
        .into_iter()
        .find_map(|event| match event {
            EventKind::NavigationEnd { tip, error, .. } => Some((tip, error)),
            _ => None,
        });
    assert_eq!(ended, Some((Some(summary.id), None)));
    session.turn("three").await;
    let text = format!("{:?}", model.request(3).messages);
    assert!(text.contains("Tried X."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_gone_to_is_refused_and_writes_nothing() {
    let place = Place::new();
    let model = Model::new(|_, count| match count {
        0 => says("re one"),
        _ => vec![text("re"), Act::Hang],
    });
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    let entries = session.entries();
    let commits = session.store.commits();
    let refused = |request| session.lane.navigate(&session.cx, request);
    let current = refused(to(Some(&entries[1].id))).await;
    assert!(
        matches!(current, Err(NavigateError::Current)),
        "{current:?}"
    );
    let unknown = refused(to(Some(&EntryId::new("nowhere")))).await;
    assert!(
        matches!(unknown, Err(NavigateError::Unknown { .. })),
        "{unknown:?}"
    );
    for request in [
        NavigateRequest {
            summary: Some(String::new()),
            ..to(None)
        },
        NavigateRequest {
            label: Some("here".into()),
            ..to(None)
        },
    ] {
        let root = refused(request).await;
        assert!(matches!(root, Err(NavigateError::AtRoot)), "{root:?}");
    }
    assert_eq!(session.store.commits(), commits);
    session.prompt("two").await;
    let busy = refused(to(Some(&entries[0].id))).await;
    assert!(matches!(busy, Err(NavigateError::Busy { .. })), "{busy:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_or_failed_summary_leaves_the_lane_where_it_was() {
    let place = Place::new();
    let model = Model::new(|request, count| match count {
        _ if !request.system.contains("summarise") => says("fine"),
        2 => vec![Act::Hang],
        _ => fails(ProviderErrorKind::Authentication),
    });
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let entries = session.entries();
    let id = session
        .lane
        .navigate(&session.cx, summarised(&entries[1].id))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    session.lane.request_abort(&session.cx, &id).await.unwrap();
    session.idle().await;
    let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
    assert_eq!(outcome, RunOutcome::Aborted);
    assert_eq!(session.entries(), entries);
    let outcome = go(&session, summarised(&entries[1].id)).await;
    let RunOutcome::Failed { code, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(code, "model.authentication");
    assert!(message.contains("could not summarise"), "{message}");
    assert_eq!(session.entries(), entries);
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_tried_again_after_a_transient_failure() {
    let place = Place::new();
    let model = Model::new(|request, count| match count {
        2 => fails(ProviderErrorKind::Overloaded),
        _ if request.system.contains("summarise") => says("Tried X."),
        _ => says("fine"),
    });
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let target = session.entries()[1].id.clone();
    assert_eq!(
        go(&session, summarised(&target)).await,
        RunOutcome::Completed
    );
    assert_eq!(session.outline()[2..], ["branch: Tried X."]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_declines_a_navigation_or_supplies_its_summary() {
    let place = Place::new();
    let model = echoing();
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let entries = session.entries();
    let hooks = session.harness.hooks();
    let declines = hooks.before_navigation("guard", |_, pending| async move {
        assert!(pending.messages.is_empty(), "no summary was asked for");
        Ok(NavigationVerdict::Decline {
            reason: "stay here".into(),
        })
    });
    let outcome = go(&session, to(Some(&entries[1].id))).await;
    assert!(
        matches!(&outcome, RunOutcome::Failed { code, message } if code == "navigation.declined" && message == "stay here"),
        "{outcome:?}"
    );
    assert_eq!(session.entries(), entries);
    drop(declines);
    let _supplies = hooks.before_navigation("writer", |_, pending| async move {
        let summary = format!("{} messages were left", pending.messages.len());
        Ok(NavigationVerdict::Supply { summary })
    });
    assert_eq!(
        go(&session, summarised(&entries[1].id)).await,
        RunOutcome::Completed
    );
    assert_eq!(session.outline()[2..], ["branch: 2 messages were left"]);
    assert_eq!(model.asked(), 2, "the model was not asked for it");
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_to_wait_still_waits_after_a_navigation_and_what_was_sent_runs() {
    let place = Place::new();
    let gate = Arc::new(tokio::sync::Notify::new());
    let held = Arc::clone(&gate);
    let model = Model::new(
        move |request, _| match request.system.contains("summarise") {
            true => vec![
                Act::Gate(Arc::clone(&held)),
                text("Tried X."),
                crate::support::end(bezel_session_types::StopReason::Stop),
            ],
            false => says("fine"),
        },
    );
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let recorded = PromptRequest {
        resume: false,
        ..prompt_request("c", "later")
    };
    session.lane.prompt(&session.cx, recorded).await.unwrap();
    let entries = session.entries();
    assert_eq!(
        go(&session, to(Some(&entries[1].id))).await,
        RunOutcome::Completed
    );
    assert_eq!(session.lane.queued().len(), 1, "it was only recorded");
    let back = NavigateRequest {
        summary: Some(String::new()),
        ..to(Some(&entries[0].id))
    };
    session.lane.navigate(&session.cx, back).await.unwrap();
    session.prompt("now").await;
    gate.notify_one();
    session.idle().await;
    assert!(session.lane.queued().is_empty());
    let outline = session.outline();
    assert_eq!(outline[..2], ["user: one", "branch: Tried X."]);
    assert_eq!(outline.last().map(String::as_str), Some("answer: fine"));
    assert!(outline.contains(&"user: now".to_owned()), "{outline:?}");
}

/// Brings the session to the end of its script from wherever it is.
async fn go_on(session: &Session) -> Option<()> {
    session.lane.resume(&session.cx).await.ok()?;
    session.idle().await;
    for words in ["one", "two"] {
        let request = prompt_request(words, words);
        session.lane.prompt(&session.cx, request).await.ok()?;
        session.idle().await;
    }
    let outline = session.outline();
    if !outline.iter().any(|line| line.starts_with("branch")) {
        let entries = session.entries();
        let answer = |entry: &&Entry| matches!(entry.message(), Some(Message::Assistant(_)));
        let target = entries.iter().find(answer)?.id.clone();
        let request = NavigateRequest {
            label: Some("left".into()),
            ..summarised(&target)
        };
        session.lane.navigate(&session.cx, request).await.ok()?;
        session.idle().await;
    }
    Some(())
}

#[tokio::test(start_paused = true)]
async fn a_navigation_that_dies_after_any_commit_ends_as_if_it_had_not() {
    async fn open(place: &Place) -> Session {
        place.open_with(&echoing(), vec![], model_spec(), HarnessConfig::default())
    }
    let whole = {
        let place = Place::new();
        let session = open(&place).await;
        go_on(&session).await.unwrap();
        session.store.commits()
    };
    for stop in 0..=whole {
        let place = Place::new();
        let session = open(&place).await;
        session.store.stop_after(stop);
        go_on(&session).await;
        session.kill().await;
        // A navigation that had begun is there to be gone on with, and nothing of it has moved.
        let session = open(&place).await;
        let branch = session
            .outline()
            .iter()
            .any(|line| line.starts_with("branch"));
        let labels = session.harness.tree().labels().unwrap();
        assert_eq!(
            branch,
            !labels.is_empty(),
            "after {stop}: one without the other"
        );
        go_on(&session).await.unwrap();
        assert_eq!(
            session.outline(),
            ["user: one", "answer: re one", "branch: Tried X."],
            "after {stop}"
        );
        let mut all = session.harness.tree().all(None, 100).unwrap();
        all.retain(|entry| !is_resumed(entry));
        assert_eq!(all.len(), 5, "after {stop}: {all:?}");
        let left = session
            .store
            .read(|queries| queries.keys("operation/"))
            .unwrap();
        assert!(left.is_empty(), "after {stop}: {left:?}");
    }
}

fn departing(from: Option<&EntryId>) -> Option<Departure> {
    let from = from.cloned();
    Some(Departure { from })
}

#[tokio::test(start_paused = true)]
async fn the_next_message_takes_the_lane_to_where_its_run_was_to_begin_also_after_a_crash() {
    let place = Place::new();
    let model = echoing();
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let from = session.entries()[1].id.clone();
    let set = session
        .lane
        .set_departure(&session.cx, departing(Some(&from)));
    set.await.unwrap();
    assert_eq!(
        session.outline().len(),
        4,
        "nothing moves before the message"
    );
    session.kill().await;
    let mut session = place.open(&model, vec![]);
    assert_eq!(session.lane.departure(), departing(Some(&from)));
    session.turn("three").await;
    let outline = [
        "user: one",
        "answer: re one",
        "user: three",
        "answer: re three",
    ];
    assert_eq!(session.outline(), outline);
    assert_eq!(model.request(2).messages.len(), 3);
    assert_eq!(session.lane.departure(), None);
    let moved = session
        .happened()
        .into_iter()
        .find_map(|event| match event {
            EventKind::NavigationEnd { tip, .. } => Some(tip),
            _ => None,
        });
    assert_eq!(moved, Some(Some(from)));
    session.turn("four").await;
    assert_eq!(session.outline().len(), 6, "it departs once");
}

#[tokio::test(start_paused = true)]
async fn a_move_and_a_second_thought_take_the_departure_back_and_a_run_refuses_one() {
    let place = Place::new();
    let model = Model::new(|request, _| match last_words(request).as_str() {
        "five" => vec![Act::Hang],
        _ => says("re"),
    });
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let (cx, lane) = (&session.cx, &session.lane);
    lane.set_departure(cx, departing(None)).await.unwrap();
    lane.set_departure(cx, None).await.unwrap();
    session.turn("three").await;
    assert_eq!(session.outline().len(), 6);
    lane.set_departure(cx, departing(None)).await.unwrap();
    go(&session, to(Some(&session.entries()[3].id))).await;
    assert_eq!(lane.departure(), None);
    session.turn("four").await;
    assert_eq!(session.outline().len(), 6);
    let unknown = lane.set_departure(cx, departing(Some(&EntryId::new("nowhere"))));
    assert!(matches!(unknown.await, Err(NavigateError::Unknown { .. })));
    lane.prompt(cx, prompt_request("five", "five"))
        .await
        .unwrap();
    let busy = lane.set_departure(cx, departing(None)).await;
    assert!(matches!(busy, Err(NavigateError::Busy { .. })), "{busy:?}");
}
