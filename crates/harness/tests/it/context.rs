//! What the model sees, whatever the tree looks like.

use std::sync::Arc;

use bezel_session_types::{
    AssistantContent, AssistantMessage, BranchSummary, Compaction, CompactionReason, CustomEntry,
    EntryBody, EntryId, InvocationId, LaneName, Message, ModelRef, ResultContent, StopReason,
    ToolCall, ToolResultMessage, Usage, UserMessage,
};
use bezel_store::{Store, Transaction};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{Model, Place, assert_valid, says};

fn answer(calls: Vec<u8>, words: &str, stop_reason: StopReason) -> EntryBody {
    let call = |id: u8| ToolCall {
        id: id.to_string(),
        name: "echo".into(),
        arguments: Value::Null,
        signature: None,
    };
    let said = AssistantContent::Text {
        text: words.to_owned(),
    };
    let content = std::iter::once(said)
        .chain(
            calls
                .into_iter()
                .map(|id| AssistantContent::ToolCall(call(id))),
        )
        .collect();
    let model = ModelRef {
        provider: "test".into(),
        model_id: "model".into(),
    };
    let usage = Usage::default();
    EntryBody::from(Message::Assistant(AssistantMessage {
        content,
        model,
        usage,
        stop_reason,
        error: None,
    }))
}

fn result(id: u8) -> EntryBody {
    EntryBody::from(Message::ToolResult(ToolResultMessage {
        call_id: id.to_string(),
        invocation_id: InvocationId::new(id.to_string()),
        tool: "echo".into(),
        content: vec![ResultContent::text("ok")],
        structured: None,
        details: Value::Null,
        is_error: false,
    }))
}

/// An entry of any kind; a compaction keeps from the entry of that index on.
#[derive(Debug, Clone)]
enum Kind {
    User,
    Answer(Vec<u8>, StopReason),
    Result(u8),
    Compaction(Option<prop::sample::Index>),
    Branch,
    Custom,
}

fn kinds() -> impl Strategy<Value = Kind> {
    let reason = prop::sample::select(vec![
        StopReason::Stop,
        StopReason::ToolUse,
        StopReason::Length,
        StopReason::Error,
        StopReason::Aborted,
    ]);
    prop_oneof![
        3 => Just(Kind::User),
        4 => (prop::collection::vec(0..4_u8, 0..4), reason).prop_map(|(calls, reason)| Kind::Answer(calls, reason)),
        5 => (0..4_u8).prop_map(Kind::Result),
        1 => any::<Option<prop::sample::Index>>().prop_map(Kind::Compaction),
        1 => Just(Kind::Branch),
        1 => Just(Kind::Custom),
    ]
}

fn body(index: usize, kind: &Kind) -> EntryBody {
    match kind {
        Kind::User => EntryBody::from(Message::User(UserMessage::text(format!("user {index}")))),
        Kind::Answer(calls, reason) => {
            let mut calls = calls.clone();
            calls.sort_unstable();
            calls.dedup();
            answer(calls, &format!("answer {index}"), *reason)
        }
        Kind::Result(id) => result(*id),
        Kind::Compaction(kept) => EntryBody::Compaction(Compaction {
            summary: format!("summary {index}"),
            first_kept: kept
                .filter(|_| index > 0)
                .map(|kept| entry(kept.index(index))),
            tokens_before: 0,
            reason: CompactionReason::Manual,
        }),
        Kind::Branch => EntryBody::BranchSummary(BranchSummary {
            summary: "b".into(),
            from: entry(0),
        }),
        Kind::Custom => EntryBody::Custom(CustomEntry {
            name: "x".into(),
            value: Value::Null,
        }),
    }
}

fn entry(index: usize) -> EntryId {
    EntryId::new(format!("e{index}"))
}

/// What the model was sent for a prompt after these entries.
fn seen(kinds: &[Kind]) -> Vec<Arc<Message>> {
    let place = Place::new();
    let store = Store::open(place.database()).unwrap();
    let mut transaction = Transaction::new();
    for (index, kind) in kinds.iter().enumerate() {
        transaction.append(
            entry(index),
            index.checked_sub(1).map(entry),
            body(index, kind),
        );
        transaction.set_tip(&LaneName::main(), Some(&entry(index)));
    }
    store.commit(transaction).unwrap();
    drop(store);
    let model = Model::scripted([says("Done.")]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        place.open(&model, vec![]).turn("last").await;
    });
    model.request(0).messages.to_vec()
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    messages
        .iter()
        .map(|message| match &**message {
            Message::User(user) => user.to_text(),
            Message::Assistant(answer) => answer.to_text(),
            Message::ToolResult(result) => format!("result {}", result.call_id),
        })
        .collect()
}

#[test]
fn the_last_compaction_stands_for_what_it_summarises_and_keeps_what_it_says() {
    let kinds = [
        Kind::User,
        Kind::Answer(vec![], StopReason::Stop),
        Kind::User,
        Kind::Compaction(None),
        Kind::User,
    ];
    let seen = texts(&seen(&kinds));
    assert!(seen[0].contains("summary 3"), "{seen:?}");
    assert_eq!(seen[1..], ["user 4", "last"]);
}

#[test]
fn failed_answers_are_not_shown_and_interrupted_ones_without_their_calls() {
    let kinds = [
        Kind::User,
        Kind::Answer(vec![], StopReason::Error),
        Kind::Answer(vec![1], StopReason::Aborted),
        Kind::Result(1),
    ];
    assert_eq!(texts(&seen(&kinds)), ["user 0", "answer 2", "last"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_tree_holds_the_request_is_one_that_a_provider_accepts(
        kinds in prop::collection::vec(kinds(), 0..30),
    ) {
        let messages = seen(&kinds);
        assert_valid(&messages);
        prop_assert_eq!(texts(&messages).pop(), Some("last".to_owned()));
        // Nothing from before the last compaction's first kept entry, and everything after it.
        let from = kinds.iter().rposition(|kind| matches!(kind, Kind::Compaction(_)));
        let first = match from {
            None => 0,
            Some(at) => match &kinds[at] {
                Kind::Compaction(Some(kept)) if at > 0 => kept.index(at),
                _ => at,
            },
        };
        let users: Vec<String> = kinds
            .iter()
            .enumerate()
            .filter(|(index, kind)| *index >= first && matches!(kind, Kind::User))
            .map(|(index, _)| format!("user {index}"))
            .collect();
        let shown: Vec<String> =
            texts(&messages).into_iter().filter(|text| text.starts_with("user ")).collect();
        prop_assert_eq!(shown, users);
    }
}
