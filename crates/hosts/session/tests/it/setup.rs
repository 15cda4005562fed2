//! What a facet may do with sessions while it is being set up, and from when on it may do the rest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet, Sessions, SessionsError};
use bezel_context::Context;
use bezel_rewind_contract::StageRequest;
use bezel_session_types::{CommandId, Delivery, EntryId, OperationId, SessionId, UserMessage};
use bezel_sessions_contract::ForkRequest;
use tokio::time::Instant;

use crate::tree_world::Hosts;

type Found = Arc<Mutex<Vec<String>>>;

/// Everything that acts on one session, by its name, and what it came to.
async fn act(
    sessions: &Sessions,
    id: &SessionId,
) -> Vec<(&'static str, Result<(), SessionsError>)> {
    let cx = Context::background();
    let (command, message) = (CommandId::new("c"), UserMessage::text("Hello."));
    let to = StageRequest {
        message: EntryId::new("m"),
        reach: Default::default(),
        force: false,
    };
    let operation = OperationId::new("o");
    let prompted = sessions.prompt(&cx, id, command.clone(), message.clone(), Delivery::Steer);
    let prompted = prompted.await.map(drop);
    let recorded = sessions.record(&cx, id, command, message, Delivery::Steer);
    let recorded = recorded.await.map(drop);
    vec![
        ("prompt", prompted),
        ("record", recorded),
        ("resume", sessions.resume(&cx, id).await.map(drop)),
        (
            "outcome",
            sessions.outcome(&cx, id, &operation).await.map(drop),
        ),
        ("compact", sessions.compact(&cx, id, None).await.map(drop)),
        ("lane", sessions.lane(&cx, id).await.map(drop)),
        (
            "fork",
            sessions
                .fork(&cx, id, ForkRequest::default())
                .await
                .map(drop),
        ),
        (
            "rewind_stage",
            sessions.rewind_stage(&cx, id, to).await.map(drop),
        ),
        (
            "rewind_clear",
            sessions.rewind_clear(&cx, id, false).await.map(drop),
        ),
        (
            "rewind_commit",
            sessions.rewind_commit(&cx, id).await.map(drop),
        ),
    ]
}

/// Asks the server in its setup and when it is activated, and acts on its own session and on a child.
fn curious(found: &Found) -> SessionFacet {
    let found = Arc::clone(found);
    Facet::new("curious", move |cx: SessionContext| {
        let found = Arc::clone(&found);
        async move {
            look("setup", &cx.session, &found).await?;
            let sessions = cx.session.clone();
            cx.on_activate(move || async move { look("activation", &sessions, &found).await });
            Ok::<(), FacetError>(())
        }
    })
}

async fn look(when: &str, sessions: &Sessions, found: &Found) -> Result<(), FacetError> {
    let (cx, own) = (Context::background(), sessions.own().clone());
    let tree = sessions.tree(&cx).await?;
    let children = sessions.children(&cx, &own).await?;
    // Nothing runs yet: it is no wait, and nothing to end.
    sessions.wait(&cx, &own).await?;
    assert_eq!(sessions.interrupt(&cx, &own).await?, None);
    assert_eq!(sessions.final_text(&cx, &own).await?, None);
    let other = SessionId::new(if own.as_str() == "root" {
        "child"
    } else {
        "other"
    });
    for id in [&own, &other] {
        for (name, came) in act(sessions, id).await {
            let expected = SessionsError::NotActive {
                session_id: own.clone(),
            };
            assert_eq!(came, Err(expected), "{name} of {id} in {own}");
        }
    }
    let counts = format!(
        "{own}: {when}: {} in the tree, {} children",
        tree.len(),
        children.len()
    );
    found.lock().unwrap().push(counts);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn opencode_04_a_setup_awaits_what_it_asks_of_the_server_and_is_told_at_once_what_it_cannot_do_yet()
 {
    let found = Found::default();
    let (server, hosts, tree) = Hosts::new(vec![curious(&found)]);
    let began = Instant::now();
    let root = hosts.host(tree, "root", None).await;
    server.want(&["child"], &[]);
    server.hears(1, "claim child").await;
    server.want(&[], &["child"]);
    server.hears(1, "released child").await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "no deadline was waited for"
    );
    let expected = [
        "root: setup: 2 in the tree, 1 children",
        "root: activation: 2 in the tree, 1 children",
        "child: setup: 2 in the tree, 0 children",
        "child: activation: 2 in the tree, 0 children",
    ];
    assert_eq!(*found.lock().unwrap(), expected);
    assert!(root.stop().await.is_empty());
}

/// Waits on a task until its session is active, then acts.
fn patient(done: &Found) -> SessionFacet {
    let done = Arc::clone(done);
    Facet::new("patient", move |cx: SessionContext| {
        let (done, sessions, root) = (
            Arc::clone(&done),
            cx.session.clone(),
            SessionId::new("root"),
        );
        if *cx.session.own() == root {
            cx.spawner().spawn("patient", async move {
                let cx = Context::background();
                sessions.until_active(&cx).await.unwrap();
                let child = SessionId::new("child");
                let lane = sessions.lane(&cx, &child).await.map(drop);
                let nobody = act(&sessions, &SessionId::new("elsewhere")).await;
                let mut done = done.lock().unwrap();
                done.push(format!("{lane:?}"));
                for (name, came) in nobody {
                    done.push(format!("{name}: {}", came.unwrap_err()));
                }
            });
        }
        async { Ok::<(), FacetError>(()) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_setup_waits_until_its_session_is_active_and_then_takes_children_up() {
    let done = Found::default();
    let (server, hosts, tree) = Hosts::new(vec![patient(&done)]);
    let root = hosts.host(tree, "root", None).await;
    server.hears(1, "claim child").await;
    let told = || done.lock().unwrap().clone();
    while told().is_empty() {
        tokio::task::yield_now().await;
    }
    let told = told();
    assert_eq!(told[0], "Ok(())");
    assert_eq!(told.len(), 11);
    for told in &told[1..] {
        assert!(
            told.ends_with("there is no session elsewhere within reach of this worker"),
            "{told}"
        );
    }
    assert!(root.stop().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_without_the_plugins_says_which_service_it_lacks() {
    let handed: Arc<Mutex<Option<Sessions>>> = Arc::default();
    let hand = Arc::clone(&handed);
    let facet = Facet::new("hand", move |cx: SessionContext| {
        hand.lock().unwrap().get_or_insert(cx.session.clone());
        async { Ok::<(), FacetError>(()) }
    });
    let (_server, hosts, tree) = Hosts::new(vec![facet]);
    let root = hosts.host(tree, "root", None).await;
    let sessions = handed.lock().unwrap().clone().unwrap();
    for id in ["root", "child"].map(SessionId::new) {
        let lacks = |service| {
            Err(SessionsError::Missing {
                session_id: id.clone(),
                service,
            })
        };
        let came = act(&sessions, &id).await;
        let of = |wanted: &str| {
            came.iter()
                .find(|(name, _)| *name == wanted)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(of("fork"), lacks("session-fork"));
        for name in ["rewind_stage", "rewind_clear", "rewind_commit"] {
            assert_eq!(of(name), lacks("rewind"));
        }
    }
    assert!(root.stop().await.is_empty());
}
