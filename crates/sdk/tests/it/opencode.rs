//! Behaviours of tools from the list that this product took over, by their numbers: a program's facets in a real
//! session host, behind a real server, asked over the wire.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bezel_sdk::session_api::{SessionContext, ToolDraft};
use bezel_sdk::{Context, PermissionMode, SessionFacet, ToolError, ToolOutput};
use bezel_session_types::{Tool, ToolInvocation, ToolSpec};
use bezel_testkit::{FakeModelServer, ModelCall, Script, Turn};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::world::{Runs, bezel, project, results};

/// A tool of a closure.
struct Made<F> {
    spec: ToolSpec,
    run: F,
}

impl<F> Tool for Made<F>
where
    F: Fn(ToolInvocation) -> Result<ToolOutput, ToolError> + Send + Sync,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        _cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        ready((self.run)(invocation)).boxed()
    }
}

fn made<F>(run: F) -> Arc<dyn Tool>
where
    F: Fn(ToolInvocation) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
{
    let parameters = Arc::new(json!({ "type": "object" }));
    let spec = ToolSpec {
        parameters,
        ..ToolSpec::default()
    };
    Arc::new(Made { spec, run })
}

fn says(words: &'static str) -> Arc<dyn Tool> {
    made(move |_| Ok(ToolOutput::text(words)))
}

/// What a test does to a plugin's contribution.
struct Hold {
    changed: Box<dyn Fn() + Send>,
    dispose: Box<dyn FnOnce() + Send>,
}

