//! What a presentation sees is the tree's: projected while it happened or from the tree afterwards, it is the same.

use std::sync::{Arc, Mutex};

use bezel_api_session::{Facet, FacetError, Namespace, SessionContext, SessionFacet};
use bezel_host_session::{HarnessConfig, HarnessEngine};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use bezel_transcript_contract::{Item, ItemBody, TranscriptClient};
use serde_json::json;

use crate::world::{Opened, Place};

async fn open(place: &Place, model: &ScriptedProvider) -> (Opened, TranscriptClient) {
    let handed = Arc::new(Mutex::new(None));
    let hand = Arc::clone(&handed);
    let reader: SessionFacet = Facet::new("reader", move |cx: SessionContext| {
        let hand = Arc::clone(&hand);
        async move {
            *hand.lock().unwrap() = Some(cx.use_service::<TranscriptClient>());
            Ok::<(), FacetError>(())
        }
    })
    .requires::<TranscriptClient>(Namespace::Local);
    let facets = vec![
        bezel_tools_session::facet(),
        bezel_transcript_session::facet(),
        reader,
    ];
    let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
    let session = place.open_with(engine, model, facets).await;
    let transcript = handed.lock().unwrap().take().unwrap();
    (session, transcript)
}

/// Without the times, which are those of the event in the one and of the entry in the other.
fn timeless(items: &[Item]) -> Vec<Item> {
    let timeless = |item: &Item| {
        let mut item = item.clone();
        item.at.clear();
        if let ItemBody::Tool(tool) = &mut item.body {
            tool.ended_at = None;
        }
        item
    };
    items.iter().map(timeless).collect()
}

#[tokio::test]
async fn opencode_17_replaying_the_log_gives_the_same_projection() {
    let place = Place::new();
    let model = ScriptedProvider::new(Script::new([
        Turn::tool_calls([
            ("bash", json!({ "command": "echo one; exit 3" })),
            ("ls", json!({})),
            ("nowhere", json!({})),
        ]),
        Turn::text("First."),
        Turn::text("Second."),
    ]));
    let (session, transcript) = open(&place, &model).await;
    session.steer("go").await;
    session.idle().await;
    session.steer("again").await;
    session.idle().await;
    let ended = |items: &[Item]| {
        let asked = |item: &&Item| matches!(item.body, ItemBody::User { .. });
        let last = items.last().map(|item| &item.body);
        items.iter().filter(asked).count() == 2
            && matches!(last, Some(ItemBody::Assistant { done: true, .. }))
    };
    let state = transcript.state();
    state
        .wait_for(&session.cx, |state| ended(&state.items))
        .await
        .unwrap();
    let live = state.get().items.clone();
    session.dies().await;
    // Who holds a service of a session that is over holds nothing of its database.
    let (session, again) = open(&place, &model).await;
    drop((state, transcript));
    let replayed = again.state().get().items.clone();
    assert_eq!(timeless(&replayed), timeless(&live));
    session.dies().await;
}
