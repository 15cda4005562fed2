//! Tools, behaviour by behaviour, as plugins and a model meet them. The numbers are those of the list of
//! behaviours that this product took over.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_session_types::{RunPhase, RunState, Tool, ToolError, ToolOutput, ToolSpec};
use bezel_testkit::{Script, ScriptedProvider, Step, Turn};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::world::{Kept, Place, TestTool, around, changed, dispose, says, text_of, tools};

/// Calls these tools, one turn after the other, and ends each turn with a word.
fn calls<'a>(names: impl IntoIterator<Item = &'a str>) -> ScriptedProvider {
    let turns = names
        .into_iter()
        .flat_map(|name| [Turn::tool_calls([(name, json!({}))]), Turn::text("Done.")]);
    ScriptedProvider::new(Script::new(turns))
}

/// What the model was offered, request by request.
fn offered(model: &ScriptedProvider) -> Vec<Vec<String>> {
    let names = |call: &bezel_testkit::ModelCall| {
        call.tools
            .iter()
            .map(|tool| tool.name.clone())
            .collect::<Vec<_>>()
    };
    model.calls().iter().map(names).collect()
}

/// Calls these tools in its first answer, after `meanwhile` was done and a second has passed.
fn calls_after(
    names: &'static [&'static str],
    meanwhile: impl Fn() + Send + Sync + 'static,
) -> ScriptedProvider {
    let asked = AtomicUsize::new(0);
    ScriptedProvider::new(Script::respond(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) > 0 {
            return Turn::text("Done.");
        }
        meanwhile();
        let steps = names.iter().map(|name| Step::call(name, json!({})));
        Turn::steps(
            [Step::delay(Duration::from_secs(1))]
                .into_iter()
                .chain(steps),
        )
    }))
}

