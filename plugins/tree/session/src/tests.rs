//! The tree as a presentation uses it: over a connection.

use std::sync::Arc;

use bezel_api_session::{EventBody, NavigationError};
use bezel_context::Context;
use bezel_rpc::CallError;
use bezel_session_types::{
    BranchSummary, CustomEntry, Entry, EntryBody, EntryId, Message, UserMessage,
};
use bezel_testkit::{FakeSession, FakeSessionOptions};
use bezel_tree_contract::{Destination, NavigateRequest, NodeKind, TreeClient, TreeError};

fn entry(id: &str, parent: Option<&str>, seq: u64, body: EntryBody) -> Entry {
    Entry {
        id: EntryId::new(id),
        parent: parent.map(EntryId::new),
        seq,
        created_at: 0,
        body,
    }
}

fn said(text: &str) -> EntryBody {
    EntryBody::Message {
        message: Arc::new(Message::User(UserMessage::text(text))),
    }
}

async fn tree() -> (FakeSession, TreeClient, Context) {
    let directory = tempfile::tempdir().unwrap();
    let options = FakeSessionOptions {
        prepare: Some(Box::new(|agent| {
            let summary = BranchSummary {
                summary: "tried it".into(),
                from: EntryId::new("x"),
            };
            let fact = CustomEntry {
                name: "harness.failed".into(),
                value: serde_json::json!({ "message": "no model" }),
            };
            agent.set_entries(vec![
                entry("one", None, 1, said("first\nline")),
                entry("two", Some("one"), 2, EntryBody::BranchSummary(summary)),
                entry("three", Some("two"), 5, EntryBody::Custom(fact)),
            ]);
        })),
        ..FakeSessionOptions::default()
    };
    let session = FakeSession::start(vec![crate::facet()], directory.path(), options)
        .await
        .unwrap();
    let tree: TreeClient = session.remote().use_service();
    let cx = Context::background();
    tree.state().ready(&cx).await.unwrap();
    (session, tree, cx)
}

#[tokio::test]
async fn the_outline_has_every_entry_in_short_by_pages_with_its_label() {
    let (_session, tree, cx) = tree().await;
    tree.label(&cx, EntryId::new("two"), Some("  left\nthere ".into()))
        .await
        .unwrap();
    let newest = tree.outline(&cx, None, 2).await.unwrap();
    assert!(newest.has_older);
    let shown: Vec<_> = newest
        .nodes
        .iter()
        .map(|node| (node.kind, node.text.as_str(), node.label.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            (NodeKind::Branch, "tried it", Some("left there")),
            (NodeKind::Other, "no model", None)
        ]
    );
    let oldest = tree
        .outline(&cx, Some(newest.nodes[0].seq), 2)
        .await
        .unwrap();
    assert!(!oldest.has_older);
    assert_eq!(oldest.nodes[0].text, "first line");
    let unknown = tree.label(&cx, EntryId::new("no"), None).await;
    assert!(matches!(
        unknown,
        Err(CallError::Service(TreeError::UnknownEntry { .. }))
    ));
}

#[tokio::test]
async fn going_before_an_entry_goes_to_its_parent_and_the_beginning_takes_no_summary() {
    let (session, tree, cx) = tree().await;
    let go = |to| NavigateRequest {
        to,
        summary: Some("keep it".into()),
        label: Some("here".into()),
    };
    let before = |entry: &str| Destination::Before {
        entry: EntryId::new(entry),
    };
    tree.navigate(&cx, go(before("two"))).await.unwrap();
    tree.navigate(&cx, go(before("one"))).await.unwrap();
    let navigations = session.agent.navigations();
    assert_eq!(navigations[0].target, Some(EntryId::new("one")));
    assert_eq!(navigations[0].summary.as_deref(), Some("keep it"));
    assert_eq!(navigations[1], Default::default());
    session
        .agent
        .refuse_navigations(NavigationError::Busy("something runs".into()));
    let busy = tree.navigate(&cx, go(before("two"))).await;
    assert!(matches!(
        busy,
        Err(CallError::Service(TreeError::Busy { message })) if message == "something runs"
    ));
}

#[tokio::test]
async fn what_a_person_said_can_be_read_whole_and_the_state_tells_of_changes() {
    let (session, tree, cx) = tree().await;
    let text = tree.text(&cx, EntryId::new("one")).await.unwrap();
    assert_eq!(text, "first\nline");
    assert!(tree.text(&cx, EntryId::new("two")).await.is_err());
    let before = tree.state().get();
    assert_eq!(before.tip, Some(EntryId::new("three")));
    session
        .agent
        .set_entries(vec![entry("one", None, 1, said("first"))]);
    let tip = Some(EntryId::new("one"));
    session
        .agent
        .emit(EventBody::Navigated { tip: tip.clone() });
    let moved = tree.state().wait_for(&cx, |state| state.tip == tip).await;
    assert!(moved.unwrap().revision > before.revision);
}
