//! One trace over all processes, to a fake collector; and nothing at all without the variables.

use std::collections::BTreeMap;

use bezel_testkit::{ExportedSpan, FakeCollector, FakeModelServer, Script, Turn, WireFormat};
use serde_json::json;

use crate::home::{Home, eventually};

/// In the prompt, in the tool's arguments, in its output and in the answer.
const CONTENT: &str = "xyzzy";

/// A home whose model calls one tool and then answers.
async fn home(endpoint: Option<&str>) -> (FakeModelServer, Home) {
    let script = Script::new([
        Turn::tool_calls([(
            "write",
            json!({ "path": "made.txt", "content": format!("{CONTENT}\n") }),
        )]),
        Turn::text(&format!("The word is {CONTENT}.")),
        Turn::text("And so on."),
    ]);
    let server = FakeModelServer::start(script).await.unwrap();
    let mut home = Home::new().variable("LOCAL_KEY", "sk-very-secret");
    if let Some(endpoint) = endpoint {
        home = home
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .variable("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=collector-secret")
            .variable("OTEL_BSP_SCHEDULE_DELAY", "50");
    }
    home.configure(&format!(
        "model = \"local::m\"\n[providers.local]\nkind = \"openai\"\nbase_url = \"{}\"\napi_key_env = \"LOCAL_KEY\"\n\
         [[providers.local.models]]\nid = \"m\"\ncontext = 100000\n",
        server.base_url(WireFormat::OpenAiChat)
    ));
    (server, home)
}

/// The spans of the trace of the prompt, by their ids, once those of each of these processes are there.
/// Each process sends its spans in the order of their ends.
fn trace_of_the_prompt(
    collector: &FakeCollector,
    last: &[(&str, &str)],
) -> BTreeMap<String, ExportedSpan> {
    eventually("the trace is not whole", || {
        let spans = collector.spans();
        let trace = &spans.iter().find(|span| span.name == "ui.prompt")?.trace_id;
        for (process, name) in last {
            spans.iter().find(|span| {
                span.resource["bezel.process"] == *process && span.name.starts_with(name)
            })?;
        }
        Some(
            spans
                .iter()
                .filter(|span| span.trace_id == *trace)
                .map(|span| (span.span_id.clone(), span.clone()))
                .collect(),
        )
    })
}

