//! Durable requests: asked once, answered once, and neither lost by a crash.

use std::sync::{Arc, Mutex};

use bezel_context::Context;
use bezel_harness::{
    Approval, ChannelId, EventKind, RequestChannel, SubmitError, ToolSet, WaitError,
};
use bezel_session_types::{InvocationId, SubmitOutcome, ToolError, ToolOutput};
use futures::future::join_all;
use serde_json::json;

use crate::support::{Model, Place, Session, TestTool, call, calls, registration, says};

/// How often the asking tool was executed.
pub type Runs = Arc<Mutex<Vec<InvocationId>>>;

pub fn channel(session: &Session) -> RequestChannel {
    let response = json!({ "type": "object", "required": ["answer"] });
    session
        .harness
        .requests(
            ChannelId::new("asking", "questions"),
            &json!({ "type": "object" }),
            &response,
        )
        .unwrap()
}

/// A tool that asks its arguments and says the answer.
pub fn asking(channel: RequestChannel, runs: &Runs) -> TestTool {
    let runs = Arc::clone(runs);
    let tool = TestTool::new(move |cx, invocation| {
        runs.lock().unwrap().push(invocation.invocation_id.clone());
        let channel = channel.clone();
        async move {
            let asked = (*invocation.arguments).clone();
            match channel.wait(&cx, &invocation.invocation_id, asked).await {
                Ok(answer) => Ok(ToolOutput::text(answer["answer"].to_string())),
                Err(WaitError::Cancelled(_) | WaitError::NotCurrent { .. }) => {
                    Err(ToolError::Interrupted)
                }
                Err(error) => Err(ToolError::failed(error.to_string())),
            }
        }
    });
    tool.replay_safe()
}

/// A session with an asking tool `ask`.
pub fn open(place: &Place, model: &Arc<Model>, runs: &Runs) -> (Session, RequestChannel) {
    let session = place.open(model, vec![]);
    let channel = channel(&session);
    let tools = vec![
        registration("ask", asking(channel.clone(), runs)),
        registration("once", TestTool::echo()),
    ];
    session.harness.set_tools(Arc::new(ToolSet::new(tools)));
    (session, channel)
}

pub fn one_question() -> Arc<Model> {
    Model::scripted([calls([call("a", "ask", json!({ "q": 1 }))]), says("Done.")])
}

/// The one request that waits.
pub async fn asked(channel: &RequestChannel) -> InvocationId {
    let mut pending = channel.pending();
    let pending = pending
        .wait_for(|pending| !pending.is_empty())
        .await
        .unwrap();
    pending[0].id.clone()
}

pub async fn submit(channel: &RequestChannel, id: &InvocationId, answer: &str) -> SubmitOutcome {
    let answer = json!({ "answer": answer });
    channel
        .submit(&Context::background(), id, answer)
        .await
        .unwrap()
}

fn memo_keys(session: &Session) -> Vec<String> {
    session.store.read(|queries| queries.keys("memo/")).unwrap()
}