#[derive(Clone, Default)]
struct Held(Arc<Mutex<BTreeMap<&'static str, Hold>>>);

impl Held {
    /// A plugin of that name that contributes tools.
    fn plugin(
        &self,
        name: &'static str,
        contribute: impl Fn(&mut ToolDraft) + Send + Sync + 'static,
    ) -> SessionFacet {
        let (held, contribute) = (self.clone(), Arc::new(contribute));
        SessionFacet::new(name, move |cx: SessionContext| {
            let contribute = Arc::clone(&contribute);
            let added = cx.tools.add(move |draft| contribute(draft));
            let added = Arc::new(Mutex::new(Some(added)));
            let changing = Arc::clone(&added);
            let hold = Hold {
                changed: Box::new(move || changing.lock().unwrap().as_ref().unwrap().changed()),
                dispose: Box::new(move || added.lock().unwrap().take().unwrap().dispose()),
            };
            held.0.lock().unwrap().insert(name, hold);
            ready(Ok(()))
        })
    }

    /// Rebuilds because of a plugin.
    fn changed(&self, name: &str) {
        (self.0.lock().unwrap()[name].changed)();
    }

    /// Takes a plugin's contribution out.
    fn dispose(&self, name: &str) {
        let hold = self.0.lock().unwrap().remove(name).unwrap();
        (hold.dispose)();
    }
}

/// Calls the tools that it is told, with the arguments `arguments`, after `before` was done; and repeats what came of
/// them.
fn obedient(
    arguments: Value,
    before: impl Fn(&str) + Send + Sync + 'static,
) -> impl Fn(&ModelCall) -> Turn + Send + Sync {
    move |call| {
        let came = results(call);
        if !came.is_empty() {
            let told: Vec<&str> = came.iter().map(|(text, _)| &**text).collect();
            return Turn::text(&told.join("|"));
        }
        let words = call.last_user_text();
        before(words);
        let names = words.split_whitespace();
        Turn::tool_calls(names.map(|name| (name, arguments[name].clone())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_21_22_23_24_25_hold_for_the_facets_of_a_program_over_a_server() {
    let held = Held::default();
    let changing = held.clone();
    let script = Script::respond(obedient(
        json!({ "shared": {}, "other": {}, "safe": {}, "goes": {} }),
        move |words| match words {
            // Between the offer and the call.
            "safe goes" => changing.dispose("goes"),
            "safe safe" => {
                changing.changed("first");
                changing.changed("breaks");
            }
            _ => {}
        },
    ));
    let model = FakeModelServer::start(script).await.unwrap();
    let (breaks, runs) = (Arc::new(AtomicBool::new(false)), Runs::default());
    let (breaking, counted) = (Arc::clone(&breaks), runs.clone());
    // Registered once: a rebuild takes the same again.
    let [shared, other, second, safe] = ["first", "other", "second", "safe"].map(says);
    let goes = made(move |_| {
        counted.add();
        Ok(ToolOutput::text("gone"))
    });
    let builder = bezel(&model)
        .permission_mode(PermissionMode::Full)
        .plugin(held.plugin("first", move |draft| {
            draft.set("shared", Arc::clone(&shared));
            draft.set("other", Arc::clone(&other));
        }))
        .plugin(held.plugin("second", move |draft| {
            draft.replace("shared", Arc::clone(&second))
        }))
        .plugin(held.plugin("breaks", move |draft| {
            assert!(!breaking.load(Ordering::SeqCst), "it breaks");
            draft.set("safe", Arc::clone(&safe));
        }))
        .plugin(held.plugin("goes", move |draft| draft.set("goes", Arc::clone(&goes))));
    let bezel = builder.start().await.unwrap();
    let project = project();
    let session = bezel.session(project.path()).await.unwrap();
    let ask = async |tools: &str| session.prompt(tools).await.unwrap().into_text();

    assert_eq!(ask("shared other safe").await, "second|other|safe");
    held.changed("first");
    assert_eq!(ask("shared").await, "second", "23: precedence is kept");
    breaks.store(true, Ordering::SeqCst);
    held.changed("breaks");
    assert_eq!(
        ask("shared safe").await,
        "second|safe",
        "22: the previous tools"
    );
    breaks.store(false, Ordering::SeqCst);
    held.dispose("second");
    assert_eq!(ask("shared other").await, "first|other", "21: what it hid");
    assert_eq!(ask("safe safe").await, "safe|safe", "25: nothing is stale");
    let late = ask("safe goes").await;
    assert!(
        late.starts_with("safe|") && late.contains("removed since"),
        "24: {late}"
    );
    assert_eq!(runs.count(), 0, "24: it ran nothing");
    bezel.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_26_27_28_hold_for_the_facets_of_a_program_over_a_server() {
    let arguments = json!({ "counts": { "n": "two" }, "lies": {}, "long": {}, "blocked": {} });
    let script = Script::respond(obedient(arguments, |_| {}));
    let model = FakeModelServer::start(script).await.unwrap();
    let (runs, held) = (Runs::default(), Held::default());
    let counted = runs.clone();
    let integer = |name: &str| {
        let properties = json!({ name: { "type": "integer" } });
        Arc::new(json!({ "type": "object", "properties": properties, "required": [name] }))
    };
    let counts: Arc<dyn Tool> = Arc::new(Made {
        spec: ToolSpec {
            parameters: integer("n"),
            ..ToolSpec::default()
        },
        run: move |_: ToolInvocation| {
            counted.add();
            Ok(ToolOutput::text("counted"))
        },
    });
    let lies: Arc<dyn Tool> = Arc::new(Made {
        spec: ToolSpec {
            parameters: Arc::new(json!({ "type": "object" })),
            output: Some(integer("twice")),
            ..ToolSpec::default()
        },
        run: |_: ToolInvocation| Ok(ToolOutput::structured(json!({ "twice": "much" }))),
    });
    let whole = || "a line of it\n".repeat(20_000);
    let long = made(move |_| Ok(ToolOutput::text(whole())));
    // What would be saved has no place.
    let blocked = made(move |call| {
        let file = call.host.output_file(&call.invocation_id);
        let place = file.parent().unwrap();
        std::fs::remove_dir_all(place).unwrap();
        std::fs::write(place, "in the way").unwrap();
        Ok(ToolOutput::text(whole()))
    });
    let tools = held.plugin("made", move |draft| {
        draft.set("counts", Arc::clone(&counts));
        draft.set("lies", Arc::clone(&lies));
        draft.set("long", Arc::clone(&long));
        draft.set("blocked", Arc::clone(&blocked));
    });
    let builder = bezel(&model).permission_mode(PermissionMode::Full);
    let bezel = builder.plugin(tools).start().await.unwrap();
    let project = project();
    let session = bezel.session(project.path()).await.unwrap();
    let ask = async |tool: &str| {
        session.prompt(tool).await.unwrap();
        results(&model.last_call()).remove(0).0
    };
    let told = ask("counts").await;
    assert!(told.contains("/n"), "26: {told}");
    assert_eq!(runs.count(), 0, "26: it never executed");
    let told = ask("lies").await;
    assert!(told.contains("/twice"), "26: {told}");
    let told = ask("long").await;
    assert!(told.len() < 60 * 1024, "27: {} bytes", told.len());
    let told = ask("blocked").await;
    assert!(told.contains("could not be saved"), "28: {told}");
    bezel.stop().await.unwrap();
}
