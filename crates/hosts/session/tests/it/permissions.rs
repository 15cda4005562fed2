//! The permissions and tools plugins over the real harness: what is judged is what runs, and a search looks into
//! nothing that would be asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bezel_api_session::{BeforeTool, Facet, FacetError, Namespace, SessionContext, SessionFacet};
use bezel_host_session::{HarnessConfig, HarnessEngine};
use bezel_permissions_contract::{PendingAsk, PermissionsClient, Reply};
use bezel_session_types::{Message, SubmitOutcome};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use serde_json::{Value, json};

use crate::world::{Opened, Place};

struct World {
    place: Place,
    session: Opened,
    permissions: PermissionsClient,
}

/// A model that calls one tool with these arguments and then ends.
fn calling(tool: &'static str, arguments: Value) -> ScriptedProvider {
    let turns = [Turn::tool_calls([(tool, arguments)]), Turn::text("Done.")];
    ScriptedProvider::new(Script::new(turns))
}

/// Replaces the arguments of every call before it is judged, and hands the permissions out.
fn changer(
    replacement: Option<Value>,
    handed: Arc<Mutex<Option<PermissionsClient>>>,
) -> SessionFacet {
    Facet::new("changer", move |cx: SessionContext| {
        let (replacement, handed) = (replacement.clone(), Arc::clone(&handed));
        async move {
            if let Some(replacement) = replacement {
                cx.agent.hooks().before_tool(move |_, _| {
                    let replacement = replacement.clone();
                    async move { Ok(BeforeTool::Arguments(replacement)) }
                });
            }
            *handed.lock().unwrap() = Some(cx.use_service::<PermissionsClient>());
            Ok::<(), FacetError>(())
        }
    })
    .requires::<PermissionsClient>(Namespace::Local)
}

async fn world(model: &ScriptedProvider, replacement: Option<Value>, rules: Value) -> World {
    let place = Place::new();
    let handed = Arc::new(Mutex::new(None));
    let facets = vec![
        bezel_tools_session::facet(),
        bezel_permissions_session::facet(),
        changer(replacement, Arc::clone(&handed)),
    ];
    let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
    let config = BTreeMap::from([("permissions", json!({ "mode": "ask", "rules": rules }))]);
    let session = place.open_configured(engine, model, facets, config).await;
    let permissions = handed.lock().unwrap().take().unwrap();
    World {
        place,
        session,
        permissions,
    }
}

impl World {
    async fn asked(&self) -> PendingAsk {
        let asks = self.permissions.asks();
        let asked = asks.wait_for(&self.session.cx, |asks| !asks.is_empty());
        asked.await.unwrap();
        asks.get()[0].clone()
    }

    fn is_there(&self, name: &str) -> bool {
        self.place.directory().join(name).exists()
    }

    /// The texts of the tool results on the path.
    async fn results(&self) -> Vec<String> {
        let (entries, _) = self.session.agent.tree().recent(None, 100).await.unwrap();
        let results = entries.iter().filter_map(|entry| match entry.message() {
            Some(Message::ToolResult(result)) => Some(format!("{:?}", result.content)),
            _ => None,
        });
        results.collect()
    }
}

fn touching(name: &str) -> Value {
    json!({ "command": format!("touch {name}") })
}

#[tokio::test]
async fn what_a_hook_made_of_a_call_is_what_is_asked_for_and_what_runs() {
    let model = calling("bash", touching("said"));
    let world = world(&model, Some(touching("meant")), json!([])).await;
    world.session.steer("go").await;
    let ask = world.asked().await;
    assert_eq!(ask.request.arguments, touching("meant"));
    assert_eq!(ask.request.asked[0].resource, "touch meant");
    assert!(!world.is_there("meant"), "nothing runs before the reply");
    let replied = world
        .permissions
        .reply(&world.session.cx, ask.id, Reply::Once);
    assert_eq!(replied.await.unwrap(), SubmitOutcome::Accepted);
    world.session.idle().await;
    assert!(world.is_there("meant") && !world.is_there("said"));
}

#[tokio::test]
async fn a_call_that_a_hook_turns_into_a_denied_one_does_not_run() {
    let rules = json!([
        { "action": "shell", "resource": "touch *", "effect": "allow" },
        { "action": "shell", "resource": "touch denied", "effect": "deny" },
    ]);
    let model = calling("bash", touching("allowed"));
    let world = world(&model, Some(touching("denied")), rules).await;
    world.session.steer("go").await;
    world.session.idle().await;
    assert!(!world.is_there("denied") && !world.is_there("allowed"));
    let results = world.results().await;
    assert!(
        results[0].contains("denied by the configured rule"),
        "{results:?}"
    );
}

#[tokio::test]
async fn a_denied_call_that_a_hook_turns_into_an_allowed_one_runs_as_that() {
    let rules = json!([
        { "action": "shell", "resource": "touch *", "effect": "allow" },
        { "action": "shell", "resource": "touch denied", "effect": "deny" },
    ]);
    let model = calling("bash", touching("denied"));
    let world = world(&model, Some(touching("allowed")), rules).await;
    world.session.steer("go").await;
    world.session.idle().await;
    assert!(world.is_there("allowed") && !world.is_there("denied"));
}

#[tokio::test]
async fn a_search_leaves_out_what_would_be_asked_for_and_a_null_is_nothing_said() {
    let search = json!({ "pattern": "KEY", "hidden": true, "path": null, "mode": null });
    let world = world(&calling("grep", search), None, json!([])).await;
    std::fs::write(world.place.directory().join(".env"), "KEY=hunter2").unwrap();
    std::fs::write(world.place.directory().join("notes"), "KEY is in .env").unwrap();
    world.session.steer("go").await;
    world.session.idle().await;
    let results = world.results().await;
    assert!(results[0].contains("KEY is in .env"), "{results:?}");
    assert!(
        results[0].contains("1 file was not searched"),
        "{results:?}"
    );
    assert!(!results[0].contains("hunter2"), "{results:?}");
}

#[tokio::test]
async fn a_call_runs_where_it_was_judged_whatever_another_one_of_its_step_did() {
    let call = |command: &str| ("bash", json!({ "command": command }));
    let calls = [call("cd keep && touch x"), call("rm -r build")];
    let turns = [Turn::tool_calls(calls), Turn::text("Done.")];
    let model = ScriptedProvider::new(Script::new(turns));
    let world = world(&model, None, json!([])).await;
    for folder in ["keep/build", "build"] {
        std::fs::create_dir_all(world.place.directory().join(folder)).unwrap();
    }
    world.session.steer("go").await;
    let first = world.asked().await;
    assert_eq!(first.request.asked[0].resource, "cd keep && touch x");
    let once = |ask: PendingAsk| {
        let (permissions, cx) = (&world.permissions, &world.session.cx);
        async move { permissions.reply(cx, ask.id, Reply::Once).await.unwrap() }
    };
    assert_eq!(once(first).await, SubmitOutcome::Accepted);
    // The first one has run and moved before the second is answered.
    while world.results().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let second = world.asked().await;
    assert_eq!(second.request.asked[0].resource, "rm -r build");
    assert_eq!(once(second).await, SubmitOutcome::Accepted);
    world.session.idle().await;
    assert!(world.is_there("keep/x") && world.is_there("keep/build"));
    assert!(!world.is_there("build"));
}