fn nothing_pending(channel: &RequestChannel) -> bool {
    channel.pending().borrow().is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_and_goes_on_with_the_answer() {
    let place = Place::new();
    let (session, channel) = open(&place, &one_question(), &Runs::default());
    session.prompt("do it").await;
    let id = asked(&channel).await;
    assert_eq!(*channel.pending().borrow()[0].request, json!({ "q": 1 }));
    assert_eq!(submit(&channel, &id, "yes").await, SubmitOutcome::Accepted);
    session.idle().await;
    assert_eq!(
        session.outline()[2..],
        [r#"result of a: "yes""#, "answer: Done."]
    );
    assert!(nothing_pending(&channel) && memo_keys(&session).is_empty());
}

#[tokio::test]
async fn b32_of_racing_answers_one_is_accepted_and_is_the_answer() {
    let place = Place::new();
    let (session, channel) = open(&place, &one_question(), &Runs::default());
    session.prompt("do it").await;
    let id = asked(&channel).await;
    let outcomes = join_all((0..64).map(|racer| {
        let (channel, id) = (channel.clone(), id.clone());
        async move { (racer, submit(&channel, &id, &racer.to_string()).await) }
    }))
    .await;
    let accepted: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| *outcome == SubmitOutcome::Accepted)
        .collect();
    assert_eq!(accepted.len(), 1);
    session.idle().await;
    let answer = format!("result of a: \"{}\"", accepted[0].0);
    assert_eq!(session.outline()[2], answer);
    assert_eq!(
        submit(&channel, &id, "late").await,
        SubmitOutcome::NotPending
    );
}

#[tokio::test(start_paused = true)]
async fn b33_a_pending_question_survives_restart_and_is_answered_before_replay_with_nobody_waiting()
{
    let place = Place::new();
    let (model, runs) = (one_question(), Runs::default());
    let (session, channel) = open(&place, &model, &runs);
    session.prompt("do it").await;
    let id = asked(&channel).await;
    session.kill().await;

    // Nothing was resumed: nobody waits, and the question is there at once.
    let (session, channel) = open(&place, &model, &runs);
    assert_eq!(channel.pending().borrow()[0].id, id);
    assert_eq!(submit(&channel, &id, "kept").await, SubmitOutcome::Accepted);
    assert_eq!(
        submit(&channel, &id, "other").await,
        SubmitOutcome::NotPending
    );
    assert!(nothing_pending(&channel));
    session.kill().await;

    // The answer outlives the process too, and is not asked for again.
    let (session, channel) = open(&place, &model, &runs);
    assert!(nothing_pending(&channel));
    assert_eq!(
        submit(&channel, &id, "other").await,
        SubmitOutcome::NotPending
    );
    session.lane.resume(&session.cx).await.unwrap();
    session.idle().await;
    assert_eq!(
        session.outline()[2..],
        [r#"result of a: "kept""#, "answer: Done."]
    );
    assert_eq!(*runs.lock().unwrap(), [id.clone(), id]);
    assert!(memo_keys(&session).is_empty());
}

#[tokio::test(start_paused = true)]
async fn b34_asking_the_same_again_is_asking_once_and_asking_something_else_is_an_error() {
    let place = Place::new();
    let (session, channel) = open(&place, &one_question(), &Runs::default());
    session.prompt("do it").await;
    let id = asked(&channel).await;
    let cx = Context::background();
    // A second wait beside the first.
    let second = channel.wait(&cx, &id, json!({ "q": 1 })).await.unwrap_err();
    assert!(matches!(second, WaitError::Waiting { .. }), "{second}");
    session.kill().await;

    let (session, channel) = open(&place, &one_question(), &Runs::default());
    let commits = session.store.commits();
    let other = channel.wait(&cx, &id, json!({ "q": 2 })).await.unwrap_err();
    assert!(matches!(other, WaitError::OtherRequest { .. }), "{other}");
    let (short, cancel) = cx.with_cancel();
    let same = channel.wait(&short, &id, json!({ "q": 1 }));
    let cut = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (same, ()) = tokio::join!(same, cut);
    assert!(matches!(same, Err(WaitError::Cancelled(_))));
    assert_eq!(session.store.commits(), commits, "nothing was written");
    assert_eq!(channel.pending().borrow().len(), 1);
    // Answered, the same request gives the answer at once; another is still another.
    submit(&channel, &id, "yes").await;
    let answer = channel.wait(&cx, &id, json!({ "q": 1 })).await.unwrap();
    assert_eq!(*answer, json!({ "answer": "yes" }));
    let other = channel.wait(&cx, &id, json!({ "q": 2 })).await.unwrap_err();
    assert!(matches!(other, WaitError::OtherRequest { .. }), "{other}");
}

#[tokio::test(start_paused = true)]
async fn b35_ending_a_wait_writes_nothing_and_ending_the_operation_removes_the_request() {
    let place = Place::new();
    let (mut session, channel) = open(&place, &one_question(), &Runs::default());
    let admission = session.prompt("do it").await;
    let id = asked(&channel).await;
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    // In the commit of the request to end it, before the tool has ended.
    assert!(memo_keys(&session).is_empty() && nothing_pending(&channel));
    assert_eq!(
        submit(&channel, &id, "late").await,
        SubmitOutcome::NotPending
    );
    session
        .event(|event| matches!(event, EventKind::RunEnd { .. }).then_some(()))
        .await;
    assert!(session.results()[0].is_error);
    let gone = channel.wait(&session.cx, &id, json!({ "q": 1 })).await;
    assert!(matches!(gone, Err(WaitError::NotCurrent { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_request_found_after_a_crash_is_removed_when_its_operation_is_ended() {
    let place = Place::new();
    let model = one_question();
    let (session, channel) = open(&place, &model, &Runs::default());
    let admission = session.prompt("do it").await;
    asked(&channel).await;
    session.kill().await;
    let (session, channel) = open(&place, &model, &Runs::default());
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    session.idle().await;
    assert!(nothing_pending(&channel) && memo_keys(&session).is_empty());
    assert!(session.results()[0].is_error);
}

#[tokio::test(start_paused = true)]
async fn b31_only_a_current_call_that_is_safe_to_replay_may_ask_while_it_runs() {
    let place = Place::new();
    let session = place.open(
        &Model::scripted([calls([call("a", "ask", json!({}))]), says("Done.")]),
        vec![],
    );
    let questions = channel(&session);
    let asks = questions.clone();
    let tool = TestTool::new(move |cx, invocation| {
        let asks = asks.clone();
        async move {
            let refused = asks.wait(&cx, &invocation.invocation_id, json!({})).await;
            assert!(matches!(refused, Err(WaitError::NotReplaySafe { .. })));
            let unknown = InvocationId::new("unknown");
            let refused = asks.wait(&cx, &unknown, json!({})).await;
            assert!(matches!(refused, Err(WaitError::NotCurrent { .. })));
            Ok(ToolOutput::text("ok"))
        }
    });
    session
        .harness
        .set_tools(Arc::new(ToolSet::new([registration("ask", tool)])));
    session.turn("do it").await;
    assert!(!session.results()[0].is_error, "{:?}", session.results());
    let id = session.results()[0].invocation_id.clone();
    let settled = questions.wait(&session.cx, &id, json!({})).await;
    assert!(matches!(settled, Err(WaitError::NotCurrent { .. })));
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_outside_their_schemas_are_refused_and_nothing_is_written() {
    let place = Place::new();
    let (session, channel) = open(&place, &one_question(), &Runs::default());
    session.prompt("do it").await;
    let id = asked(&channel).await;
    let commits = session.store.commits();
    let refused = channel.submit(&session.cx, &id, json!({ "no": 1 })).await;
    let Err(refused @ SubmitError::Invalid { .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(refused.to_string().contains("answer"), "{refused}");
    let other = ChannelId::new("asking", "others");
    let other = session
        .harness
        .requests(other, &json!({ "type": "object" }), &json!(true))
        .unwrap();
    let refused = other.wait(&session.cx, &id, json!("text")).await;
    assert!(matches!(refused, Err(WaitError::Invalid { .. })));
    assert_eq!(session.store.commits(), commits);
    let bad = session.harness.requests(
        ChannelId::new("a", "b"),
        &json!({ "type": 7 }),
        &json!(true),
    );
    assert!(bad.unwrap_err().to_string().contains("a/b"));
}

/// A permission that asks in clearance, on a channel of its own.
fn permission(session: &Session) -> (RequestChannel, bezel_harness::HookGuard) {
    let asks = ChannelId::new("permissions", "asks");
    let asks = session
        .harness
        .requests(asks, &json!(true), &json!({ "type": "object" }))
        .unwrap();
    let channel = asks.clone();
    let guard = session
        .harness
        .hooks()
        .approve_tool("permissions", move |cx, call| {
            let asks = asks.clone();
            async move {
                let asked = json!({ "tool": call.tool, "arguments": call.arguments });
                match asks.wait(&cx, &call.invocation_id, asked).await {
                    Ok(answer) if answer["answer"] == "allow" => Ok(Approval::Allow),
                    Ok(_) => Ok(Approval::Deny {
                        reason: "The person said no.".into(),
                    }),
                    Err(error) => Err(bezel_harness::HookError::new(error.to_string())),
                }
            }
        });
    (channel, guard)
}

#[tokio::test(start_paused = true)]
async fn an_ask_in_clearance_is_found_again_after_a_crash_and_is_no_answer_to_the_tools_own_question()
 {
    let place = Place::new();
    let (model, runs) = (one_question(), Runs::default());
    let (session, _) = open(&place, &model, &runs);
    let (asks, _guard) = permission(&session);
    session.prompt("do it").await;
    let id = asked(&asks).await;
    session.kill().await;

    let (session, questions) = open(&place, &model, &runs);
    let (asks, _guard) = permission(&session);
    assert_eq!(asked(&asks).await, id);
    assert!(nothing_pending(&questions));
    assert_eq!(
        submit(&questions, &id, "wrong channel").await,
        SubmitOutcome::NotPending
    );
    // Answered before the call is cleared again.
    assert_eq!(submit(&asks, &id, "allow").await, SubmitOutcome::Accepted);
    session.lane.resume(&session.cx).await.unwrap();
    assert_eq!(asked(&questions).await, id);
    // Once it runs, what clearance asked is gone: only the question is left.
    assert!(
        memo_keys(&session)
            .iter()
            .all(|key| key.contains("asking/questions"))
    );
    assert_eq!(
        submit(&questions, &id, "mine").await,
        SubmitOutcome::Accepted
    );
    session.idle().await;
    assert_eq!(session.outline()[2], r#"result of a: "mine""#);
    assert_eq!(runs.lock().unwrap().len(), 1);
    assert!(memo_keys(&session).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_denied_and_an_interrupted_ask_leave_nothing_behind() {
    let place = Place::new();
    let model = Model::scripted([
        calls([call("a", "once", json!({}))]),
        calls([call("b", "once", json!({}))]),
    ]);
    let (session, _) = open(&place, &model, &Runs::default());
    let (asks, _guard) = permission(&session);
    let admission = session.prompt("do it").await;
    let first = asked(&asks).await;
    submit(&asks, &first, "deny").await;
    let second = asked(&asks).await;
    assert_ne!(first, second);
    assert_eq!(memo_keys(&session).len(), 1);
    session
        .lane
        .request_abort(&session.cx, &admission.operation_id)
        .await
        .unwrap();
    assert!(memo_keys(&session).is_empty() && nothing_pending(&asks));
    session.idle().await;
    assert_eq!(session.results().len(), 2);
    assert!(session.results().iter().all(|result| result.is_error));
}

/// Brings the session to its end as its people would: goes on, and answers what is asked. Says whether an
/// answer was accepted.
async fn go_on(session: &Session, channel: &RequestChannel, answer: &str) -> Result<bool, ()> {
    session.lane.resume(&session.cx).await.map_err(|_| ())?;
    let request = crate::support::prompt_request("command", "do it");
    session
        .lane
        .prompt(&session.cx, request)
        .await
        .map_err(|_| ())?;
    let accepted = tokio::select! {
        // Both may be: a run that stopped at a full store leaves its question asked.
        id = asked(channel) => {
            let answer = json!({ "answer": answer });
            let outcome = channel.submit(&session.cx, &id, answer).await.map_err(|_| ())?;
            outcome == SubmitOutcome::Accepted
        }
        () = session.idle() => false,
    };
    session.idle().await;
    Ok(accepted)
}

#[tokio::test(start_paused = true)]
async fn a_question_that_dies_after_any_commit_is_asked_once_and_an_accepted_answer_is_never_lost()
{
    let whole = {
        let place = Place::new();
        let (session, channel) = open(&place, &one_question(), &Runs::default());
        assert_eq!(go_on(&session, &channel, "first").await, Ok(true));
        assert_eq!(
            session.outline()[2..],
            [r#"result of a: "first""#, "answer: Done."]
        );
        session.store.commits()
    };
    assert!(whole >= 7, "{whole} commits");
    for stop in 0..=whole {
        let place = Place::new();
        // Answers by what was said, so that a request that is sent again is answered the same.
        let model = || {
            Model::new(|request, _| {
                let results = request.messages.iter().filter(|message| {
                    matches!(***message, bezel_session_types::Message::ToolResult(_))
                });
                match results.count() {
                    0 => calls([call("a", "ask", json!({ "q": 1 }))]),
                    _ => says("Done."),
                }
            })
        };
        let runs = Runs::default();
        let (session, channel) = open(&place, &model(), &runs);
        session.store.stop_after(stop);
        // It is cut short wherever the store stopped.
        let answered = go_on(&session, &channel, "first").await == Ok(true);
        session.kill().await;
        let (session, channel) = open(&place, &model(), &runs);
        go_on(&session, &channel, "second").await.unwrap();
        let result = session.outline()[2].clone();
        match answered {
            true => assert_eq!(result, r#"result of a: "first""#, "after {stop}"),
            false => assert!(
                result.starts_with("result of a: "),
                "after {stop}: {result}"
            ),
        }
        assert_eq!(session.outline().len(), 4, "after {stop}");
        let mut ids = runs.lock().unwrap().clone();
        ids.dedup();
        assert_eq!(ids.len(), 1, "after {stop}: one call, under one id");
        assert!(memo_keys(&session).is_empty(), "after {stop}");
    }
}
