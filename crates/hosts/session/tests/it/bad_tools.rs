//! What plugins contribute that cannot be taken: each is refused by the name of its plugin, and nothing else is
//! disturbed.

use std::sync::Arc;

use bezel_api_session::ToolDraft;
use bezel_session_types::Tool;
use bezel_testkit::{Script, ScriptedProvider, Turn};
use serde_json::{Value, json};

use crate::world::{Kept, Place, TestTool, around, says, tools};

fn tool(change: impl FnOnce(&mut TestTool)) -> Arc<dyn Tool> {
    let mut tool = TestTool::new(|_, _| std::future::pending());
    change(&mut tool);
    Arc::new(tool)
}

fn with_parameters(schema: Value) -> Arc<dyn Tool> {
    tool(|tool| tool.spec.parameters = Arc::new(schema))
}

/// Starts a session in which the plugin `bad` contributes so, between two that are right.
async fn refused(contribute: impl Fn(&mut ToolDraft) + Send + Sync + 'static, named: &[&str]) {
    let (place, kept) = (Place::new(), Kept::default());
    let turns = [
        Turn::tool_calls([("first", json!({})), ("last", json!({}))]),
        Turn::text("Done."),
    ];
    let model = ScriptedProvider::new(Script::new(turns));
    let first = tools("one", &kept, |draft| draft.set("first", says("first")));
    let bad = tools("bad", &kept, contribute);
    let last = tools("other", &kept, |draft| draft.set("last", says("last")));
    let session = place.open_facets(&model, vec![first, bad, last]).await;
    let problems = session.host.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems[0].to_string();
    for named in named.iter().chain(&["`bad`"]) {
        assert!(problem.contains(named), "{named} is missing in: {problem}");
    }
    session.turn("do it").await;
    assert_eq!(session.read().await, ["first", "last"]);
    let offered = &model.calls()[0].tools;
    assert_eq!(offered.len(), 2, "{problem}");
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_parameters_are_no_json_schema_is_refused() {
    let schema = |draft: &mut ToolDraft| {
        let properties = json!({ "path": { "type": "no such type" } });
        draft.set(
            "broken",
            with_parameters(json!({ "type": "object", "properties": properties })),
        );
    };
    refused(
        schema,
        &["`broken`", "parameters", "not a valid JSON Schema"],
    )
    .await;
    let pattern = |draft: &mut ToolDraft| {
        let properties = json!({ "path": { "pattern": "(" } });
        draft.set(
            "broken",
            with_parameters(json!({ "type": "object", "properties": properties })),
        );
    };
    refused(pattern, &["`broken`", "not a valid JSON Schema"]).await;
    let array =
        |draft: &mut ToolDraft| draft.set("broken", with_parameters(json!({ "type": "array" })));
    refused(array, &["`broken`", "not a JSON Schema of an object"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_whose_output_is_no_json_schema_is_refused() {
    let output = |draft: &mut ToolDraft| {
        let schema = Some(Arc::new(json!({ "type": "no such type" })));
        draft.set("broken", tool(|tool| tool.spec.output = schema));
    };
    refused(output, &["`broken`", "output", "not a valid JSON Schema"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_refused_and_the_earlier_stays() {
    refused(
        |draft| draft.set("first", says("mine")),
        &["`one`", "tool `first`", "stays"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_too_long_or_no_name_is_refused() {
    refused(|draft| draft.set(&"a".repeat(65), says("x")), &["1 to 64"]).await;
    refused(|draft| draft.set("", says("x")), &["1 to 64"]).await;
    refused(|draft| draft.set("9lives", says("x")), &["`9lives`"]).await;
    refused(|draft| draft.set("ünder", says("x")), &["`ünder`"]).await;
    for name in ["two words", "a.b", "a/b", "a:b"] {
        refused(move |draft| draft.set(name, says("x")), &[name, "1 to 64"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_a_provider_or_mcp_means_something_else_by_is_refused() {
    for name in [
        "python",
        "Python",
        "tool_search",
        "functions",
        "multi_tool_use",
    ] {
        let named = [name, "reserved", "providers", "another name"];
        refused(move |draft| draft.set(name, says("x")), &named).await;
    }
    for name in ["mcp__files__read", "MCP__files__read"] {
        refused(
            move |draft| draft.set(name, says("x")),
            &[name, "reserved", "`mcp`"],
        )
        .await;
    }
    let replaces = |draft: &mut ToolDraft| draft.replace("python", says("x"));
    refused(replaces, &["`python`", "reserved"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_plugin_for_mcp_servers_has_their_names_and_a_name_that_only_looks_reserved_is_free() {
    let (place, kept) = (Place::new(), Kept::default());
    let names = ["mcp__files__read", "mcp_read", "pythonic", "my_functions"];
    let turns = [
        Turn::tool_calls(names.map(|name| (name, json!({})))),
        Turn::text("Done."),
    ];
    let model = ScriptedProvider::new(Script::new(turns));
    let mcp = tools("mcp", &kept, |draft| {
        draft.set("mcp__files__read", says("server's"))
    });
    let other = tools("other", &kept, move |draft| {
        names[1..]
            .iter()
            .for_each(|name| draft.set(name, says(name)));
    });
    let session = place.open_facets(&model, vec![mcp, other]).await;
    assert!(
        session.host.problems().is_empty(),
        "{:?}",
        session.host.problems()
    );
    session.turn("do it").await;
    assert_eq!(
        session.read().await,
        ["server's", "mcp_read", "pythonic", "my_functions"]
    );
    session.dies().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrapper_around_a_tool_that_nobody_sets_is_refused() {
    let wraps = |draft: &mut ToolDraft| draft.wrap("gone", |within| around("bad", within));
    refused(wraps, &["`gone`", "which no plugin sets"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_panics_is_refused() {
    refused(|_| panic!("a bug"), &["it panicked"]).await;
    refused(
        |draft| draft.wrap("first", |_| panic!("a bug")),
        &["tool `first` panicked"],
    )
    .await;
}
