//! What is told of states that skip.

use bezel_session_types::ModelRef;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn item(id: &str, body: ItemBody) -> Item {
    Item {
        id: id.into(),
        at: "2026-01-01T00:00:00Z".into(),
        body,
    }
}

fn user(id: &str, text: &str) -> Item {
    item(
        id,
        ItemBody::User {
            text: text.into(),
            images: 0,
            synthetic: false,
        },
    )
}

fn answer(id: &str, parts: &[Part], done: bool) -> Item {
    let model = ModelRef {
        provider: "p".into(),
        model_id: "m".into(),
    };
    item(
        id,
        ItemBody::Assistant {
            model,
            parts: parts.to_vec(),
            done,
            error: None,
            usage: None,
        },
    )
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn tool(id: &str, status: ToolStatus, output: &str) -> Item {
    item(
        id,
        ItemBody::Tool(ToolItem {
            tool: "bash".into(),
            arguments: json!({ "command": "ls" }),
            arguments_text: String::new(),
            status,
            output: output.into(),
            clipped: false,
            details: json!(null),
            structured: None,
            ended_at: None,
        }),
    )
}

fn state(items: &[Item]) -> TranscriptState {
    TranscriptState {
        items: items.to_vec(),
        ..TranscriptState::default()
    }
}

#[test]
fn the_own_prompt_is_not_told_and_a_message_of_somebody_else_is() {
    let before = [user("1", "old"), answer("2", &[text("old answer")], true)];
    let mut follower = Follower::new(&state(&before), "do it");
    let now = [
        &before[..],
        &[
            user("3", "do it"),
            user("4", "and this"),
            user("5", "do it"),
        ],
    ]
    .concat();
    let told: Vec<_> = follower
        .tell(now.iter())
        .into_iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    assert_eq!(
        told,
        [
            json!({ "type": "message", "item": "4", "text": "and this", "synthetic": false }),
            json!({ "type": "message", "item": "5", "text": "do it", "synthetic": false }),
        ]
    );
    assert!(follower.tell(now.iter()).is_empty());
}

#[test]
fn a_remark_after_the_answer_is_a_warning_and_leaves_the_answer_the_end() {
    let mut follower = Follower::new(&state(&[]), "do it");
    let text_of = "Plugin `x` failed in its hook `after_response`: it panicked.";
    let remark = ItemBody::Note {
        text: text_of.into(),
        failed: false,
    };
    let now = [
        user("1", "do it"),
        answer("2", &[text("done")], true),
        item("2:remark:1", remark),
    ];
    let told = follower.tell(now.iter());
    let warning = RunEvent::Warning {
        message: text_of.into(),
        of_answer: false,
    };
    assert_eq!(told.last(), Some(&warning));
    assert!(follower.ends_with_answer() && follower.is_settled());
    assert!(follower.tell(now.iter()).is_empty());
}

#[test]
fn a_call_whose_written_form_is_gone_is_not_looked_for_among_older_items() {
    let call = |id: &str, status| {
        let tool = ToolItem {
            tool: "bash".into(),
            arguments: json!({}),
            arguments_text: String::new(),
            status,
            output: String::new(),
            clipped: false,
            details: json!(null),
            structured: None,
            ended_at: None,
        };
        item(id, ItemBody::Tool(tool))
    };
    let mut follower = Follower::new(&state(&[user("1", "old")]), "x");
    follower.tell([call("2/0", ToolStatus::Streaming)].iter());
    let ended = [call("invocation", ToolStatus::Done)];
    let told = follower.tell(ended.iter());
    assert!(!told.is_empty());
    assert!(follower.is_settled());
    assert!(!follower.misses(ended.iter(), true));
}

#[test]
fn a_text_that_begins_anew_is_marked_and_told_whole() {
    let mut follower = Follower::new(&state(&[]), "x");
    follower.tell([answer("1", &[text("Hello wor")], false)].iter());
    let told = follower.tell([answer("1", &[text("Hi")], true)].iter());
    assert_eq!(
        told,
        [
            RunEvent::TextDelta {
                item: "1".into(),
                part: 0,
                text: "Hi".into(),
                restarted: true
            },
            RunEvent::Text {
                item: "1".into(),
                part: 0,
                text: "Hi".into()
            },
        ]
    );
    assert_eq!(follower.answer(), Some("Hi"));
}

#[test]
fn a_window_that_skipped_items_is_noticed() {
    let mut follower = Follower::new(&state(&[user("1", "old")]), "x");
    follower.tell(
        [
            user("1", "old"),
            tool("2", ToolStatus::Running, ""),
            user("3", "a"),
        ]
        .iter(),
    );
    let later = [user("3", "a"), user("4", "b")];
    // The running tool has left the window.
    assert!(follower.misses(later.iter(), true));
    assert!(!follower.misses(later.iter(), false));
    follower.tell([tool("2", ToolStatus::Done, "")].iter().chain(&later));
    assert!(!follower.misses(later.iter(), true));
    // Nothing of what was seen is there any more.
    assert!(follower.misses([user("9", "z")].iter(), true));
    let fresh = Follower::new(&state(&[]), "x");
    assert!(fresh.misses([user("9", "z")].iter(), true));
}

/// One step of a conversation that only grows.
#[derive(Debug, Clone)]
enum Step {
    Append(String),
    NewPart,
    NewAnswer,
    Tool(ToolStatus),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => "[a-zé\n]{0,8}".prop_map(Step::Append),
        1 => Just(Step::NewPart),
        1 => Just(Step::NewAnswer),
        2 => prop_oneof![Just(ToolStatus::Streaming), Just(ToolStatus::Running), Just(ToolStatus::Done), Just(ToolStatus::Failed)]
            .prop_map(Step::Tool),
    ]
}

