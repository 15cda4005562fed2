//! What observers hear and see.

use std::sync::Arc;

use bezel_harness::{EventKind, MessageDelta};
use bezel_session_types::{
    AssistantContent, EntryId, LaneName, ModelEvent, Progress, RunState, StopReason, ToolOutput,
};
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{
    Act, Model, Place, TestTool, call, calls, end, prompt_request, registration, says, text,
};

fn name(event: &EventKind) -> &'static str {
    match event {
        EventKind::RunStart { .. } => "run_start",
        EventKind::RunEnd { .. } => "run_end",
        EventKind::TurnStart { .. } => "turn_start",
        EventKind::TurnEnd { .. } => "turn_end",
        EventKind::MessageStart { .. } => "message_start",
        EventKind::MessageUpdate { .. } => "message_update",
        EventKind::MessageEnd { .. } => "message_end",
        EventKind::ToolStart { .. } => "tool_start",
        EventKind::ToolUpdate { .. } => "tool_update",
        EventKind::ToolEnd { .. } => "tool_end",
        EventKind::EntryAdded { .. } => "entry_added",
        EventKind::QueueUpdate { .. } => "queue_update",
        EventKind::Usage { .. } => "usage",
        EventKind::Gap => "gap",
        _ => "other",
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_told_in_order() {
    let place = Place::new();
    let model = Model::scripted([
        calls([text("Hm."), call("a", "echo", json!({}))]),
        says("Done."),
    ]);
    let mut session = place.open(&model, vec![registration("echo", TestTool::echo())]);
    session.turn("do it").await;
    let told: Vec<&str> = session.happened().iter().map(name).collect();
    assert_eq!(
        told,
        [
            "queue_update",
            "run_start",
            "entry_added",
            "queue_update",
            "turn_start",
            "message_start",
            "message_update",
            "message_end",
            "entry_added",
            "usage",
            "tool_start",
            "tool_end",
            "entry_added",
            "turn_end",
            "turn_start",
            "message_start",
            "message_update",
            "message_end",
            "entry_added",
            "usage",
            "turn_end",
            "run_end",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_told_of_after_it_is_in_the_database() {
    let place = Place::new();
    let model = Model::scripted([says("Done.")]);
    let mut session = place.open(&model, vec![]);
    session.prompt("hello").await;
    let reader = bezel_store::Reader::open(place.database()).unwrap();
    for _ in 0..2 {
        let entry = session
            .event(|event| match event {
                EventKind::EntryAdded { entry } => Some(Arc::clone(entry)),
                _ => None,
            })
            .await;
        let stored = reader.read(|queries| queries.entry(&entry.id)).unwrap();
        assert_eq!(stored.as_ref(), Some(&*entry));
    }
}

#[tokio::test(start_paused = true)]
async fn opencode_18_a_watcher_that_comes_late_sees_everything_once() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([vec![
        Act::Say(ModelEvent::Thinking("Let me ".into())),
        Act::Say(ModelEvent::Thinking("see.".into())),
        text("One, "),
        text("two, "),
        Act::Gate(Arc::clone(&gate)),
        text("three."),
        end(StopReason::Stop),
    ]]);
    let mut session = place.open(&model, vec![]);
    session.prompt("count").await;
    session
        .event(|event| match event {
            EventKind::MessageUpdate {
                delta: MessageDelta::Text { text, .. },
                ..
            } if text.ends_with("two, ") => Some(()),
            _ => None,
        })
        .await;
    let mut watch = session.lane.watch();
    let live = watch.snapshot.message.clone().unwrap();
    let thinking = AssistantContent::Thinking {
        text: "Let me see.".into(),
        signature: None,
    };
    assert_eq!(
        live.content,
        [
            thinking,
            AssistantContent::Text {
                text: "One, two, ".into()
            }
        ]
    );
    assert!(matches!(watch.snapshot.state, RunState::Running { .. }));
    gate.notify_one();
    session.idle().await;
    let after: Vec<_> = std::iter::from_fn(|| watch.events.try_next())
        .map(|event| event.kind)
        .collect();
    assert!(
        matches!(&after[0], EventKind::MessageUpdate { delta: MessageDelta::Text { part: 1, text }, .. } if text == "three."),
        "{after:?}"
    );
    assert_eq!(
        after.iter().map(name).collect::<Vec<_>>()[1..],
        ["message_end", "entry_added", "usage", "turn_end", "run_end"]
    );
    assert!(session.lane.watch().snapshot.message.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_the_calls_that_run_and_what_they_showed() {
    let place = Place::new();
    let gate = Arc::new(Notify::new());
    let model = Model::scripted([
        calls([call("a", "bash", json!({ "command": "make" }))]),
        says("Done."),
    ]);
    let held = Arc::clone(&gate);
    let bash = TestTool::new(move |_, invocation| {
        let held = Arc::clone(&held);
        async move {
            for _ in 0..4_000 {
                invocation
                    .host
                    .progress(Progress::Append(format!("{}\n", "x".repeat(99))));
            }
            invocation
                .host
                .progress(Progress::Details(json!({ "done": 4_000 })));
            held.notified().await;
            Ok(ToolOutput::default())
        }
    });
    let mut session = place.open(&model, vec![registration("bash", bash)]);
    session.prompt("build").await;
    let unread = session
        .event(|event| match event {
            EventKind::ToolUpdate {
                progress: Progress::Append(text),
                ..
            } => Some(text.len()),
            _ => None,
        })
        .await;
    assert!(unread <= 128 * 1024, "{unread} bytes wait for a reader");
    let snapshot = session.lane.watch().snapshot;
    let live = &snapshot.calls[0];
    assert_eq!(
        (
            &*live.tool,
            &live.arguments["command"],
            &live.details["done"]
        ),
        ("bash", &json!("make"), &json!(4_000))
    );
    assert!(
        live.output.len() <= 128 * 1024 && live.output.len() >= 64 * 1024,
        "{}",
        live.output.len()
    );
    gate.notify_one();
    session.idle().await;
    assert!(session.lane.watch().snapshot.calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_costs_one_joined_event_for_a_long_answer() {
    let place = Place::new();
    let deltas = (0..20_000).map(|index| text(&format!("{index} ")));
    let model = Model::scripted([deltas.chain([end(StopReason::Stop)]).collect()]);
    let mut session = place.open(&model, vec![]);
    let commits = session.store.commits();
    session.turn("count").await;
    assert!(
        session.store.commits() - commits < 8,
        "deltas are not stored one by one"
    );
    let happened = session.happened();
    let updates: Vec<&str> = happened
        .iter()
        .filter_map(|event| match event {
            EventKind::MessageUpdate {
                delta: MessageDelta::Text { text, .. },
                ..
            } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(updates.len(), 1);
    let whole: String = (0..20_000).map(|index| format!("{index} ")).collect();
    assert_eq!(updates[0], whole);
    assert_eq!(session.answers()[0].to_text(), whole);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_far_behind_is_told_of_the_gap() {
    let place = Place::new();
    // Two parts by turns cannot be joined.
    let acts = (0..10_000).map(|index| match index % 2 {
        0 => text("a"),
        _ => Act::Say(ModelEvent::Thinking("b".into())),
    });
    let model = Model::scripted([acts.chain([end(StopReason::Stop)]).collect()]);
    let mut session = place.open(&model, vec![]);
    session.turn("count").await;
    let happened = session.happened();
    assert_eq!(name(&happened[0]), "gap");
    assert_eq!(name(happened.last().unwrap()), "run_end");
    assert!(happened.len() < 10_000);
}

#[tokio::test(start_paused = true)]
async fn opencode_19_the_text_of_a_long_answer_is_kept_while_it_comes_in_and_deleted_when_it_is_whole()
 {
    let place = Place::new();
    let (gate, hold) = (
        Arc::new(Notify::new()),
        std::time::Duration::from_millis(300),
    );
    let acts = (0..10).flat_map(|index| [text(&format!("{index} ")), Act::Wait(hold)]);
    let acts = acts.chain([Act::Gate(Arc::clone(&gate)), end(StopReason::Stop)]);
    let model = Model::scripted([acts.collect()]);
    let mut session = place.open(&model, vec![]);
    session.prompt("count").await;
    let entry = session
        .event(|event| match event {
            EventKind::MessageUpdate {
                entry,
                delta: MessageDelta::Text { text, .. },
            } if text.contains('9') => Some(entry.clone()),
            _ => None,
        })
        .await;
    let partials = |session: &crate::support::Session| {
        session
            .store
            .read(|queries| queries.keys("partial/"))
            .unwrap()
    };
    assert_eq!(partials(&session), [format!("partial/{entry}")]);
    gate.notify_one();
    session.idle().await;
    assert!(partials(&session).is_empty());
    // What comes in pieces is written whole, once, and told of in no piece.
    let (entries, journal) = session
        .store
        .read(|queries| Ok((queries.entries_after(0, 100)?, queries.journal(0, 100)?)))
        .unwrap();
    assert_eq!(entries.len(), 2);
    assert!(journal.len() < 10, "{journal:?}");
}

#[tokio::test(start_paused = true)]
async fn custom_entries_and_labels_are_in_the_tree_and_not_in_the_conversation() {
    let place = Place::new();
    let model = Model::scripted([says("One."), says("Two.")]);
    let session = place.open(&model, vec![]);
    session.turn("one").await;
    let (tree, main) = (session.harness.tree(), LaneName::main());
    let entry = tree
        .append_custom(&session.cx, &main, "todo.list", json!(["a"]))
        .unwrap();
    assert_eq!(tree.leaf(&main), Some(entry.id.clone()));
    tree.set_label(&session.cx, &entry.id, Some("here"))
        .unwrap();
    assert_eq!(tree.label(&entry.id).unwrap().as_deref(), Some("here"));
    tree.set_label(&session.cx, &entry.id, None).unwrap();
    assert_eq!(tree.label(&entry.id).unwrap(), None);
    assert!(
        tree.set_label(&session.cx, &EntryId::new("nobody"), Some("x"))
            .is_err()
    );
    session.turn("two").await;
    assert_eq!(
        session.outline(),
        [
            "user: one",
            "answer: One.",
            "custom: todo.list",
            "user: two",
            "answer: Two."
        ]
    );
    assert_eq!(model.request(1).messages.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_end_with_the_harness() {
    let place = Place::new();
    let model = Model::scripted([]);
    let mut session = place.open(&model, vec![]);
    let mut watch = session.harness.lane(&LaneName::new("side")).watch();
    let request = bezel_harness::PromptRequest {
        resume: false,
        ..prompt_request("c1", "hello")
    };
    session.lane.prompt(&session.cx, request).await.unwrap();
    session.harness.close().await;
    assert!(matches!(
        session.events.next().await.unwrap().kind,
        EventKind::QueueUpdate { .. }
    ));
    assert!(session.events.next().await.is_none());
    assert!(
        watch.events.next().await.is_none(),
        "a watcher hears of its lane alone"
    );
    assert!(session.harness.subscribe().next().await.is_none());
}
