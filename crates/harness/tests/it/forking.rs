//! Copying a session, or one path of it, into a new one.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_harness::{
    ForkError, ForkRequest, ForkScope, HarnessConfig, NavigateRequest, PromptRequest,
};
use bezel_session_types::{EntryId, LaneName, RunState};
use bezel_store::{Reader, Store};

use crate::support::{Act, Model, Place, Session, model_spec, prompt_request, says, text};

async fn branched(place: &Place, model: &Arc<Model>) -> Session {
    let session = place.open(model, vec![]);
    session.turn("one").await;
    session.turn("two").await;
    let entries = session.entries();
    let request = NavigateRequest {
        target: Some(entries[1].id.clone()),
        ..NavigateRequest::default()
    };
    session.lane.navigate(&session.cx, request).await.unwrap();
    session.idle().await;
    session.turn("three").await;
    let tree = session.harness.tree();
    for (index, label) in [(0, "begin"), (3, "left")] {
        let entry = &entries[index].id;
        tree.set_label(&session.cx, entry, Some(label)).unwrap();
    }
    session
}

fn into(place: &Place, name: &str) -> PathBuf {
    place.directory.path().join(name)
}

async fn fork(session: &Session, at: Option<EntryId>, scope: ForkScope, into: PathBuf) -> u64 {
    let request = ForkRequest { at, scope, into };
    session.harness.fork(request).await.unwrap()
}

fn open(place: &Place, model: &Arc<Model>, name: &str) -> Session {
    Session::open_at(
        &into(place, name),
        place.directory.path(),
        model,
        vec![],
        model_spec(),
        HarnessConfig::default(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_one_path_has_its_entries_and_labels_and_nothing_else() {
    let place = Place::new();
    let model = Model::new(|_, _| says("fine"));
    let session = branched(&place, &model).await;
    assert_eq!(
        fork(&session, None, ForkScope::Path, into(&place, "fork.db")).await,
        4
    );
    let forked = open(&place, &model, "fork.db");
    assert_eq!(
        forked.entries(),
        session.entries(),
        "ids, parents and times are kept"
    );
    let labels = forked.harness.tree().labels().unwrap();
    assert_eq!(labels.values().collect::<Vec<_>>(), ["begin"]);
    assert_eq!(forked.harness.tree().all(None, 100).unwrap().len(), 4);
    assert_eq!(forked.harness.usage().unwrap().requests, 0);
    assert_eq!(forked.lane.last_outcome().unwrap(), None);
    let origin = forked.harness.origin().unwrap().unwrap();
    assert_eq!(origin.session_id, *session.harness.session_id());
    assert_eq!(
        Some(&origin.entry),
        session.entries().last().map(|entry| &entry.id)
    );
    // It goes on by itself, and the source knows nothing of that.
    forked.turn("four").await;
    assert_eq!(forked.outline()[4..], ["user: four", "answer: fine"]);
    assert_eq!(session.outline().len(), 4);
    assert!(session.harness.origin().unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_the_whole_tree_has_every_branch_and_begins_where_it_is_told() {
    let place = Place::new();
    let model = Model::new(|_, _| says("fine"));
    let session = branched(&place, &model).await;
    let all = session.harness.tree().all(None, 100).unwrap();
    let at = all[3].id.clone();
    assert_eq!(
        fork(&session, Some(at), ForkScope::Tree, into(&place, "fork.db")).await,
        6
    );
    let forked = open(&place, &model, "fork.db");
    assert_eq!(forked.harness.tree().all(None, 100).unwrap(), all);
    assert_eq!(forked.outline()[2..], ["user: two", "answer: fine"]);
    assert_eq!(forked.harness.tree().labels().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_session_that_runs_is_idle_and_takes_no_waiting_message_or_receipt() {
    let place = Place::new();
    let model = Model::new(|_, _| vec![text("so"), Act::Hang]);
    let session = place.open(&model, vec![]);
    session.prompt("one").await;
    session.queue("waits").await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    fork(&session, None, ForkScope::Tree, into(&place, "fork.db")).await;
    let forked = open(&place, &Model::new(|_, _| says("fine")), "fork.db");
    assert!(
        forked.harness.opened().is_empty(),
        "{:?}",
        forked.harness.opened()
    );
    assert_eq!(forked.lane.state(), RunState::Idle);
    assert_eq!(forked.outline(), ["user: one"]);
    // Ids that the source has receipts for are free here.
    let again = PromptRequest {
        ..prompt_request("command of one", "something else")
    };
    forked.lane.prompt(&forked.cx, again).await.unwrap();
    forked.idle().await;
    assert_eq!(forked.outline().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_entry_an_empty_session_and_a_place_that_is_taken_leave_no_file() {
    let place = Place::new();
    let model = Model::new(|_, _| says("fine"));
    let session = place.open(&model, vec![]);
    let request = |at: Option<EntryId>| ForkRequest {
        at,
        scope: ForkScope::Path,
        into: into(&place, "fork.db"),
    };
    let nothing = session.harness.fork(request(None)).await;
    assert!(matches!(nothing, Err(ForkError::Nothing)), "{nothing:?}");
    session.turn("one").await;
    for scope in [ForkScope::Path, ForkScope::Tree] {
        let unknown = ForkRequest {
            scope,
            ..request(Some(EntryId::new("nowhere")))
        };
        let unknown = session.harness.fork(unknown).await.unwrap_err();
        assert!(unknown.to_string().contains("nowhere"), "{unknown}");
        assert!(!into(&place, "fork.db").exists());
    }
    session.harness.fork(request(None)).await.unwrap();
    let before = std::fs::read(into(&place, "fork.db")).unwrap();
    let taken = session.harness.fork(request(None)).await.unwrap_err();
    assert!(
        matches!(taken, ForkError::Store(bezel_store::ForkError::Io { .. })),
        "{taken}"
    );
    assert_eq!(std::fs::read(into(&place, "fork.db")).unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_died_at_any_commit_forks_into_a_whole_session() {
    let model = || Model::new(|_, _| says("fine"));
    let whole = {
        let place = Place::new();
        branched(&place, &model()).await.store.commits()
    };
    for stop in 1..=whole {
        let place = Place::new();
        let session = place.open(&model(), vec![]);
        session.store.stop_after(stop);
        session
            .lane
            .prompt(&session.cx, prompt_request("a", "one"))
            .await
            .ok();
        session.idle().await;
        session
            .lane
            .prompt(&session.cx, prompt_request("b", "two"))
            .await
            .ok();
        session.idle().await;
        let Some(tip) = session.harness.tree().leaf(&LaneName::main()) else {
            continue;
        };
        fork(
            &session,
            Some(tip),
            ForkScope::Tree,
            into(&place, "fork.db"),
        )
        .await;
        let reader = Reader::open(into(&place, "fork.db")).unwrap();
        let problems = reader.read(|queries| queries.check()).unwrap();
        assert!(problems.is_empty(), "after {stop}: {problems:?}");
        drop(reader);
        drop(Store::open(into(&place, "fork.db")).unwrap());
        let forked = open(&place, &model(), "fork.db");
        forked.turn("more").await;
        assert_eq!(
            forked.outline().last().map(String::as_str),
            Some("answer: fine")
        );
    }
}
