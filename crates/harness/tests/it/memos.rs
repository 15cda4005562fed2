//! What calls note, and when it goes.

use std::sync::{Arc, Mutex};

use bezel_harness::{EventKind, ToolRegistration};
use bezel_session_types::{MemoError, ToolHost, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Model, Place, Session, TestTool, call, calls, registration, says};

fn two_steps() -> Arc<Model> {
    Model::scripted([calls([call("a", "safe", json!({ "n": 1 }))]), says("Done.")])
}

fn memo_keys(session: &Session) -> Vec<String> {
    session.store.read(|queries| queries.keys("memo/")).unwrap()
}

async fn started(session: &mut Session) {
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn b29_a_replayed_call_finds_its_id_its_arguments_and_its_memos() {
    let place = Place::new();
    let model = two_steps();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tool = |ends: bool| -> Vec<ToolRegistration> {
        let seen = Arc::clone(&seen);
        let tool = TestTool::new(move |_, invocation| {
            let noted = invocation.host.memo("step").unwrap();
            seen.lock().unwrap().push((
                invocation.invocation_id.clone(),
                invocation.arguments.to_string(),
                noted,
            ));
            invocation
                .host
                .set_memo("step", Some(&json!("done once")))
                .unwrap();
            async move {
                if !ends {
                    std::future::pending::<()>().await;
                }
                Ok(ToolOutput::text("ok"))
            }
        });
        vec![registration("safe", tool.replay_safe())]
    };
    let mut session = place.open(&model, tool(false));
    session.prompt("do it").await;
    started(&mut session).await;
    // The tool notes in the poll that follows.
    while memo_keys(&session).is_empty() {
        tokio::task::yield_now().await;
    }
    session.kill().await;

    let session = place.open(&model, tool(true));
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].2, None);
    assert_eq!(seen[1].2, Some(json!("done once")));
    assert_eq!((&seen[0].0, &seen[0].1), (&seen[1].0, &seen[1].1));
    assert_eq!(memo_keys(&session), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn b30_staging_a_result_removes_the_calls_memos_in_the_same_commit() {
    // Whatever the last commit was: a call has its result, or its memos, and never both.
    let mut both_seen = [false; 2];
    for stop in 0..20 {
        let place = Place::new();
        let tools = || {
            let noting = || {
                TestTool::new(|_, invocation| async move {
                    invocation
                        .host
                        .set_memo("one", Some(&json!(1)))
                        .unwrap_or_default();
                    invocation
                        .host
                        .set_memo("two", Some(&json!(2)))
                        .unwrap_or_default();
                    Ok(ToolOutput::text("ok"))
                })
            };
            vec![
                registration("safe", noting().replay_safe()),
                registration("once", noting()),
            ]
        };
        let model = Model::scripted([
            calls([call("a", "once", json!({})), call("b", "safe", json!({}))]),
            says("Done."),
        ]);
        let session = place.open(&model, tools());
        session.store.stop_after(stop);
        let request = crate::support::prompt_request("command", "do it");
        if session.lane.prompt(&session.cx, request).await.is_ok() {
            session.idle().await;
        }
        session.kill().await;
        let store = bezel_store::Store::open(place.database()).unwrap();
        store
            .read(|queries| {
                let staged = queries.keys("staged/")?;
                for key in queries.keys("memo/")? {
                    both_seen[0] = true;
                    let invocation = key.split(':').nth(1).unwrap();
                    assert!(
                        !staged.contains(&format!("staged/{invocation}")),
                        "after {stop}"
                    );
                    let entry = bezel_session_types::EntryId::new(invocation);
                    assert_eq!(queries.entry(&entry)?, None, "after {stop}");
                }
                both_seen[1] |= !staged.is_empty() || queries.count()? > 2;
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(both_seen, [true, true], "some stops are between the two");
}

#[tokio::test(start_paused = true)]
async fn b31_a_memo_is_refused_once_the_call_has_settled_and_while_another_runs() {
    let place = Place::new();
    let hosts: Arc<Mutex<Vec<Arc<dyn ToolHost>>>> = Arc::default();
    let gate = Arc::new(Notify::new());
    let (kept, opened) = (Arc::clone(&hosts), Arc::clone(&gate));
    let tool = TestTool::new(move |_, invocation| {
        let number = {
            let mut kept = kept.lock().unwrap();
            kept.push(Arc::clone(&invocation.host));
            kept.len()
        };
        let opened = Arc::clone(&opened);
        async move {
            invocation
                .host
                .set_memo("mine", Some(&json!(number)))
                .unwrap();
            if number == 2 {
                opened.notified().await;
            }
            assert_eq!(invocation.host.memo("mine").unwrap(), Some(json!(number)));
            Ok(ToolOutput::text("ok"))
        }
    });
    let model = Model::scripted([
        calls([call("a", "safe", json!({}))]),
        calls([call("b", "safe", json!({}))]),
        says("Done."),
    ]);
    let mut session = place.open(&model, vec![registration("safe", tool.replay_safe())]);
    session.prompt("do it").await;
    started(&mut session).await;
    started(&mut session).await;
    while hosts.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    // The second call runs; the first call's capability writes nothing, least of all into it.
    let first = Arc::clone(&hosts.lock().unwrap()[0]);
    let refused = first.set_memo("mine", Some(&json!("stolen"))).unwrap_err();
    assert!(matches!(refused, MemoError::Settled { .. }), "{refused}");
    assert!(matches!(first.memo("mine"), Err(MemoError::Settled { .. })));
    assert!(matches!(
        first.set_memo("mine", None),
        Err(MemoError::Settled { .. })
    ));
    gate.notify_one();
    session.idle().await;
    let second = Arc::clone(&hosts.lock().unwrap()[1]);
    assert!(matches!(
        second.memo("mine"),
        Err(MemoError::Settled { .. })
    ));
    assert_eq!(memo_keys(&session), Vec::<String>::new());
    assert!(session.results().iter().all(|result| !result.is_error));
}

#[tokio::test(start_paused = true)]
async fn a_memos_name_has_a_character_and_no_colon_and_null_is_not_nothing() {
    let place = Place::new();
    let tool = TestTool::new(|_, invocation| async move {
        let host = &invocation.host;
        for name in ["", "a:b", ":request", ":"] {
            assert!(matches!(host.memo(name), Err(MemoError::Name { .. })));
            let refused = host.set_memo(name, Some(&json!(1)));
            assert!(matches!(refused, Err(MemoError::Name { .. })));
        }
        host.set_memo("a", Some(&Value::Null)).unwrap();
        assert_eq!(host.memo("a").unwrap(), Some(Value::Null));
        host.set_memo("a", None).unwrap();
        assert_eq!(host.memo("a").unwrap(), None);
        Ok(ToolOutput::text("ok"))
    });
    let session = place.open(&two_steps(), vec![registration("safe", tool)]);
    session.turn("do it").await;
    assert!(!session.results()[0].is_error, "{:?}", session.results());
}
