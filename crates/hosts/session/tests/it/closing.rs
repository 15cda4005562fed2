//! A host that is closed leaves nothing in its process (behaviour 36), and what ran in it goes on in the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bezel_api_session::{
    BeforeTool, Evaluation, Facet, FacetError, SessionContext, SessionFacet, ToolDraft,
};
use bezel_session_types::ToolOutput;
use bezel_testkit::{Script, ScriptedProvider, Step, Turn};
use serde_json::json;

use crate::world::{Kept, Opened, Place, TestTool, says, tools};

/// Something that every registration holds, so that one which stays can be told.
type Held = Arc<&'static str>;

/// What a test keeps of everything that registrations hold.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Vec<Weak<&'static str>>>>);

impl Watched {
    fn hold(&self, what: &'static str) -> Held {
        let held = Arc::new(what);
        self.0.lock().unwrap().push(Arc::downgrade(&held));
        held
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn left(&self) -> Vec<&'static str> {
        let watched = self.0.lock().unwrap();
        let held = watched.iter().filter_map(Weak::upgrade);
        held.map(|held| *held).collect()
    }
}

/// A plugin that registers something of every kind, and has a task that ends by itself never.
fn registering(watched: &Watched) -> SessionFacet {
    let watched = watched.clone();
    Facet::new("registering", move |cx: SessionContext| {
        let watched = watched.clone();
        async move {
            let hooks = cx.agent.hooks();
            let held = watched.hold("before_tool");
            hooks.before_tool(move |_, _| {
                let held = Arc::clone(&held);
                async move {
                    drop(held);
                    Ok(BeforeTool::Continue)
                }
            });
            let held = watched.hold("evaluate_permission");
            hooks.evaluate_permission(move |_, _| {
                let held = Arc::clone(&held);
                async move {
                    drop(held);
                    Ok(Evaluation::Nothing)
                }
            });
            let held = watched.hold("after_response");
            hooks.after_response(move |_, message| {
                let held = Arc::clone(&held);
                async move {
                    drop(held);
                    Ok(message)
                }
            });
            let held = watched.hold("session_end");
            hooks.session_end(move |_| {
                let held = Arc::clone(&held);
                async move {
                    drop(held);
                    Ok(())
                }
            });
            let held = watched.hold("prompt");
            cx.prompt.add(move |draft| draft.set(*held, "Be brief."));
            let held = watched.hold("events");
            cx.agent
                .events()
                .subscribe(move |_| drop(Arc::clone(&held)));
            let held = watched.hold("task");
            cx.spawner().spawn("endless", async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            let held = watched.hold("on_dispose");
            cx.on_dispose(move || async move {
                drop(held);
                Ok(())
            });
            let held = watched.hold("own");
            cx.own(held);
            Ok::<(), FacetError>(())
        }
    })
}

/// A plugin with a tool that is made beforehand, and something around another's.
fn contributing(watched: &Watched, kept: &Kept) -> SessionFacet {
    let (in_tool, in_contribution) = (watched.hold("tool"), watched.hold("contribution"));
    let tool = TestTool::new(move |_, _| {
        let words = *in_tool;
        async move { Ok(ToolOutput::text(words)) }
    });
    let tool: Arc<dyn bezel_session_types::Tool> = Arc::new(tool);
    tools("contributing", kept, move |draft: &mut ToolDraft| {
        drop(Arc::clone(&in_contribution));
        draft.set("read", Arc::clone(&tool));
        draft.restrict(|_| true);
    })
}

fn model() -> ScriptedProvider {
    let turns = [Turn::tool_calls([("read", json!({}))]), Turn::text("Done.")];
    ScriptedProvider::new(Script::new(turns))
}

/// A parent and its child, each after a turn.
async fn tree(place: &Place, watched: &Watched) -> (Opened, Opened) {
    let facets = || {
        // Kept outside, as a plugin may do: it holds nothing of the host.
        let kept = Kept::default();
        let facets = vec![registering(watched), contributing(watched, &kept)];
        (facets, kept)
    };
    let (of_parent, _kept) = facets();
    let parent = place.open_facets(&model(), of_parent).await;
    let (of_child, _kept) = facets();
    let child = place
        .open_child(&parent, &model(), of_child, BTreeMap::new())
        .await;
    for session in [&child, &parent] {
        session.turn("do it").await;
        assert_eq!(session.read().await, ["tool"]);
    }
    (parent, child)
}

#[tokio::test(start_paused = true)]
async fn opencode_36_closing_many_hosts_releases_all_their_registrations_tasks_and_memory() {
    let watched = Watched::default();
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for round in 0..20 {
        let place = Place::new();
        let (parent, child) = tree(&place, &watched).await;
        assert!(
            watched.left().len() >= 22,
            "they are held while the hosts run"
        );
        assert!(metrics.num_alive_tasks() > before);
        child.dies().await;
        assert_eq!(watched.left().len(), 11, "those of the parent");
        parent.dies().await;
        assert_eq!(watched.left(), [""; 0], "round {round}");
        assert_eq!(metrics.num_alive_tasks(), before, "round {round}");
    }
    assert_eq!(watched.count(), 20 * 22);
}

/// A plugin that takes three seconds to end.
fn slow_to_end() -> SessionFacet {
    Facet::new("slow-to-end", |cx: SessionContext| async move {
        cx.on_dispose(|| async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(())
        });
        Ok::<(), FacetError>(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_run_is_over_before_the_plugins_that_it_needs_end() {
    let model = || {
        ScriptedProvider::new(Script::respond(|call| {
            match call.last_results().is_empty() {
                true => Turn::steps([
                    Step::delay(Duration::from_secs(1)),
                    Step::call("read", json!({})),
                ]),
                false => Turn::text("Done."),
            }
        }))
    };
    let (place, kept) = (Place::new(), Kept::default());
    // The last one ends first: its tool is gone while the model answers.
    let facets = || {
        let brings = tools("brings", &kept, |draft: &mut ToolDraft| {
            draft.set("read", says("read"))
        });
        vec![slow_to_end(), brings]
    };
    let session = place.open_facets(&model(), facets()).await;
    session.steer("one").await;
    session.runs().await;
    session.dies().await;
    let session = place.open_facets(&model(), facets()).await;
    session.idle().await;
    assert_eq!(session.read().await, ["read"]);
    assert_eq!(session.said().await, ["one", "", "Done."]);
}
