//! The transcript as a presentation sees it: over a connection.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::sync::Arc;

use bezel_api_session::{EventBody, Outcome};
use bezel_rpc::Context;
use bezel_session_types::{
    AssistantContent, AssistantMessage, Entry, EntryId, InvocationId, Message, ModelRef,
    OperationId, Progress, ResultContent, RunOutcome, StopReason, ToolCall, ToolResultMessage,
    Usage, UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use bezel_transcript_contract::{
    ItemBody, Part, ToolItem, ToolStatus, TranscriptClient, TranscriptState,
};
use serde_json::json;

async fn transcript(entries: Vec<Entry>) -> (FakeSession, TranscriptClient, Context) {
    let directory = tempfile::tempdir().unwrap();
    let options = FakeSessionOptions {
        prepare: Some(Box::new(move |agent| agent.set_entries(entries))),
        ..FakeSessionOptions::default()
    };
    let facets = vec![bezel_transcript_session::facet()];
    let session = FakeSession::start(facets, directory.path(), options)
        .await
        .unwrap();
    let transcript: TranscriptClient = session.remote().use_service();
    let cx = Context::background();
    transcript.state().ready(&cx).await.unwrap();
    (session, transcript, cx)
}

fn model() -> ModelRef {
    "local::m".parse().unwrap()
}

fn answer(content: Vec<AssistantContent>) -> AssistantMessage {
    AssistantMessage {
        content,
        model: model(),
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error: None,
    }
}

fn call(id: &str, command: &str) -> AssistantContent {
    AssistantContent::ToolCall(ToolCall {
        id: id.into(),
        name: "bash".into(),
        arguments: json!({ "command": command }),
        signature: None,
    })
}

fn result(invocation: &str, call_id: &str, text: &str) -> ToolResultMessage {
    ToolResultMessage {
        call_id: call_id.into(),
        invocation_id: InvocationId::new(invocation),
        tool: "bash".into(),
        content: vec![ResultContent::text(text)],
        structured: None,
        details: json!({ "exit": 0 }),
        is_error: false,
    }
}

fn entry(id: &str, seq: u64, message: Message) -> Entry {
    Entry {
        id: EntryId::new(id),
        parent: None,
        seq,
        created_at: 0,
        body: message.into(),
    }
}

fn text_of(state: &TranscriptState, index: usize) -> Option<&str> {
    match &state.items.get(index)?.body {
        ItemBody::Assistant { parts, .. } => match parts.last()? {
            Part::Text { text } | Part::Thinking { text } => Some(text),
        },
        _ => None,
    }
}

fn tool(state: &TranscriptState, index: usize) -> Option<&ToolItem> {
    match &state.items.get(index)?.body {
        ItemBody::Tool(tool) => Some(tool),
        _ => None,
    }
}

#[tokio::test]
async fn streamed_text_grows_and_the_final_message_takes_its_place() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    let id = EntryId::new("a");
    session.agent.emit(EventBody::AnswerStarted {
        entry: id.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::Thinking {
        entry: id.clone(),
        text: "hm".into(),
    });
    for piece in ["So", " it", " is"] {
        session.agent.emit(EventBody::Text {
            entry: id.clone(),
            text: piece.into(),
        });
    }
    let state = transcript
        .state()
        .wait_for(&cx, |state| text_of(state, 0) == Some("So it is"))
        .await
        .unwrap();
    assert!(
        matches!(&state.items[0].body, ItemBody::Assistant { done: false, parts, .. } if parts.len() == 2)
    );
    let message = Arc::new(answer(vec![AssistantContent::Text {
        text: "So it is.".into(),
    }]));
    session.agent.emit(EventBody::AnswerEnded {
        entry: id,
        message,
        invocations: vec![],
    });
    let done = |state: &TranscriptState| {
        matches!(&state.items[0].body, ItemBody::Assistant { done: true, .. })
    };
    let state = transcript.state().wait_for(&cx, done).await.unwrap();
    assert_eq!(text_of(&state, 0), Some("So it is."));
}

#[tokio::test]
async fn a_tool_call_is_one_item_from_its_first_letter_to_its_result() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    let (id, invocation) = (EntryId::new("a"), InvocationId::new("i"));
    let state = transcript.state();
    session.agent.emit(EventBody::AnswerStarted {
        entry: id.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::ToolCallStarted {
        entry: id.clone(),
        index: 0,
        tool: "bash".into(),
    });
    session.agent.emit(EventBody::ToolCallText {
        entry: id.clone(),
        index: 0,
        text: "{\"com".into(),
    });
    let streaming = state.wait_for(&cx, |state| {
        tool(state, 1).is_some_and(|tool| tool.arguments_text == "{\"com")
    });
    assert_eq!(
        tool(&streaming.await.unwrap(), 1).unwrap().status,
        ToolStatus::Streaming
    );

    let message = Arc::new(answer(vec![call("c", "ls")]));
    session.agent.emit(EventBody::AnswerEnded {
        entry: id,
        message,
        invocations: vec![invocation.clone()],
    });
    let arguments = Arc::new(json!({ "command": "ls" }));
    session.agent.emit(EventBody::ToolStarted {
        invocation: invocation.clone(),
        tool: "bash".into(),
        arguments,
    });
    let progress = Progress::Append("file\n".into());
    session.agent.emit(EventBody::ToolProgress {
        invocation: invocation.clone(),
        progress,
    });
    let running = state
        .wait_for(&cx, |state| {
            tool(state, 1).is_some_and(|tool| tool.output == "file\n")
        })
        .await
        .unwrap();
    assert_eq!(
        (running.items.len(), running.items[1].id.as_str()),
        (2, "i")
    );
    assert_eq!(tool(&running, 1).unwrap().status, ToolStatus::Running);

    let mut result = result("i", "c", "file\nother\n");
    result.structured = Some(json!({ "files": 2 }));
    let result = Arc::new(result);
    session
        .agent
        .emit(EventBody::ToolEnded { invocation, result });
    let done = state
        .wait_for(&cx, |state| {
            tool(state, 1).is_some_and(|tool| tool.status == ToolStatus::Done)
        })
        .await
        .unwrap();
    let tool = tool(&done, 1).unwrap();
    assert_eq!(
        (tool.output.as_str(), &tool.details["exit"]),
        ("file\nother\n", &json!(0))
    );
    assert_eq!(tool.structured, Some(json!({ "files": 2 })));
    assert!(tool.ended_at.is_some() && done.items.len() == 2);
}

#[tokio::test]
async fn a_call_that_an_answer_had_begun_and_was_not_to_make_goes_with_the_answers_end() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    let entry = EntryId::new("a");
    session.agent.emit(EventBody::AnswerStarted {
        entry: entry.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::ToolCallStarted {
        entry: entry.clone(),
        index: 0,
        tool: "bash".into(),
    });
    let state = transcript.state();
    let begun = state.wait_for(&cx, |state| tool(state, 1).is_some());
    begun.await.unwrap();
    let said = AssistantContent::Text {
        text: "Here I am.".into(),
    };
    session.agent.emit(EventBody::AnswerEnded {
        entry,
        message: Arc::new(answer(vec![said])),
        invocations: Vec::new(),
    });
    let ended = state.wait_for(&cx, |state| text_of(state, 0) == Some("Here I am."));
    assert_eq!(ended.await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_discarded_answer_leaves_no_item_and_a_retry_begins_anew() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    let (first, second) = (EntryId::new("first"), EntryId::new("second"));
    session.agent.emit(EventBody::AnswerStarted {
        entry: first.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::Text {
        entry: first.clone(),
        text: "broken".into(),
    });
    session.agent.emit(EventBody::ToolCallStarted {
        entry: first.clone(),
        index: 0,
        tool: "bash".into(),
    });
    session
        .agent
        .emit(EventBody::AnswerDiscarded { entry: first });
    session.agent.emit(EventBody::AnswerStarted {
        entry: second.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::Text {
        entry: second,
        text: "whole".into(),
    });
    let state = transcript
        .state()
        .wait_for(&cx, |state| text_of(state, 0) == Some("whole"))
        .await
        .unwrap();
    assert_eq!(state.items.len(), 1);
}

#[tokio::test]
async fn when_a_run_ends_nothing_of_it_looks_as_if_it_still_ran() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    let id = EntryId::new("a");
    session.agent.emit(EventBody::AnswerStarted {
        entry: id.clone(),
        model: model(),
    });
    session.agent.emit(EventBody::ToolCallStarted {
        entry: id,
        index: 0,
        tool: "bash".into(),
    });
    let outcome = Outcome {
        operation_id: OperationId::new("o"),
        outcome: RunOutcome::Aborted,
    };
    session.agent.emit(EventBody::RunEnded(outcome));
    let ended = |state: &TranscriptState| {
        tool(state, 1).is_some_and(|tool| tool.status == ToolStatus::Interrupted)
    };
    let state = transcript.state().wait_for(&cx, ended).await.unwrap();
    assert!(matches!(
        &state.items[0].body,
        ItemBody::Assistant { done: true, .. }
    ));
}

#[tokio::test]
async fn history_pairs_calls_with_results_and_pages_backwards() {
    let entries = (0..450).map(|index| {
        entry(
            &format!("u{index}"),
            index,
            Message::User(UserMessage::text(format!("message {index}"))),
        )
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.push(entry(
        "a",
        450,
        Message::Assistant(answer(vec![call("c1", "one"), call("c2", "two")])),
    ));
    entries.push(entry(
        "r2",
        451,
        Message::ToolResult(result("r2", "c2", "second")),
    ));
    let (_session, transcript, cx) = transcript(entries).await;
    let state = transcript.state().get();
    assert!(
        state.has_older && state.items.len() <= 201,
        "{}",
        state.items.len()
    );
    let last = state.items.len() - 1;
    assert_eq!(
        tool(&state, last - 1).unwrap().status,
        ToolStatus::Interrupted,
        "its result never came"
    );
    assert_eq!(tool(&state, last).unwrap().output, "second");

    let mut before = state.items[0].id.clone();
    let mut seen = 0;
    loop {
        let page = transcript.page(&cx, before, 100).await.unwrap();
        seen += page.items.len();
        before = page.items[0].id.clone();
        if !page.has_older {
            break;
        }
    }
    assert_eq!((before.as_str(), seen), ("u0", 450 - 198));
    let error = transcript
        .page(&cx, "nothing".into(), 10)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[tokio::test]
async fn history_pages_forwards_from_any_item_and_pairs_every_call() {
    let said = |index: u64| {
        let message = UserMessage::text(format!("message {index}"));
        entry(&format!("u{index}"), index, Message::User(message))
    };
    let mut entries: Vec<Entry> = (0..40).map(said).collect();
    let calls = vec![call("c1", "one"), call("c2", "two"), call("c3", "three")];
    entries.push(entry("a", 40, Message::Assistant(answer(calls))));
    for (place, call) in ["c1", "c2", "c3"].into_iter().enumerate() {
        let id = format!("r{}", place + 1);
        let result = result(&id, call, "done");
        entries.push(entry(&id, 41 + place as u64, Message::ToolResult(result)));
    }
    entries.extend((50..60).map(said));
    let (_session, transcript, cx) = transcript(entries).await;
    let all: Vec<String> = {
        let state = transcript.state().get();
        state.items.iter().map(|item| item.id.clone()).collect()
    };
    for limit in [1, 2, 3, 7, 200] {
        let mut seen = vec![all[0].clone()];
        loop {
            let after = seen.last().unwrap().clone();
            let page = transcript.page_after(&cx, after, limit).await.unwrap();
            for item in &page.items {
                if let ItemBody::Tool(tool) = &item.body {
                    assert_eq!(tool.status, ToolStatus::Done, "{}", item.id);
                }
            }
            seen.extend(page.items.into_iter().map(|item| item.id));
            if !page.has_newer {
                break;
            }
        }
        assert_eq!(seen, all, "by {limit}");
    }
    // A call by the name that it had while it had no result.
    let page = transcript.page_after(&cx, "a:1".into(), 1).await.unwrap();
    assert_eq!(page.items[0].id, "r3");
    let unknown = transcript.page_after(&cx, "nothing".into(), 10).await;
    assert!(unknown.unwrap_err().to_string().contains("nothing"));
}

#[tokio::test]
async fn a_session_that_is_taken_up_settles_its_calls_in_their_own_items() {
    let calls = vec![call("c1", "one"), call("c2", "two")];
    let entries = vec![entry("a", 1, Message::Assistant(answer(calls)))];
    let (session, transcript, cx) = transcript(entries).await;
    let interrupted = ToolResultMessage {
        is_error: true,
        ..result("i1", "c1", "interrupted")
    };
    session.agent.emit(EventBody::ToolEnded {
        invocation: InvocationId::new("i1"),
        result: Arc::new(interrupted),
    });
    session.agent.emit(EventBody::ToolStarted {
        invocation: InvocationId::new("i2"),
        tool: "bash".into(),
        arguments: Arc::new(json!({ "command": "two" })),
    });
    let running = |state: &TranscriptState| {
        state.items.iter().any(
            |item| matches!(&item.body, ItemBody::Tool(tool) if tool.status == ToolStatus::Running),
        )
    };
    let state = transcript.state().wait_for(&cx, running).await.unwrap();
    let ids: Vec<&str> = state.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["a", "i1", "i2"]);
    let first = tool(&state, 1).unwrap();
    assert_eq!(
        (first.status, &first.arguments),
        (ToolStatus::Failed, &json!({ "command": "one" }))
    );
}

#[tokio::test]
async fn long_output_is_clipped_in_the_item_and_whole_on_request() {
    let long = "x".repeat(100_000);
    let message = result("r", "c", &long);
    let entries = vec![
        entry("a", 1, Message::Assistant(answer(vec![call("c", "yes")]))),
        entry("r", 2, Message::ToolResult(message.clone())),
    ];
    let (_session, transcript, cx) = transcript(entries).await;
    let state = transcript.state().get();
    let item = tool(&state, 1).unwrap();
    assert!(item.clipped && item.output.len() < 10_000);
    assert_eq!(transcript.result(&cx, "r".into()).await.unwrap(), message);
}

#[tokio::test]
async fn the_window_stays_bounded_while_a_session_grows() {
    let (session, transcript, cx) = transcript(Vec::new()).await;
    for index in 0..1_000 {
        let message = Arc::new(UserMessage::text(format!("m{index}")));
        session.agent.emit(EventBody::UserMessage {
            entry: EntryId::new(format!("e{index}")),
            message,
        });
    }
    let last = |state: &TranscriptState| state.items.last().is_some_and(|item| item.id == "e999");
    let state = transcript.state().wait_for(&cx, last).await.unwrap();
    assert!(
        state.has_older && state.items.len() <= 400,
        "{}",
        state.items.len()
    );
    let ids: Vec<&str> = state.items.iter().map(|item| item.id.as_str()).collect();
    let expected: Vec<String> = (1_000 - ids.len()..1_000)
        .map(|index| format!("e{index}"))
        .collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn going_to_another_place_shows_that_path_and_what_comes_after_it() {
    let said = |id: &str, seq, text: &str| entry(id, seq, Message::User(UserMessage::text(text)));
    let (session, transcript, cx) =
        transcript(vec![said("one", 1, "first"), said("two", 2, "left")]).await;
    let tip = Some(EntryId::new("three"));
    session
        .agent
        .set_entries(vec![said("one", 1, "first"), said("three", 3, "there")]);
    session.agent.emit(EventBody::Navigated { tip });
    session.agent.emit(EventBody::Noted {
        entry: EntryId::new("four"),
        failed: false,
        message: "it goes on".into(),
    });
    let shown = |state: &TranscriptState| {
        let ids = state.items.iter().map(|item| item.id.clone());
        ids.collect::<Vec<_>>() == ["one", "three", "four"]
    };
    let state = transcript.state().wait_for(&cx, shown).await.unwrap();
    let note = ItemBody::Note {
        text: "it goes on".into(),
        failed: false,
    };
    assert_eq!(state.items[2].body, note);
}

#[tokio::test]
async fn plugins_that_fail_are_remarked_once_a_run_and_nothing_is_asked_for_before_a_remark() {
    let said = |id: &str, seq, text: &str| entry(id, seq, Message::User(UserMessage::text(text)));
    let entries: Vec<Entry> = (1..=300)
        .map(|seq| said(&format!("e{seq}"), seq, "x"))
        .collect();
    let (session, transcript, cx) = transcript(entries).await;
    let fails = |plugin: &str, hook: &str| {
        session.agent.emit(EventBody::HandlerFailed {
            plugin: plugin.into(),
            hook: hook.into(),
            message: "it panicked".into(),
        });
    };
    let refused = || {
        let message = "plugins `a` and `b` both set tool `x`; the one of `a` stays".into();
        let plugin = "b".into();
        session
            .agent
            .emit(EventBody::ContributionRefused { plugin, message });
    };
    for _ in 0..300 {
        fails("careful", "after_tool");
        fails("careful", "before_tool");
        refused();
    }
    let remarks = |state: &TranscriptState| -> Vec<String> {
        let texts = state.items.iter().filter_map(|item| match &item.body {
            ItemBody::Note {
                text,
                failed: false,
            } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };
    session
        .agent
        .emit(EventBody::RunStarted(OperationId::new("next")));
    fails("careful", "after_tool");
    let state = transcript.state();
    let state = state
        .wait_for(&cx, |state| remarks(state).len() == 4)
        .await
        .unwrap();
    assert_eq!(
        remarks(&state)[..3],
        [
            "Plugin `careful` failed in its hook `after_tool`: it panicked.",
            "Plugin `careful` failed in its hook `before_tool`: it panicked.",
            "Not everything that plugins contribute is in place: plugins `a` and `b` both set tool `x`; the one of \
             `a` stays.",
        ]
    );
    // So many that the remarks would be the oldest; pages begin at an item of the tree.
    let last = state.items.last().unwrap().id.clone();
    assert!(transcript.page(&cx, last, 10).await.unwrap().has_older);
    for plugin in 0..100 {
        fails(&format!("p{plugin}"), "before_request");
    }
    let many = |state: &TranscriptState| remarks(state).len() == 3 + 50;
    transcript.state().wait_for(&cx, many).await.unwrap();
    for index in 0..150 {
        session.agent.emit(EventBody::UserMessage {
            entry: EntryId::new(format!("n{index}")),
            message: Arc::new(UserMessage::text("y")),
        });
    }
    let last = |state: &TranscriptState| state.items.last().is_some_and(|item| item.id == "n149");
    let state = transcript.state().wait_for(&cx, last).await.unwrap();
    assert_eq!(
        state.items[0].id, "n0",
        "the window begins after the remarks"
    );
    assert_eq!(remarks(&state), [""; 0]);
}
