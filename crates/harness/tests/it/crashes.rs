//! A session that stops: at every commit, in every step, and on a full disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_harness::{EventKind, PromptError, ResumeError, ToolRegistration};
use bezel_session_types::{
    EntryBody, Message, ModelRequest, ProviderErrorKind, RunOutcome, StopReason, ToolOutput,
};
use serde_json::json;

use crate::support::{
    Act, Model, Place, Session, TestTool, call, calls, end, fails, outline, prompt_request,
    registration, says, text, text_of,
};

/// Real effects, by call, as the world sees them.
type Effects = Arc<Mutex<BTreeMap<String, usize>>>;

fn effect(effects: &Effects) -> TestTool {
    let effects = Arc::clone(effects);
    TestTool::new(move |_, invocation| {
        let effects = Arc::clone(&effects);
        async move {
            *effects
                .lock()
                .unwrap()
                .entry(invocation.invocation_id.to_string())
                .or_default() += 1;
            Ok(ToolOutput::text(invocation.arguments.to_string()))
        }
    })
}

fn tools(unsafe_effects: &Effects, safe_effects: &Effects) -> Vec<ToolRegistration> {
    vec![
        registration("once", effect(unsafe_effects)),
        registration("safe", effect(safe_effects).replay_safe()),
    ]
}

/// Answers by what the conversation holds, so that it does the same after any crash: one transient
/// failure, three calls, a step with one more, then a summary of it all.
fn scripted(failed: &Arc<Mutex<bool>>) -> Arc<Model> {
    let failed = Arc::clone(failed);
    Model::new(move |request, _| {
        let results = |request: &ModelRequest| {
            request
                .messages
                .iter()
                .filter(|message| matches!(***message, Message::ToolResult(_)))
                .count()
        };
        match results(request) {
            _ if request.system.contains("summarise") => says("Summary."),
            0 if !std::mem::replace(&mut *failed.lock().unwrap(), true) => {
                fails(ProviderErrorKind::Overloaded)
            }
            0 => vec![
                text("Let me "),
                Act::Wait(Duration::from_millis(1_500)),
                text("look."),
                call("a", "once", json!({ "n": 1 })),
                call("b", "safe", json!({ "n": 2 })),
                call("c", "once", json!({ "n": 3 })),
                end(StopReason::ToolUse),
            ],
            3 => calls([call("d", "safe", json!({ "n": 4 }))]),
            _ => says("Done."),
        }
    })
}

