//! `todo`.

use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Entry, EntryBody, EntryId, InvocationId, Message, ToolResultMessage, UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use bezel_tools_contract::{TodoDetails, TodoItem, TodoStatus, ToolDetails};
use serde_json::json;

use crate::fixture::Session;

#[tokio::test]
async fn the_list_is_replaced_kept_and_shown() {
    let session = Session::new();
    assert_eq!(session.text("todo", json!({})).await, "The list is empty.");
    let items = json!({"items": [
        {"content": "Read the code", "status": "completed"},
        {"content": " Fix it ", "status": "in_progress"},
        {"content": "Test it", "status": "pending"},
    ]});
    let shown = "1 of 3 done.\n[x] Read the code\n[>] Fix it\n[ ] Test it\n";
    assert_eq!(session.text("todo", items).await, shown);
    assert_eq!(session.text("todo", json!({})).await, shown);
    let details = session.details("todo", json!({})).await;
    let ToolDetails::Todo(todo) = details else {
        panic!("{details:?}")
    };
    assert_eq!(todo.items[1].status, TodoStatus::InProgress);
    assert_eq!(
        session.text("todo", json!({"items": []})).await,
        "The list is empty."
    );
}

#[tokio::test]
async fn a_bad_list_changes_nothing() {
    let session = Session::new();
    session
        .text(
            "todo",
            json!({"items": [{"content": "Keep me", "status": "pending"}]}),
        )
        .await;
    let error = session
        .error(
            "todo",
            json!({"items": [{"content": "  ", "status": "pending"}]}),
        )
        .await;
    assert_eq!(
        error,
        "The list was not changed: task 1 has no text. Say what is to be done."
    );
    let long = "x".repeat(501);
    let error = session
        .error(
            "todo",
            json!({"items": [{"content": long, "status": "pending"}]}),
        )
        .await;
    assert!(error.contains("more than 500 characters"), "{error}");
    assert!(session.text("todo", json!({})).await.contains("Keep me"));
}

#[tokio::test]
async fn a_session_taken_up_has_the_list_that_an_earlier_process_left() {
    let directory = tempfile::tempdir().unwrap();
    let items = [
        ("newest", TodoStatus::InProgress),
        ("older", TodoStatus::Pending),
    ];
    let result = |(content, status): (&str, TodoStatus)| {
        let item = TodoItem {
            content: content.into(),
            status,
        };
        let details = ToolDetails::Todo(TodoDetails { items: vec![item] }).to_value();
        Message::ToolResult(ToolResultMessage {
            call_id: content.into(),
            invocation_id: InvocationId::new(content),
            tool: "todo".into(),
            content: vec![],
            structured: None,
            details,
            is_error: false,
        })
    };
    // Enough entries after it that the first page does not have it.
    let chatter = (0..250).map(|_| {
        Message::User(UserMessage {
            content: vec![],
            synthetic: false,
        })
    });
    let messages = items.into_iter().rev().map(result).chain(chatter);
    let entries: Vec<_> = messages
        .enumerate()
        .map(|(index, message)| Entry {
            id: EntryId::new(format!("entry-{index}")),
            parent: None,
            seq: index as u64,
            created_at: 0,
            body: EntryBody::Message {
                message: Arc::new(message),
            },
        })
        .collect();
    let options = FakeSessionOptions {
        prepare: Some(Box::new(move |agent| agent.set_entries(entries))),
        ..FakeSessionOptions::default()
    };
    let facets = vec![bezel_tools_session::facet()];
    let session = FakeSession::start(facets, directory.path(), options)
        .await
        .unwrap();
    let set = session.tools.current();
    let todo = set.tools.iter().find(|tool| tool.name == "todo").unwrap();
    let invocation = Session::new().invocation("todo", json!({}));
    let shown = todo
        .tool
        .execute(Context::background(), invocation)
        .await
        .unwrap();
    assert!(format!("{shown:?}").contains("[>] newest"), "{shown:?}");
}
