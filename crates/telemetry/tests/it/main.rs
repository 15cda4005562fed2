//! Spans from a context to a collector, over a real connection.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::collections::HashMap;

use bezel_context::{Context, Link, TraceCarrier, span};
use bezel_telemetry::{Process, Settings, Telemetry};
use bezel_testkit::{ExportedSpan, FakeCollector};
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// What the standard variables come to when they say this.
fn asked(variables: &[(&str, &str)]) -> Option<Settings> {
    let variables: HashMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Settings::from_variables(Process::Worker, |name| variables.get(name).cloned()).settings
}

/// Runs `work` in a process that exports to `endpoint`, and ends it in order.
async fn exporting(endpoint: &str, work: impl AsyncFnOnce(&Telemetry)) {
    let settings = asked(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=very-secret"),
        // Nothing goes out unless a test asks for it.
        ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
    ]);
    let telemetry = bezel_telemetry::start(settings.unwrap());
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    work(&telemetry).with_subscriber(subscriber).await;
    telemetry.finish();
}

fn named<'s>(spans: &'s [ExportedSpan], name: &str) -> &'s ExportedSpan {
    spans.iter().find(|span| span.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_arrives_with_its_parent_attributes_links_and_resource() {
    let collector = FakeCollector::start().await.unwrap();
    let other = TraceCarrier::root().child();
    exporting(&collector.endpoint(), async |_| {
        let (cx, outer) = span!(&Context::background(), "outer");
        let (inner_cx, inner) = span!(
            &cx,
            "inner",
            otel.kind = "client",
            count = 3_u64,
            link = %Link(&other),
            "error.type" = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        inner.record("error.type", "broken");
        inner.record("outcome", "first");
        inner.record("outcome", "last");
        assert_eq!(inner_cx.trace().trace_id(), cx.trace().trace_id());
        drop((inner, outer));
    })
    .await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 2);
    let (outer, inner) = (named(&spans, "outer"), named(&spans, "inner"));
    assert_eq!(outer.parent_id, "", "a trace's first span has no parent");
    assert_eq!(inner.parent_id, outer.span_id);
    assert_eq!(inner.trace_id, outer.trace_id);
    assert_eq!((inner.kind, outer.kind), ("client", "internal"));
    assert!(inner.failed && !outer.failed);
    assert_eq!(inner.attributes["count"], "3");
    assert_eq!(inner.attributes["error.type"], "broken");
    assert_eq!(inner.attributes["outcome"], "last");
    assert!(!inner.attributes.contains_key("span_id"));
    let link = format!("{:032x}/{:016x}", other.trace_id(), other.span_id());
    assert_eq!(inner.links, [link]);
    assert_eq!(inner.service, "bezel-worker");
    let export = &collector.exports()[0];
    assert_eq!(export.path, "/v1/traces");
    assert_eq!(export.headers["content-type"], "application/x-protobuf");
    assert_eq!(export.headers["x-key"], "very-secret");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_span_of_a_context_or_is_long_stays_here() {
    let collector = FakeCollector::start().await.unwrap();
    let prompt = "tell nobody ".repeat(20);
    exporting(&collector.endpoint(), async |_| {
        let library = tracing::info_span!("library", secret = %prompt);
        let (_cx, own) = span!(&Context::background(), "own", text = %prompt);
        own.in_scope(|| tracing::info!("tell nobody either"));
        drop((library, own));
    })
    .await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].name, "own");
    assert!(spans[0].attributes.is_empty());
    for export in collector.exports() {
        assert!(!String::from_utf8_lossy(&export.body).contains("tell nobody"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_its_beginning_did_not_sample_is_not_exported() {
    let collector = FakeCollector::start().await.unwrap();
    let parent = |flags: &str| {
        let text = format!("00-0000000000000000000000000000000a-000000000000000b-{flags}");
        Context::background().with_trace(TraceCarrier::parse(&text, None).unwrap())
    };
    exporting(&collector.endpoint(), async |_| {
        drop(span!(&parent("00"), "unsampled"));
        drop(span!(&parent("01"), "sampled"));
    })
    .await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].name, "sampled");
    assert_eq!(spans[0].parent_id, "000000000000000b");
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_wait_for_a_collector_that_is_busy() {
    let collector = FakeCollector::start().await.unwrap();
    collector.answer_with(503);
    exporting(&collector.endpoint(), async |telemetry| {
        drop(span!(&Context::background(), "first"));
        telemetry.flush();
        assert_eq!(collector.exports().len(), 1);
        collector.answer_with(200);
        drop(span!(&Context::background(), "second"));
        telemetry.flush();
    })
    .await;
    let names: Vec<String> = collector
        .spans()
        .into_iter()
        .map(|span| span.name)
        .collect();
    assert_eq!(names, ["first", "first", "second"]);
}

#[test]
fn without_an_endpoint_nothing_is_started() {
    assert!(asked(&[("OTEL_SERVICE_NAME", "mine")]).is_none());
}
