//! What plugins have to say of whether a call may run, beside the rules, the mode and the person, over the real
//! harness.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bezel_api_session::{
    Evaluation, EventBody, Facet, FacetError, Namespace, SessionContext, SessionFacet,
};
use bezel_host_session::{HarnessConfig, HarnessEngine};
use bezel_permissions_contract::{PendingAsk, PermissionsClient, Reply};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::world::{Opened, Place};

/// What a plugin does when it is asked.
#[derive(Clone)]
enum Does {
    Says(Evaluation),
    Hangs,
    Fails,
    Panics,
}

fn says(plugin: &'static str, does: Does) -> SessionFacet {
    Facet::new(plugin, move |cx: SessionContext| {
        let does = does.clone();
        async move {
            cx.agent.hooks().evaluate_permission(move |_, call| {
                assert_eq!(&*call.tool, "bash");
                let does = does.clone();
                async move {
                    match does {
                        Does::Says(evaluation) => Ok(evaluation),
                        Does::Hangs => std::future::pending().await,
                        Does::Fails => Err("its list could not be read".into()),
                        Does::Panics => panic!("a bug"),
                    }
                }
            });
            Ok::<(), FacetError>(())
        }
    })
}

fn allow() -> Does {
    Does::Says(Evaluation::Allow)
}

fn deny(reason: &str) -> Does {
    Does::Says(Evaluation::Deny(reason.into()))
}

fn ask(reason: &str) -> Does {
    Does::Says(Evaluation::Ask(reason.into()))
}

type Handed = Arc<Mutex<Option<PermissionsClient>>>;
type Failures = watch::Sender<Vec<String>>;

/// Hands the permissions out, and notes which plugins failed.
fn probe(handed: Handed, failures: Failures) -> SessionFacet {
    Facet::new("asked", move |cx: SessionContext| {
        let (handed, failures) = (Arc::clone(&handed), failures.clone());
        async move {
            *handed.lock().unwrap() = Some(cx.use_service::<PermissionsClient>());
            cx.agent.events().subscribe(move |events| {
                let failed = events.iter().filter_map(|event| match &event.body {
                    EventBody::HandlerFailed { plugin, .. } => Some(plugin.clone()),
                    _ => None,
                });
                failures.send_modify(|failures| failures.extend(failed));
            });
            Ok::<(), FacetError>(())
        }
    })
    .requires::<PermissionsClient>(Namespace::Local)
}

/// A session with these plugins whose model runs one command.
struct World {
    place: Place,
    session: Opened,
    permissions: PermissionsClient,
    failures: Failures,
    /// The session above, where this is a child.
    parent: Option<Opened>,
}

impl World {
    async fn new(command: &str, config: Value, plugins: Vec<SessionFacet>) -> Self {
        Self::begin(command, config, plugins, false).await
    }

    async fn begin(
        command: &str,
        config: Value,
        mut plugins: Vec<SessionFacet>,
        in_child: bool,
    ) -> Self {
        let turns = [
            Turn::tool_calls([("bash", json!({ "command": command }))]),
            Turn::text("Done."),
        ];
        let model = ScriptedProvider::new(Script::new(turns));
        let (place, handed, failures) = (Place::new(), Handed::default(), Failures::default());
        let mut facets = vec![
            bezel_tools_session::facet(),
            bezel_permissions_session::facet(),
        ];
        facets.append(&mut plugins);
        facets.push(probe(Arc::clone(&handed), failures.clone()));
        let config = BTreeMap::from([("permissions", config)]);
        let (session, parent) = if in_child {
            let parent = place.open(&model).await;
            let child = place.open_child(&parent, &model, facets, config).await;
            (child, Some(parent))
        } else {
            let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
            let session = place.open_configured(engine, &model, facets, config).await;
            (session, None)
        };
        session.steer("go").await;
        let permissions = handed.lock().unwrap().take().unwrap();
        World {
            place,
            session,
            permissions,
            failures,
            parent,
        }
    }

    /// What a person is asked.
    async fn asked(&self) -> PendingAsk {
        let asks = self.permissions.asks();
        let asked = asks.wait_for(&self.session.cx, |asks| !asks.is_empty());
        asked.await.unwrap();
        asks.get()[0].clone()
    }

    async fn allows(&self) {
        let id = self.asked().await.id;
        let replied = self.permissions.reply(&self.session.cx, id, Reply::Once);
        replied.await.unwrap();
    }

    /// What the model read of the call.
    async fn read(&self) -> String {
        self.session.idle().await;
        self.session.read().await.join("|")
    }

