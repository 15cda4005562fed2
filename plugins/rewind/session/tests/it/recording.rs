//! Whose change is whose, as it is seen over a connection.

use std::sync::Arc;

use bezel_api_session::EventBody;
use bezel_rewind_contract::Origin;
use bezel_session_types::{Access, EntryId, InvocationId, ToolResultMessage};
use serde_json::json;

use crate::{files, start};

#[tokio::test]
async fn what_was_recorded_when_a_tool_ended_is_shown_to_who_asks_before_the_run_ends() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    place
        .call(Some(vec![Access::edit(place.root.join("a"))]))
        .await;
    std::fs::write(place.root.join("a"), "1").unwrap();
    place.ended("call").await;
    let state = place.rewind.refresh(&place.cx).await.unwrap();
    assert_eq!(state.points.last().unwrap().files, 1);
}

#[tokio::test]
async fn a_call_that_is_settled_without_having_run_owns_nothing() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    place.begin("never", None).await;
    place.session.agent.emit(EventBody::ToolEnded {
        invocation: InvocationId::new("never"),
        result: Arc::new(ToolResultMessage {
            call_id: "never".into(),
            invocation_id: InvocationId::new("never"),
            tool: "tool".into(),
            content: Vec::new(),
            structured: None,
            details: json!(null),
            is_error: true,
        }),
    });
    std::fs::write(place.root.join("mine"), "my work").unwrap();
    place.turn("a", "1").await;
    place.changed(1).await;
    place.rewind.stage(&place.cx, files("m2")).await.unwrap();
    assert_eq!(place.read("a").as_deref(), Some("0"));
    assert_eq!(place.read("mine").as_deref(), Some("my work"));
}

#[tokio::test]
async fn what_changed_while_a_command_ran_is_marked_and_what_force_overwrote_is_said() {
    let place = start(tempfile::tempdir().unwrap(), None).await;
    std::fs::write(place.root.join("a"), "0").unwrap();
    std::fs::write(place.root.join("b"), "0").unwrap();
    place.call(Some(vec![Access::shell("x", "/")])).await;
    std::fs::write(place.root.join("a"), "1").unwrap();
    place.ended("call").await;
    place.turn("b", "1").await;
    place.changed(2).await;
    let preview = place.rewind.preview(&place.cx, EntryId::new("m2")).await;
    let origins: Vec<_> = preview
        .unwrap()
        .files
        .iter()
        .map(|file| file.origin)
        .collect();
    assert_eq!(origins, [Origin::Command, Origin::Named]);
    place.rewind.stage(&place.cx, files("m2")).await.unwrap();
    std::fs::write(place.root.join("a"), "mine").unwrap();
    let cleared = place.rewind.clear(&place.cx, true).await.unwrap();
    let copy = &cleared.set_aside[0].copy;
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "mine");
}