/// The tools whose calls run.
fn running(state: &RunState) -> Vec<String> {
    match state {
        RunState::Running {
            phase: RunPhase::Tools { names },
            ..
        } => names.clone(),
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn opencode_21_disposing_a_contribution_removes_its_effect_alone_and_reveals_what_it_hid() {
    let (place, kept, model) = (
        Place::new(),
        Kept::default(),
        calls(["read", "read", "other"]),
    );
    let first = tools("first", &kept, |draft| {
        draft.set("read", says("first"));
        draft.set("other", says("other"));
    });
    let second = tools("second", &kept, |draft| {
        draft.replace("read", says("second"));
        draft.set("extra", says("extra"));
        draft.wrap("other", |within| around("second", within));
        assert!(draft.remove("gone"));
    });
    let third = tools("third", &kept, |draft| draft.set("last", says("last")));
    let hidden = tools("hidden", &kept, |draft| draft.set("gone", says("gone")));
    let session = place
        .open_facets(&model, vec![first, hidden, second, third])
        .await;
    session.turn("one").await;
    dispose(&kept, 2);
    session.turn("two").await;
    session.turn("three").await;
    assert_eq!(session.read().await, ["second", "first", "other"]);
    let offered = offered(&model);
    assert_eq!(offered[0], ["read", "other", "extra", "last"]);
    assert_eq!(offered[2], ["read", "other", "gone", "last"]);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_22_a_contribution_that_breaks_leaves_the_previous_tools_in_place_and_its_plugin_is_named()
 {
    type Break = fn(&mut bezel_api_session::ToolDraft);
    let breaks: [(Break, &str); 5] = [
        (|_| panic!("a bug"), "panicked"),
        (
            |draft| draft.set("no name", says("x")),
            "`no name` is not a tool name",
        ),
        (
            |draft| draft.wrap("read", |_| panic!("a bug")),
            "its wrapper around tool `read` panicked",
        ),
        (
            |draft| draft.restrict(|_| panic!("a bug")),
            "its restriction panicked when it was asked for tool `read`",
        ),
        (
            |draft| {
                let mut tool = TestTool::new(never);
                tool.spec = ToolSpec::default();
                draft.set("bad", Arc::new(tool));
            },
            "not a JSON Schema of an object",
        ),
    ];
    for (break_it, said) in breaks {
        let (place, kept, model) = (Place::new(), Kept::default(), calls(["read", "read"]));
        let broken = Arc::new(AtomicBool::new(false));
        let breaking = Arc::clone(&broken);
        let fine = tools("fine", &kept, |draft| draft.set("read", says("fine")));
        let changing = tools("changing", &kept, move |draft| {
            draft.wrap("read", |within| around("changing", within));
            if breaking.load(Ordering::SeqCst) {
                break_it(draft);
            }
        });
        let session = place.open_facets(&model, vec![fine, changing]).await;
        session.turn("one").await;
        assert!(session.host.problems().is_empty());
        broken.store(true, Ordering::SeqCst);
        changed(&kept, 1);
        session.turn("two").await;
        assert_eq!(
            session.read().await,
            ["changing(fine)", "changing(fine)"],
            "{said}"
        );
        let problems = session.host.problems();
        let problem = problems[0].to_string();
        assert!(
            problem.contains("`changing`") && problem.contains(said),
            "{problem}"
        );
        assert_eq!(problems.len(), 1);
        session.dies().await;
    }
}

async fn never(
    _: bezel_context::Context,
    _: bezel_session_types::ToolInvocation,
) -> Result<ToolOutput, ToolError> {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn opencode_22_a_broken_contribution_keeps_no_other_plugins_change_out() {
    let (place, kept, model) = (
        Place::new(),
        Kept::default(),
        calls(["read", "read", "read"]),
    );
    let narrow = Arc::new(AtomicBool::new(false));
    let narrows = Arc::clone(&narrow);
    let fine = tools("fine", &kept, |draft| {
        draft.set("read", says("read"));
        draft.set("write", says("write"));
    });
    let broken = tools("broken", &kept, |_| panic!("a bug"));
    let agents = tools("agents", &kept, move |draft| {
        let narrow = narrows.load(Ordering::SeqCst);
        draft.restrict(move |name| !narrow || name == "read");
    });
    let session = place.open_facets(&model, vec![fine, broken, agents]).await;
    session.turn("one").await;
    narrow.store(true, Ordering::SeqCst);
    changed(&kept, 2);
    session.turn("two").await;
    narrow.store(false, Ordering::SeqCst);
    changed(&kept, 2);
    session.turn("three").await;
    let offered = offered(&model);
    let all = ["read", "write"];
    assert_eq!(
        [&offered[0][..], &offered[2], &offered[4]],
        [&all[..], &["read"], &all]
    );
    assert_eq!(session.read().await, ["read", "read", "read"]);
    let problems = session.host.problems();
    assert!(problems[0].to_string().contains("`broken`"), "{problems:?}");
    assert_eq!(problems.len(), 1);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_23_a_rebuild_preserves_precedence() {
    let (place, kept, model) = (
        Place::new(),
        Kept::default(),
        calls(["read", "read", "read"]),
    );
    let base = tools("base", &kept, |draft| draft.set("read", says("base")));
    let refused = tools("refused", &kept, |draft| draft.set("read", says("refused")));
    let inner = tools("inner", &kept, |draft| {
        draft.wrap("read", |within| around("inner", within))
    });
    let outer = tools("outer", &kept, |draft| {
        draft.wrap("read", |within| around("outer", within))
    });
    let session = place
        .open_facets(&model, vec![base, refused, inner, outer])
        .await;
    session.turn("one").await;
    changed(&kept, 2);
    session.turn("two").await;
    changed(&kept, 0);
    session.turn("three").await;
    assert_eq!(session.read().await, vec!["outer(inner(base))"; 3]);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_24_what_was_offered_is_immutable_and_a_call_of_what_was_replaced_or_removed_since_runs_nothing()
 {
    let (place, kept) = (Place::new(), Kept::default());
    let ran = Arc::new(Mutex::new(Vec::<&str>::new()));
    let notes = |name: &'static str| -> Arc<dyn Tool> {
        let ran = Arc::clone(&ran);
        Arc::new(TestTool::new(move |_, _| {
            ran.lock().unwrap().push(name);
            std::future::ready(Ok(ToolOutput::text(name)))
        }))
    };
    let (stays, goes, new) = (notes("stays"), notes("goes"), notes("new"));
    let [replaced, wrapped] = [notes("replaced"), notes("wrapped")];
    let first = tools("first", &kept, {
        let (stays, replaced, wrapped) = (stays, replaced, wrapped);
        move |draft| {
            draft.set("stays", Arc::clone(&stays));
            draft.set("replaced", Arc::clone(&replaced));
            draft.set("wrapped", Arc::clone(&wrapped));
        }
    });
    let removed = tools("removed", &kept, move |draft| {
        draft.set("goes", Arc::clone(&goes))
    });
    let swapped = Arc::new(AtomicBool::new(false));
    let swapping = Arc::clone(&swapped);
    let swaps = tools("swaps", &kept, move |draft| {
        if swapping.load(Ordering::SeqCst) {
            draft.replace("replaced", Arc::clone(&new));
            draft.set("new", Arc::clone(&new));
            draft.wrap("wrapped", |within| around("w", within));
        }
    });
    let changes = Arc::clone(&kept);
    let names = &["stays", "goes", "replaced", "wrapped", "new", "never"];
    let model = calls_after(names, move || {
        swapped.store(true, Ordering::SeqCst);
        changed(&changes, 2);
        dispose(&changes, 1);
    });
    let session = place.open_facets(&model, vec![first, removed, swaps]).await;
    session.turn("do it").await;
    let (stale, unknown) = (json!("tool.stale"), json!("tool.unknown"));
    let expected = [
        Value::Null,
        stale.clone(),
        stale.clone(),
        stale,
        unknown.clone(),
        unknown,
    ];
    assert_eq!(session.codes().await, expected);
    assert_eq!(*ran.lock().unwrap(), ["stays"]);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_24_a_call_that_runs_keeps_its_tool_when_its_plugin_is_removed() {
    let (place, kept, model) = (Place::new(), Kept::default(), calls(["slow", "slow"]));
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let slow: Arc<dyn Tool> = Arc::new(TestTool::new(move |_, _| {
        let held = Arc::clone(&held);
        async move {
            held.notified().await;
            Ok(ToolOutput::text("finished"))
        }
    }));
    let leaves = tools("leaves", &kept, move |draft| {
        draft.set("slow", Arc::clone(&slow))
    });
    let stays = tools("stays", &kept, |draft| draft.set("other", says("other")));
    let mut session = place.open_facets(&model, vec![leaves, stays]).await;
    session.steer("do it").await;
    let mut activity = session.lane.activity();
    activity
        .wait_for(|state| running(state) == ["slow"])
        .await
        .unwrap();
    assert!(session.host.remove("leaves").await.is_empty());
    gate.notify_one();
    session.idle().await;
    session.turn("again").await;
    assert_eq!(session.codes().await, [Value::Null, json!("tool.unknown")]);
    assert_eq!(session.read().await[0], "finished");
    assert_eq!(offered(&model).last().unwrap(), &["other"]);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_25_a_rebuild_from_unchanged_registrations_makes_nothing_stale() {
    let (place, kept) = (Place::new(), Kept::default());
    let tool = says("read");
    let base = tools("base", &kept, move |draft| {
        draft.set("read", Arc::clone(&tool))
    });
    let wraps = tools("wraps", &kept, |draft| {
        draft.wrap("read", |within| around("wraps", within))
    });
    let other = tools("other", &kept, |draft| draft.set("other", says("other")));
    let changes = Arc::clone(&kept);
    let model = calls_after(&["read"], move || {
        changed(&changes, 0);
        changed(&changes, 1);
        dispose(&changes, 2);
    });
    let session = place.open_facets(&model, vec![base, wraps, other]).await;
    session.turn("do it").await;
    assert_eq!(session.read().await, ["wraps(read)"]);
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_25_a_tool_that_is_made_inside_its_contribution_is_the_same_until_its_own_plugin_changes_it()
 {
    let (place, kept) = (Place::new(), Kept::default());
    let held = says("held");
    let inline = tools("inline", &kept, move |draft| {
        draft.set("inline", says("inline"));
        draft.set("held", Arc::clone(&held));
    });
    let other = tools("other", &kept, |draft| draft.set("other", says("other")));
    let gone = tools("gone", &kept, |draft| draft.set("gone", says("gone")));
    let (changes, asked) = (Arc::clone(&kept), AtomicUsize::new(0));
    let model = ScriptedProvider::new(Script::respond(move |_| {
        match asked.fetch_add(1, Ordering::SeqCst) {
            // Others' rebuilds.
            0 => {
                changed(&changes, 1);
                dispose(&changes, 2);
            }
            // Its own: what is made inside is another tool now, what is held is the same.
            1 => changed(&changes, 0),
            _ => return Turn::text("Done."),
        }
        Turn::tool_calls([("inline", json!({})), ("held", json!({}))])
    }));
    let session = place.open_facets(&model, vec![inline, other, gone]).await;
    session.turn("do it").await;
    let stale = json!("tool.stale");
    assert_eq!(
        session.codes().await,
        [Value::Null, Value::Null, stale, Value::Null]
    );
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_26_invalid_input_never_executes_and_invalid_output_never_succeeds() {
    let (place, kept) = (Place::new(), Kept::default());
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let mut tool = TestTool::new(move |_, invocation| {
        counted.fetch_add(1, Ordering::SeqCst);
        let given = invocation.arguments["n"].clone();
        std::future::ready(Ok(ToolOutput::structured(json!({ "twice": given }))))
    });
    let schema = |name: &str, kind: &str| {
        let properties = json!({ name: { "type": kind } });
        Arc::new(json!({ "type": "object", "properties": properties, "required": [name] }))
    };
    tool.spec.parameters = Arc::new(json!({ "type": "object", "required": ["n"] }));
    tool.spec.output = Some(schema("twice", "integer"));
    let tool: Arc<dyn Tool> = Arc::new(tool);
    let facet = tools("counts", &kept, move |draft| {
        draft.set("count", Arc::clone(&tool))
    });
    let model = ScriptedProvider::new(Script::new([
        Turn::tool_calls([
            ("count", json!({})),
            ("count", json!({ "n": "many" })),
            ("count", json!({ "n": 2 })),
        ]),
        Turn::text("Done."),
    ]));
    let session = place.open_facets(&model, vec![facet]).await;
    session.turn("do it").await;
    let results = session.results().await;
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let codes = session.codes().await;
    assert_eq!(
        codes,
        [
            json!("tool.arguments"),
            json!("tool.invalid_output"),
            Value::Null
        ]
    );
    assert!(results[0].is_error && results[1].is_error && !results[2].is_error);
    assert!(text_of(&results[1]).contains("/twice"), "{results:?}");
    assert_eq!(results[1].structured, None);
    assert_eq!(results[2].structured, Some(json!({ "twice": 2 })));
    assert_eq!(text_of(&results[2]), "{\n  \"twice\": 2\n}");
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn opencode_29_interruption_and_panics_never_become_ordinary_results() {
    let (place, kept) = (Place::new(), Kept::default());
    let waits: Arc<dyn Tool> = Arc::new(TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        // A tool that takes an interruption for an answer.
        Err(ToolError::Interrupted)
    }));
    let lies: Arc<dyn Tool> = Arc::new(TestTool::new(|cx, _| async move {
        cx.cancelled().await;
        Ok(ToolOutput::text("all fine"))
    }));
    let panics: Arc<dyn Tool> = Arc::new(TestTool::new(|_, _| async { panic!("a bug") }));
    let facet = tools("harmful", &kept, move |draft| {
        draft.set("waits", Arc::clone(&waits));
        draft.set("lies", Arc::clone(&lies));
        draft.set("panics", Arc::clone(&panics));
    });
    let model = ScriptedProvider::new(Script::new([Turn::tool_calls([
        ("panics", json!({})),
        ("waits", json!({})),
        ("lies", json!({})),
    ])]));
    let session = place.open_facets(&model, vec![facet]).await;
    session.steer("do it").await;
    let mut activity = session.lane.activity();
    let left = |state: &RunState| running(state) == ["waits", "lies"];
    let state = activity.wait_for(left).await.unwrap().clone();
    let operation = state.operation_id().unwrap();
    session
        .lane
        .request_abort(&session.cx, operation)
        .await
        .unwrap();
    session.idle().await;
    assert_eq!(
        session.codes().await,
        [
            json!("tool.panic"),
            json!("interrupted"),
            json!("interrupted")
        ]
    );
    let read = session.read().await.remove(2);
    assert!(
        read.starts_with("Interrupted") && read.ends_with("all fine"),
        "{read}"
    );
    assert!(session.results().await.iter().all(|result| result.is_error));
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_tools_own_names_its_plugin_and_those_around_it() {
    let (place, kept, model) = (Place::new(), Kept::default(), calls(["panics", "lies"]));
    let own = tools("own", &kept, |draft| {
        draft.set(
            "panics",
            Arc::new(TestTool::new(|_, _| async { panic!("a bug") })),
        );
        let mut lies = TestTool::new(|_, _| {
            std::future::ready(Ok(ToolOutput::structured(json!({ "sum": "many" }))))
        });
        let properties = json!({ "sum": { "type": "integer" } });
        lies.spec.output = Some(Arc::new(
            json!({ "type": "object", "properties": properties }),
        ));
        draft.set("lies", Arc::new(lies));
    });
    let wraps = tools("wraps", &kept, |draft| {
        draft.wrap("panics", |within| around("wraps", within))
    });
    let session = place.open_facets(&model, vec![own, wraps]).await;
    session.turn("one").await;
    session.turn("two").await;
    let results = session.results().await;
    let panics = json!({ "code": "tool.panic", "plugin": "own", "wrapped_by": ["wraps"] });
    assert_eq!(results[0].details, panics);
    let lies = json!({ "code": "tool.invalid_output", "plugin": "own" });
    assert_eq!(results[1].details, lies);
    let read = session.read().await;
    assert!(
        read[0].contains("`panics` of plugin `own`, wrapped by `wraps`,"),
        "{read:?}"
    );
    assert!(read[1].contains("`lies` of plugin `own`"), "{read:?}");
    session.dies().await;
}
