//! One trace through a call: the caller's span, `rpc.client`, `rpc.server`, the service's own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bezel_rpc::Context;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};

use crate::stage::{Medium, Stage};

type Spans = Arc<Mutex<Vec<HashMap<String, String>>>>;

struct Capture(Spans);

struct Fields(HashMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(
            field.name().to_owned(),
            format!("{value:?}").trim_matches('"').to_owned(),
        );
    }
}

impl<S: tracing::Subscriber> Layer<S> for Capture {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::Id,
        _: LayerContext<'_, S>,
    ) {
        let name = attributes.metadata().name();
        if name.starts_with("rpc.") {
            let mut fields = Fields(HashMap::from([("name".to_owned(), name.to_owned())]));
            attributes.record(&mut fields);
            self.0.lock().expect("lock").push(fields.0);
        }
    }
}

#[tokio::test]
async fn a_routed_call_is_one_trace_from_caller_to_service() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(
        tracing_subscriber::registry().with(Capture(Arc::clone(&spans))),
    );
    let stage = Stage::new(Medium::UnixSocket);
    let _worker = stage.worker("S0").await;
    let client = stage.client("ann").await;
    let models = client.attach(&stage, "S0").await;
    let (cx, _span) = bezel_context::span!(&Context::background(), "ui.models.ask");
    let (_, _, trace) = models.whoami(&cx).await.expect("known");
    assert_eq!(trace, format!("{:032x}", cx.trace().trace_id()));
    let spans = spans.lock().expect("lock").clone();
    let find = |name: &str| {
        spans
            .iter()
            .find(|span| span["name"] == name && span["member"] == "whoami")
            .expect("a span")
    };
    let (client_span, server_span) = (find("rpc.client"), find("rpc.server"));
    assert_eq!(
        client_span["parent_id"],
        format!("{:016x}", cx.trace().span_id())
    );
    assert_eq!(server_span["parent_id"], client_span["span_id"]);
    assert_eq!(
        (&client_span["trace_id"], &server_span["trace_id"]),
        (&trace, &trace)
    );
    assert_eq!(client_span["service"], "models");
}