    fn directory(&self) -> &Path {
        self.place.directory()
    }

    fn ran(&self) -> bool {
        self.directory().join("made").exists()
    }

    async fn ends(self) {
        self.session.dies().await;
        if let Some(parent) = self.parent {
            parent.dies().await;
        }
    }
}

const MAKE: &str = "touch made";

#[tokio::test]
async fn a_plugin_that_allows_answers_in_the_persons_place() {
    for in_child in [false, true] {
        let plugins = vec![says("allows", allow())];
        let world = World::begin(MAKE, json!({ "mode": "ask" }), plugins, in_child).await;
        world.session.idle().await;
        assert!(world.ran());
        world.ends().await;
    }
}

#[tokio::test]
async fn a_plugin_that_denies_is_final_over_mode_rule_and_another_that_allows_and_is_named() {
    let rule = json!([{ "action": "shell", "resource": "touch *", "effect": "allow" }]);
    for (mode, in_child) in [("full", false), ("ask", false), ("full", true)] {
        let plugins = vec![
            says("allows", allow()),
            says("guard", deny("it is after six")),
            // Nobody is asked any more.
            says("later", Does::Panics),
        ];
        let config = json!({ "mode": mode, "rules": rule });
        let world = World::begin(MAKE, config, plugins, in_child).await;
        let read = world.read().await;
        assert!(
            read.contains("`guard`") && read.contains("it is after six"),
            "{read}"
        );
        assert!(!world.ran());
        assert_eq!(world.session.codes().await, ["tool.denied"]);
        assert_eq!(*world.failures.borrow(), [""; 0]);
        world.ends().await;
    }
}

#[tokio::test]
async fn a_plugin_that_asks_has_the_person_asked_also_in_full_mode_and_for_this_call_alone() {
    let plugins = vec![says("allows", allow()), says("careful", ask("it is large"))];
    let world = World::new(MAKE, json!({ "mode": "full" }), plugins).await;
    let asked = world.asked().await.request;
    let reason = &asked.asked.last().unwrap().reason;
    assert!(
        reason.contains("`careful`") && reason.contains("it is large"),
        "{reason}"
    );
    assert_eq!(asked.covers, []);
    assert!(!world.ran());
    world.allows().await;
    world.session.idle().await;
    assert!(world.ran());
    world.ends().await;
}

#[tokio::test]
async fn opencode_31_a_rule_that_denies_or_may_deny_is_final_over_a_plugin_that_allows() {
    for in_child in [false, true] {
        let rules = json!([{ "action": "shell", "resource": "touch made", "effect": "deny" }]);
        let config = json!({ "mode": "full", "rules": rules });
        let world = World::begin(MAKE, config, vec![says("allows", allow())], in_child).await;
        let read = world.read().await;
        assert!(read.contains("denied by the configured rule"), "{read}");
        assert!(!world.ran());
        world.ends().await;
    }
    // It cannot be told whether it is what the rule denies.
    let rules = json!([{ "action": "shell", "resource": "touch made", "effect": "deny" }]);
    let config = json!({ "mode": "ask", "rules": rules });
    let world = World::new("touch $(echo made)", config, vec![says("allows", allow())]).await;
    world.asked().await;
    assert!(!world.ran());
    world.ends().await;
}

#[tokio::test]
async fn plan_mode_blocks_what_changes_something_whatever_a_plugin_allows_and_lets_it_answer_for_a_look()
 {
    let plan = json!({ "mode": "plan" });
    let world = World::new(MAKE, plan.clone(), vec![says("allows", allow())]).await;
    let read = world.read().await;
    assert!(read.contains("plan mode") && !world.ran(), "{read}");
    world.ends().await;
    // Outside of the project: asked for otherwise.
    let world = World::new("cat /proc/version", plan, vec![says("allows", allow())]).await;
    let read = world.read().await;
    assert!(read.contains("Linux"), "{read}");
    world.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_or_fails_is_named_says_nothing_and_lets_no_others_allowing_count() {
    for does in [Does::Hangs, Does::Fails, Does::Panics] {
        let plugins = vec![says("broken", does), says("allows", allow())];
        let world = World::new(MAKE, json!({ "mode": "ask" }), plugins).await;
        let asked = world.asked().await.request;
        assert_eq!(asked.asked[0].resource, MAKE);
        assert!(!world.ran());
        let mut failures = world.failures.subscribe();
        let failed = failures.wait_for(|failures| !failures.is_empty()).await;
        assert_eq!(*failed.unwrap(), ["broken"]);
        world.ends().await;
    }
}
