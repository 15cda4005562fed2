//! `todo`.

use bezel_tools_contract::{TodoStatus, ToolDetails};
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
    let other = Session::new();
    other.shared.todos.restore(todo.items);
    assert_eq!(other.text("todo", json!({})).await, shown);
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