/// A span's name and service, and those of what it is a part of, innermost first.
fn lineage<'s>(
    spans: &'s BTreeMap<String, ExportedSpan>,
    span: &'s ExportedSpan,
) -> Vec<(&'s str, &'s str)> {
    std::iter::successors(Some(span), |span| spans.get(&span.parent_id))
        .map(|span| (span.name.as_str(), span.service.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_the_prompt_through_every_process_to_the_tool() {
    let collector = FakeCollector::start().await.unwrap();
    let (_model, home) = home(Some(&collector.endpoint())).await;
    home.run(&["run", &format!("write {CONTENT}")]).succeeded();
    let ends = [
        ("presentation", "ui.prompt"),
        ("worker", "harness.run"),
        ("server", "rpc.server"),
    ];
    let spans = trace_of_the_prompt(&collector, &ends);
    let prompt = [
        ("chat.prompt", "bezel-worker"),
        ("rpc.server chat.prompt", "bezel-worker"),
        ("rpc.client chat.prompt", "bezel"),
        ("ui.prompt", "bezel"),
    ];
    let below = |name: &'static str| {
        let above = [("harness.run", "bezel-worker")].into_iter().chain(prompt);
        [(name, "bezel-worker")]
            .into_iter()
            .chain(above)
            .collect::<Vec<_>>()
    };
    let named = |name: &str| -> Vec<&ExportedSpan> {
        spans.values().filter(|span| span.name == name).collect()
    };
    let (requests, tools) = (named("model.request"), named("tool.call"));
    assert_eq!((requests.len(), tools.len()), (2, 1), "{spans:#?}");
    for request in &requests {
        assert_eq!(lineage(&spans, request), below("model.request"));
        assert_eq!(request.attributes["gen_ai.request.model"], "m");
        assert_eq!(request.kind, "client");
    }
    assert_eq!(lineage(&spans, tools[0]), below("tool.call"));
    assert_eq!(tools[0].attributes["gen_ai.tool.name"], "write");
    assert_eq!(named("harness.run")[0].attributes["outcome"], "completed");
    // What the server itself answers is a part of the same trace.
    let created = spans
        .values()
        .find(|span| span.service == "bezel-server")
        .expect("the server made the session");
    assert_eq!(created.kind, "server");
    assert_eq!(
        lineage(&spans, created).last(),
        Some(&("ui.prompt", "bezel"))
    );
    for span in spans.values() {
        assert_eq!(span.resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert!(!span.failed, "{span:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_hold_no_content_and_no_secret() {
    let collector = FakeCollector::start().await.unwrap();
    let (_model, home) = home(Some(&collector.endpoint())).await;
    home.run(&["run", &format!("write {CONTENT}")]).succeeded();
    trace_of_the_prompt(&collector, &[("worker", "harness.run")]);
    home.run(&["server", "stop"]).succeeded();
    let token = std::fs::read_to_string(home.bezel().join("run/token")).unwrap_or_default();
    for export in collector.exports() {
        assert_eq!(export.headers["x-api-key"], "collector-secret");
        let body = String::from_utf8_lossy(&export.body);
        for hidden in [CONTENT, "made.txt", "sk-very-secret", "collector-secret"] {
            assert!(!body.contains(hidden), "{hidden} is in {body}");
        }
        assert!(token.is_empty() || !body.contains(token.trim()));
    }
    assert!(!home.server_log().contains("collector-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_variables_nothing_is_exported() {
    let collector = FakeCollector::start().await.unwrap();
    let (_model, home) = home(None).await;
    let home = home
        .variable("OTEL_SERVICE_NAME", "mine")
        .variable("OTEL_SDK_DISABLED", "false");
    home.run(&["run", "go"]).succeeded();
    let server = home.server().expect("a server runs");
    for process in home.workers().into_iter().chain([server]) {
        let threads: Vec<String> = std::fs::read_dir(format!("/proc/{process}/task"))
            .unwrap()
            .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap())
            .collect();
        assert!(
            !threads.iter().any(|name| name.starts_with("OpenTelemetry")),
            "{threads:?}"
        );
    }
    assert_eq!(collector.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switched_off_export_connects_to_nothing() {
    let collector = FakeCollector::start().await.unwrap();
    let (_model, home) = home(Some(&collector.endpoint())).await;
    let home = home.variable("OTEL_SDK_DISABLED", "true");
    home.run(&["run", "go"]).succeeded();
    home.run(&["server", "stop"]).succeeded();
    assert_eq!(collector.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_of_a_session_decides_over_what_the_server_was_started_with() {
    let collector = FakeCollector::start().await.unwrap();
    let (_model, home) = home(None).await;
    // A server that was started without them exports nothing.
    home.run(&["session", "list"]).succeeded();
    assert!(home.server().is_some());
    let home = home
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())
        .variable("OTEL_BSP_SCHEDULE_DELAY", "50")
        .variable("OTEL_SERVICE_NAME", "mine");
    home.run(&["run", "go"]).succeeded();
    let spans = trace_of_the_prompt(&collector, &[("worker", "harness.run")]);
    let processes: std::collections::BTreeSet<&str> = spans
        .values()
        .map(|span| span.resource["bezel.process"].as_str())
        .collect();
    assert_eq!(processes, ["presentation", "worker"].into());
    assert!(spans.values().all(|span| span.service == "mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_is_said_once_and_hinders_nothing() {
    let collector = FakeCollector::start().await.unwrap();
    let endpoint = collector.endpoint();
    drop(collector);
    let (_model, home) = home(Some(&endpoint)).await;
    home.run(&["run", "go"]).succeeded();
    let warned = |log: &str| log.matches("this is said once").count();
    eventually("the server did not warn", || {
        (warned(&home.server_log()) == 1).then_some(())
    });
    home.run(&["run", "--continue", "go on"]).succeeded();
    home.run(&["server", "stop"]).succeeded();
    assert_eq!(warned(&home.server_log()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_variables_are_warned_about_and_hinder_nothing() {
    let (_model, home) = home(Some("localhost:4318")).await;
    home.run(&["run", "go"]).succeeded();
    let log = std::fs::read_to_string(home.bezel().join("logs/client.log")).unwrap();
    assert!(
        log.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && log.contains("http://127.0.0.1:4318"),
        "{log}"
    );
}