fn grow(items: &mut Vec<Item>, step: &Step) {
    let next = items.len().to_string();
    let finish = |items: &mut Vec<Item>| {
        if let Some(Item {
            body: ItemBody::Assistant { done, .. },
            ..
        }) = items.last_mut()
        {
            *done = true;
        }
    };
    match (step, items.last_mut().map(|item| &mut item.body)) {
        (Step::Append(more), Some(ItemBody::Assistant { parts, .. })) => {
            if let Some(Part::Text { text }) = parts.last_mut() {
                text.push_str(more);
            }
        }
        (Step::NewPart, Some(ItemBody::Assistant { parts, .. })) => parts.push(text("")),
        (Step::Tool(status), Some(ItemBody::Tool(tool)))
            if tool.status == ToolStatus::Streaming =>
        {
            tool.status = *status
        }
        (Step::Tool(status), Some(ItemBody::Tool(tool))) if tool.status == ToolStatus::Running => {
            if *status != ToolStatus::Streaming {
                tool.status = *status;
            }
        }
        (Step::Tool(status), _) => {
            finish(items);
            items.push(tool(&next, *status, "out"));
        }
        _ => {
            finish(items);
            items.push(answer(&next, &[text("")], false));
        }
    }
}

proptest! {
    /// Whatever states are skipped, the pieces add up to the whole and every call is told once.
    #[test]
    fn pieces_add_up_whatever_was_skipped(steps in prop::collection::vec((step(), any::<bool>()), 1..60)) {
        let mut items = Vec::new();
        let mut follower = Follower::new(&state(&[]), "x");
        let mut told = Vec::new();
        for (step, seen) in &steps {
            grow(&mut items, step);
            if *seen {
                told.extend(follower.tell(items.iter()));
            }
        }
        if let Some(Item { body: ItemBody::Assistant { done, .. }, .. }) = items.last_mut() {
            *done = true;
        }
        told.extend(follower.tell(items.iter()));
        prop_assert!(follower.tell(items.iter()).is_empty());
        for item in &items {
            let of_item = |event: &&RunEvent| serde_json::to_value(event).unwrap()["item"] == json!(item.id);
            let events: Vec<&RunEvent> = told.iter().filter(of_item).collect();
            match &item.body {
                ItemBody::Assistant { parts, .. } => {
                    for (index, part) in parts.iter().enumerate() {
                        let Part::Text { text: whole } = part else { continue };
                        let pieces: String = events.iter().filter_map(|event| match event {
                            RunEvent::TextDelta { part, text, restarted: false, .. } if *part == index => Some(text.as_str()),
                            _ => None,
                        }).collect();
                        prop_assert_eq!(&pieces, whole);
                        let complete = events.iter().filter(|event| {
                            matches!(event, RunEvent::Text { part, text, .. } if *part == index && text == whole)
                        });
                        prop_assert_eq!(complete.count(), 1);
                    }
                }
                ItemBody::Tool(tool) => {
                    let starts = events.iter().filter(|event| matches!(event, RunEvent::ToolStart { .. })).count();
                    let ends = events.iter().filter(|event| matches!(event, RunEvent::ToolEnd { .. })).count();
                    prop_assert_eq!(starts, usize::from(tool.status != ToolStatus::Streaming));
                    prop_assert_eq!(ends, usize::from(matches!(tool.status, ToolStatus::Done | ToolStatus::Failed)));
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_call_whose_process_was_just_begun_again_has_not_ended_yet() {
    let call = |status, output: &str, ended_at: Option<&str>| {
        item(
            "2/0",
            ItemBody::Tool(ToolItem {
                tool: "question".into(),
                arguments: json!({}),
                arguments_text: String::new(),
                status,
                output: output.into(),
                clipped: false,
                details: json!(null),
                structured: None,
                ended_at: ended_at.map(Into::into),
            }),
        )
    };
    let mut follower = Follower::new(&state(&[user("1", "old")]), "x");
    follower.tell([call(ToolStatus::Running, "", None)].iter());
    let again = follower.tell([call(ToolStatus::Interrupted, "", None)].iter());
    assert_eq!(again, []);
    let ended = follower.tell([call(ToolStatus::Done, "kept", Some("now"))].iter());
    assert!(
        matches!(&ended[..], [RunEvent::ToolEnd { output, .. }] if output == "kept"),
        "{ended:?}"
    );
}

#[test]
fn a_call_that_the_next_process_shows_under_another_id_first_is_told_once_and_holds_nothing_up() {
    let mut follower = Follower::new(&state(&[]), "x");
    let begun = [
        answer("2", &[text("I look.")], true),
        tool("call", ToolStatus::Running, ""),
    ];
    follower.tell(begun.iter());
    let found = [
        answer("2", &[text("I look.")], true),
        tool("2:0", ToolStatus::Interrupted, ""),
    ];
    assert_eq!(follower.tell(found.iter()), []);
    assert!(!follower.is_settled(), "it goes on");
    let ended = [
        answer("2", &[text("I look.")], true),
        tool("call", ToolStatus::Done, "seen"),
        answer("3", &[text("Done.")], true),
    ];
    let told = follower.tell(ended.iter());
    let starts = told
        .iter()
        .filter(|event| matches!(event, RunEvent::ToolStart { .. }));
    assert_eq!(starts.count(), 0);
    assert!(follower.is_settled() && follower.ends_with_answer());
    assert!(!follower.misses(ended.iter(), true));
}

#[test]
fn an_answer_that_its_process_cut_off_and_that_is_not_shown_any_more_is_not_waited_for() {
    let mut follower = Follower::new(&state(&[user("0", "old")]), "x");
    follower.tell([user("1", "x"), answer("2", &[text("Hal")], false)].iter());
    assert!(!follower.is_settled());
    let anew = [user("1", "x"), answer("3", &[text("Whole.")], true)];
    follower.tell(anew.iter());
    assert!(follower.is_settled() && follower.ends_with_answer());
    assert!(!follower.misses(anew.iter(), true));
}
