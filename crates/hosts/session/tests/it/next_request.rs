//! What the model would be sent, and what it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_api_session::{Facet, FacetError, SessionContext, SessionFacet, ToolDraft};
use bezel_session_types::{NextRequest, PromptSection};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use serde_json::json;

use crate::world::{Kept, Place, says, tools};

/// A part of the prompt, a hook that adds to it and counts what is sent, and one that fails.
fn prompting(sent: &Arc<AtomicUsize>) -> SessionFacet {
    let sent = Arc::clone(sent);
    Facet::new("rules", move |cx: SessionContext| {
        cx.prompt.add(|draft| draft.set("brief", "Be brief."));
        let hooks = cx.agent.hooks();
        hooks.before_request(|_, _| async { Err(FacetError::from("out of order")) });
        let sent = Arc::clone(&sent);
        hooks.before_request(move |_, mut draft| {
            draft.system.push_str(" Be kind.");
            sent.fetch_add(usize::from(!draft.preview), Ordering::SeqCst);
            async { Ok(draft) }
        });
        async { Ok::<(), FacetError>(()) }
    })
}

#[tokio::test(start_paused = true)]
async fn what_the_model_would_be_sent_now_is_what_the_next_request_begins_with() {
    let (place, kept) = (Place::new(), Kept::default());
    let model = ScriptedProvider::new(Script::new([
        Turn::tool_calls([("one", json!({}))]),
        Turn::text("Done."),
        Turn::text("Again."),
    ]));
    let sent = Arc::new(AtomicUsize::new(0));
    let one = tools("one", &kept, |draft: &mut ToolDraft| {
        draft.set("one", says("1"))
    });
    let session = place.open_facets(&model, vec![one, prompting(&sent)]).await;
    let next = async || session.lane.next_request(&session.cx).await.unwrap();
    let first = next().await;
    assert_eq!(
        (&*first.system, first.tip.clone(), first.messages.len()),
        ("Be brief. Be kind.", None, 0)
    );
    let section = PromptSection {
        name: "brief".into(),
        plugin: "rules".into(),
        text: "Be brief.".into(),
    };
    assert_eq!(first.sections, [section]);
    assert_eq!(
        first.passed_over,
        ["before_request of `rules`: out of order"]
    );
    assert_eq!((model.calls().len(), sent.load(Ordering::SeqCst)), (0, 0));

    session.turn("do it").await;
    let expected = next().await;
    assert_eq!(expected.tip, session.agent.tree().tip());
    assert_eq!(expected.messages.len(), 4);
    session.turn("once more").await;
    let request = model.requests().pop().unwrap();
    assert_eq!(
        (request.model, request.system, request.options),
        (
            expected.model.clone(),
            expected.system.clone(),
            expected.options.clone()
        )
    );
    assert_eq!(request.tools, expected.tools);
    let (said, before) = request.messages.split_last().unwrap();
    assert_eq!(before, &*expected.messages);
    assert!(format!("{said:?}").contains("once more"));
    assert_eq!(sent.load(Ordering::SeqCst), 3, "a preview is not counted");
    // It crosses as it is.
    let crossed = serde_json::to_value(&expected).unwrap();
    let crossed: NextRequest = serde_json::from_value(crossed).unwrap();
    assert_eq!(crossed, expected);
    session.dies().await;
}
