//! Hooks around the life of a session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet};
use bezel_testkit::{Script, ScriptedProvider, Step, Turn};
use tokio::time::Instant;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::world::Place;

type Log = Arc<Mutex<Vec<String>>>;

/// A plugin that notes the start and the end, and how often the model had been asked by then.
fn noting(plugin: &'static str, log: &Log, model: &ScriptedProvider) -> SessionFacet {
    let (log, model) = (Arc::clone(log), model.clone());
    Facet::new(plugin, move |cx: SessionContext| {
        let (log, model) = (Arc::clone(&log), model.clone());
        let note = move |what: String| {
            let asked = model.requests().len();
            log.lock()
                .unwrap()
                .push(format!("{plugin}: {what}, {asked} asked"));
        };
        let activated = note.clone();
        cx.on_activate(move || async move {
            activated("activated".into());
            Ok(())
        });
        let ended = note.clone();
        cx.on_dispose(move || async move {
            ended("disposed".into());
            Ok(())
        });
        let (starts, ends) = (note.clone(), note);
        cx.agent.hooks().session_start(move |_, start| {
            starts(format!("{:?}", start.found));
            async { Ok(()) }
        });
        cx.agent.hooks().session_end(move |_| {
            ends("ended".into());
            async { Ok(()) }
        });
        async { Ok::<(), FacetError>(()) }
    })
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn slow() -> ScriptedProvider {
    ScriptedProvider::new(Script::respond(|_| {
        Turn::steps([
            Step::delay(Duration::from_secs(1)),
            Step::Text("Done.".into()),
        ])
    }))
}

#[tokio::test(start_paused = true)]
async fn the_start_says_what_there_was_and_comes_before_anything_goes_on() {
    let (place, log, model) = (Place::new(), Log::default(), slow());
    let facets = || vec![noting("a", &log, &model), noting("b", &log, &model)];
    let session = place.open_facets(&model, facets()).await;
    let expected = [
        "a: activated, 0 asked",
        "b: activated, 0 asked",
        "a: New, 0 asked",
        "b: New, 0 asked",
    ];
    assert_eq!(taken(&log), expected);
    session.turn("one").await;
    session.dies().await;
    let ended = [
        "a: ended, 1 asked",
        "b: ended, 1 asked",
        "b: disposed, 1 asked",
        "a: disposed, 1 asked",
    ];
    assert_eq!(taken(&log), ended);

    let session = place.open_facets(&model, facets()).await;
    assert_eq!(
        taken(&log)[2..],
        ["a: Reopened, 1 asked", "b: Reopened, 1 asked"]
    );
    session.steer("two").await;
    session.dies().await;
    taken(&log);
    // What was admitted goes on, and not before the hooks have run.
    let before = model.requests().len();
    let session = place.open_facets(&model, facets()).await;
    let resumed = format!("a: Resumed, {before} asked");
    assert_eq!(taken(&log)[2], resumed);
    session.idle().await;
    assert_eq!(session.said().await.last().unwrap(), "Done.");
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_session_starts_and_ends_by_itself() {
    let (place, log, model) = (Place::new(), Log::default(), slow());
    let parent = place.open(&model).await;
    let child = place
        .open_child(
            &parent,
            &model,
            vec![noting("a", &log, &model)],
            BTreeMap::new(),
        )
        .await;
    child.dies().await;
    let expected = [
        "a: activated, 0 asked",
        "a: New, 0 asked",
        "a: ended, 0 asked",
        "a: disposed, 0 asked",
    ];
    assert_eq!(taken(&log), expected);
    parent.dies().await;
}

/// What a hook that does not do its part does.
#[derive(Clone, Copy)]
enum Fault {
    Fails,
    Hangs,
    Panics,
}

fn faulty(plugin: &'static str, fault: Fault) -> SessionFacet {
    Facet::new(plugin, move |cx: SessionContext| {
        let act = move || async move {
            match fault {
                Fault::Fails => Err(FacetError::from("lost the notes")),
                Fault::Hangs => std::future::pending().await,
                Fault::Panics => panic!("a bug"),
            }
        };
        cx.agent.hooks().session_start(move |_, _| act());
        cx.agent.hooks().session_end(move |_| act());
        async { Ok::<(), FacetError>(()) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_hangs_or_panics_is_named_and_the_others_run() {
    let (place, log, model) = (Place::new(), Log::default(), slow());
    let facets = vec![
        faulty("failing", Fault::Fails),
        faulty("hanging", Fault::Hangs),
        faulty("panicking", Fault::Panics),
        noting("last", &log, &model),
    ];
    let file = place.directory().join("log");
    let told = Arc::new(std::fs::File::create(&file).unwrap());
    let subscriber = tracing_subscriber::fmt().with_writer(told);
    let listens = subscriber.with_ansi(false).set_default();
    let began = Instant::now();
    let session = place.open_facets(&model, facets).await;
    drop(listens);
    assert_eq!(
        began.elapsed(),
        Duration::from_secs(10),
        "a hang costs its deadline and no more"
    );
    let told = std::fs::read_to_string(&file).unwrap();
    let expected = [
        r#"plugin=failing hook="session_start" lost the notes"#,
        r#"plugin=hanging hook="session_start" it did not answer within 10s"#,
        r#"plugin=panicking hook="session_start" it panicked"#,
    ];
    for failure in expected {
        assert!(told.contains(failure), "{told}");
    }
    assert!(taken(&log).contains(&"last: New, 0 asked".to_owned()));
    session.turn("one").await;
    drop((session.agent, session.lane));
    let failures = session.host.stop().await;
    let named: Vec<&str> = failures.iter().map(|failure| &*failure.unit).collect();
    assert_eq!(named, ["failing", "hanging", "panicking"]);
    assert!(taken(&log).contains(&"last: ended, 1 asked".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_hooks_of_a_plugin_that_was_removed_are_not_called() {
    let (place, log, model) = (Place::new(), Log::default(), slow());
    let mut session = place
        .open_facets(&model, vec![noting("a", &log, &model)])
        .await;
    session.host.remove("a").await;
    taken(&log);
    session.dies().await;
    assert!(taken(&log).is_empty());
}