/// Brings the session to the end of its script from wherever it is: what a person would do.
async fn go_on(session: &Session) -> Result<(), ()> {
    match session.lane.resume(&session.cx).await {
        Ok(_) => session.idle().await,
        Err(ResumeError::Storage(_)) => return Err(()),
        Err(error) => panic!("{error}"),
    }
    match session
        .lane
        .prompt(&session.cx, prompt_request("the command", "do it"))
        .await
    {
        Ok(_) => session.idle().await,
        Err(PromptError::Storage(_)) => return Err(()),
        Err(error) => panic!("{error}"),
    }
    let compacted = session
        .entries()
        .iter()
        .any(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    if !compacted
        && session
            .outline()
            .last()
            .is_some_and(|line| line == "answer: Done.")
    {
        session
            .lane
            .compact(&session.cx, None)
            .await
            .map_err(|_| ())?;
        session.idle().await;
    }
    Ok(())
}

/// The outline with what the policy allows a crash to change taken out: text of a request that was
/// out, and the result of a call that may have run.
fn settled(session: &Session) -> Vec<String> {
    let lines = outline(&session.entries()).into_iter();
    lines
        .filter(|line| !line.starts_with("answer (error)"))
        .map(|line| match line.strip_prefix("result (error) of ") {
            Some(rest) if rest.contains("the session ended while this call ran") => {
                let id = &rest[..1];
                assert!(
                    id == "a" || id == "c",
                    "a replay-safe call was interrupted: {line}"
                );
                let n = if id == "a" { 1 } else { 3 };
                format!(r#"result of {id}: {{"n":{n}}}"#)
            }
            _ => line,
        })
        .collect()
}

const WHOLE: [&str; 8] = [
    "user: do it",
    "answer: Let me look.a b c",
    r#"result of a: {"n":1}"#,
    r#"result of b: {"n":2}"#,
    r#"result of c: {"n":3}"#,
    "answer: d",
    r#"result of d: {"n":4}"#,
    "answer: Done.",
];

async fn commits_of_a_whole_run() -> u64 {
    let place = Place::new();
    let (once, safe) = (Effects::default(), Effects::default());
    let session = place.open(&scripted(&Arc::default()), tools(&once, &safe));
    go_on(&session).await.unwrap();
    assert_eq!(session.outline()[..8], WHOLE);
    assert_eq!(session.outline()[8..], ["compaction: Summary."]);
    session.store.commits()
}

/// Dies after each number of commits in turn, and again that many commits later, and goes on.
async fn dies_after(stops: &[u64]) {
    let place = Place::new();
    let (once, safe) = (Effects::default(), Effects::default());
    let model = scripted(&Arc::default());
    for stop in stops {
        let session = place.open(&model, tools(&once, &safe));
        session.store.stop_after(*stop);
        // It is cut short wherever the store stopped.
        go_on(&session).await.ok();
        session.kill().await;
    }
    let session = place.open(&model, tools(&once, &safe));
    go_on(&session).await.unwrap();
    let found = settled(&session);
    assert_eq!(found[..8], WHOLE, "after {stops:?}");
    assert_eq!(found[8..], ["compaction: Summary."], "after {stops:?}");
    for (invocation, times) in &*once.lock().unwrap() {
        assert_eq!(
            *times, 1,
            "{invocation} had its effect {times} times after {stops:?}"
        );
        // What took effect is known of, one way or the other.
        let result = session
            .results()
            .into_iter()
            .find(|result| result.invocation_id.as_str() == invocation);
        assert!(result.is_some());
    }
    let left = session.store.read(|queries| {
        let mut left = queries.keys("staged/")?;
        left.extend(queries.keys("partial/")?);
        left.extend(queries.keys("arguments/")?);
        left.extend(queries.keys("operation/")?);
        Ok(left)
    });
    assert!(
        left.as_ref().is_ok_and(Vec::is_empty),
        "left behind after {stops:?}: {left:?}"
    );
    let outcome = session.lane.last_outcome().unwrap().unwrap();
    assert_eq!(outcome.outcome, RunOutcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn b26_no_effect_starts_before_its_intent_is_in_the_database() {
    let place = Place::new();
    let read = |database: &std::path::Path| {
        let reader = bezel_store::Reader::open(database).unwrap();
        let operations = reader.read(|queries| queries.values("operation/"));
        format!("{:?}", operations.unwrap())
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (database, note) = (place.database(), Arc::clone(&seen));
    let watched = move || {
        let (database, note) = (database.clone(), Arc::clone(&note));
        TestTool::new(move |_, invocation| {
            // What another process would find, if this one died here.
            let found = read(&database);
            let id = invocation.invocation_id.as_str();
            let intended = found.contains(id) && found.contains("effect_pending");
            note.lock().unwrap().push((id.to_owned(), intended, found));
            async { Ok(ToolOutput::text("done")) }
        })
    };
    let (database, asked) = (place.database(), Arc::new(Mutex::new(Vec::new())));
    let note = Arc::clone(&asked);
    let model = Model::new(move |_, index| {
        note.lock().unwrap().push(read(&database));
        match index {
            0 => calls([call("a", "unsafe", json!({})), call("b", "safe", json!({}))]),
            _ => says("Done."),
        }
    });
    let tools = vec![
        registration("unsafe", watched()),
        registration("safe", watched().replay_safe()),
    ];
    let session = place.open(&model, tools);
    session.turn("do it").await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    for (id, intended, found) in seen.iter() {
        assert!(intended, "{id}: {found}");
    }
    for found in asked.lock().unwrap().iter() {
        assert!(found.contains("operation/"), "{found}");
    }
}

#[tokio::test(start_paused = true)]
async fn b27_a_session_that_dies_after_any_commit_ends_as_if_it_had_not() {
    let whole = commits_of_a_whole_run().await;
    assert!(whole >= 14, "the script is worth it: {whole} commits");
    for stop in 0..=whole {
        dies_after(&[stop]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_dies_again_while_it_is_taken_up_ends_as_if_it_had_not() {
    let whole = commits_of_a_whole_run().await;
    for first in 0..=whole {
        for second in [0, 1, 3] {
            dies_after(&[first, second]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn observers_of_a_session_taken_up_hear_how_every_call_of_the_step_ended() {
    let place = Place::new();
    let model = Model::scripted([
        calls([
            call("a", "hang", json!({})),
            call("b", "quick", json!({ "n": 1 })),
        ]),
        says("Done."),
    ]);
    let tools = || {
        let hang = TestTool::new(|_, _| std::future::pending());
        vec![
            registration("hang", hang),
            registration("quick", TestTool::echo()),
        ]
    };
    let mut session = place.open(&model, tools());
    session.prompt("hello").await;
    let ended = |event: &EventKind| match event {
        EventKind::ToolEnd { result, .. } => Some(result.call_id.clone()),
        _ => None,
    };
    // `b` has its result, and `a`, which comes before it, has none.
    assert_eq!(session.event(ended).await, "b");
    session.kill().await;

    let mut session = place.open(&model, tools());
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    let mut ends: Vec<_> = session.happened().iter().filter_map(ended).collect();
    ends.sort();
    assert_eq!(ends, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_interrupted_answer_is_kept_for_people_and_not_for_the_model() {
    let place = Place::new();
    let model = Model::scripted([
        vec![
            text("I think "),
            Act::Wait(Duration::from_secs(2)),
            text("that"),
            Act::Hang,
        ],
        says("Whole."),
    ]);
    let session = place.open(&model, vec![]);
    session.prompt("hello").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    session.kill().await;
    let session = place.open(&model, vec![]);
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(
        session.outline(),
        [
            "user: hello",
            "answer (error): I think that",
            "answer: Whole."
        ]
    );
    assert!(
        session.answers()[0]
            .error
            .as_ref()
            .unwrap()
            .contains("interrupted")
    );
    assert_eq!(model.request(1).messages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn b29_a_replay_safe_tool_runs_again_with_the_same_id_and_the_approved_arguments() {
    let place = Place::new();
    let model = Model::scripted([calls([call("a", "safe", json!({ "n": 1 }))]), says("Done.")]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tools = |hang: bool| {
        let seen = Arc::clone(&seen);
        let tool = TestTool::new(move |_, invocation| {
            let arguments = invocation.arguments.to_string();
            seen.lock()
                .unwrap()
                .push((invocation.invocation_id.clone(), arguments.clone()));
            async move {
                if hang {
                    std::future::pending::<()>().await;
                }
                Ok(ToolOutput::text(arguments))
            }
        });
        vec![registration("safe", tool.replay_safe())]
    };
    let mut session = place.open(&model, tools(true));
    let guard = session
        .harness
        .hooks()
        .before_tool("changer", |_, _| async {
            Ok(bezel_harness::ToolVerdict::Replace(json!({ "n": 2 })))
        });
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
        .await;
    drop(guard);
    session.kill().await;
    let session = place.open(&model, tools(false));
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert_eq!(
        session.outline()[2..],
        [r#"result of a: {"n":2}"#, "answer: Done."]
    );
}

#[tokio::test(start_paused = true)]
async fn b29_opencode_38_a_tool_that_was_or_is_not_safe_or_is_gone_is_not_run_again() {
    let safe = |tool: TestTool| registration("tool", tool.replay_safe());
    let unsafe_now = |tool: TestTool| registration("tool", tool);
    type Registered<'a> = &'a dyn Fn(TestTool) -> ToolRegistration;
    let cases: [(Registered<'_>, Option<Registered<'_>>); 3] = [
        (&safe, Some(&unsafe_now)),
        (&unsafe_now, Some(&safe)),
        (&safe, None),
    ];
    for (then, now) in cases {
        let place = Place::new();
        let model = Model::scripted([calls([call("a", "tool", json!({}))]), says("Done.")]);
        let hanging = TestTool::new(|_, _| std::future::pending());
        let mut session = place.open(&model, vec![then(hanging)]);
        session.prompt("do it").await;
        session
            .event(|event| matches!(event, EventKind::ToolStart { .. }).then_some(()))
            .await;
        session.kill().await;
        let tools = now.map(|now| now(TestTool::echo()));
        let session = place.open(&model, tools.into_iter().collect());
        session.lane.resume(&session.cx).await.unwrap();
        session.idle().await;
        let result = &session.results()[0];
        assert!(
            result.is_error && text_of(&result.content).contains("Look before"),
            "{result:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn opencode_38_a_run_that_ends_its_process_each_time_is_given_up_with_a_reason() {
    let place = Place::new();
    let model = Model::scripted([calls([
        call("a", "killer", json!({})),
        call("b", "killer", json!({})),
    ])]);
    let killer = || {
        let tool = TestTool::new(|_, _| std::future::pending());
        vec![registration("killer", tool.replay_safe().sequential())]
    };
    let mut session = place.open(&model, killer());
    session.prompt("do it").await;
    let mut pass = 0;
    let outcome = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        session.kill().await;
        pass += 1;
        assert!(pass < 20, "it is never given up");
        session = place.open(&model, killer());
        session.lane.resume(&session.cx).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if session.lane.state().is_idle() {
            break session.lane.last_outcome().unwrap().unwrap().outcome;
        }
    };
    assert_eq!(pass, 11);
    let RunOutcome::Failed { code, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(code, "run.recoveries");
    assert!(message.contains("10 times"), "{message}");
    assert_eq!(session.results().len(), 2, "every call has its result");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_stops_the_run_with_a_clear_event_and_it_goes_on_when_there_is_room() {
    let place = Place::new();
    let large = "x".repeat(40 * 1024);
    let model = Model::scripted([
        calls([call("a", "large", json!({})), call("b", "small", json!({}))]),
        says("Done."),
    ]);
    let (runs, gate) = (Effects::default(), Arc::new(tokio::sync::Notify::new()));
    let (counted, held, output) = (Arc::clone(&runs), Arc::clone(&gate), large.clone());
    let tool = TestTool::new(move |_, invocation| {
        let (counted, held, output) = (Arc::clone(&counted), Arc::clone(&held), output.clone());
        async move {
            *counted
                .lock()
                .unwrap()
                .entry(invocation.invocation_id.to_string())
                .or_default() += 1;
            held.notified().await;
            Ok(ToolOutput::text(output))
        }
    });
    let tools = vec![
        registration("large", tool),
        registration("small", TestTool::echo()),
    ];
    let mut session = place.open(&model, tools);
    session.prompt("do it").await;
    session
        .event(|event| matches!(event, EventKind::ToolEnd { .. }).then_some(()))
        .await;
    session.store.limit_growth(2).unwrap();
    gate.notify_one();
    let message = session
        .event(|event| match event {
            EventKind::Fault { message, .. } => Some(message.clone()),
            _ => None,
        })
        .await;
    assert!(message.contains("disk is full"), "{message}");
    session.idle().await;
    assert_eq!(session.outline().len(), 2);
    session.store.limit_growth(1 << 20).unwrap();
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    let outline = session.outline();
    // It ran, and this process knows what came of it.
    assert_eq!(outline[2], format!("result of a: {large}"));
    assert_eq!(outline[3..], ["result of b: {}", "answer: Done."]);
    assert_eq!(
        runs.lock().unwrap().values().copied().collect::<Vec<_>>(),
        [1]
    );
}
