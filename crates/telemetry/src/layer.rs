//! From `tracing` spans to those of OpenTelemetry.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bezel_context::TraceCarrier;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanLinks, SpanProcessor};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Bytes of a text that a span may hold; a longer one is content, and left out.
const LONGEST: usize = 128;

/// Exports spans that carry the ids of a context; see [`SpanLayer::takes`].
#[derive(Debug, Clone)]
pub(crate) struct SpanLayer {
    processor: Arc<dyn SpanProcessor>,
    scope: InstrumentationScope,
}

impl SpanLayer {
    pub(crate) fn new(processor: Arc<dyn SpanProcessor>) -> Self {
        let scope = InstrumentationScope::builder("bezel")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        SpanLayer { processor, scope }
    }

    /// Whether a span is one of a context's trace. Spans and messages of libraries are not: what they
    /// hold is theirs to say, and may be content.
    pub(crate) fn takes(metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.fields().field("span_id").is_some()
    }

    fn finished(&self, recorded: Recorded) -> Option<SpanData> {
        let Recorded { fields, begun } = recorded;
        if !fields.sampled || fields.trace_id == 0 || fields.span_id == 0 {
            return None;
        }
        // As in the standard's convention for calls: what is called is in the name.
        let name = match (&fields.service, &fields.member) {
            (Some(service), Some(member)) => {
                Cow::Owned(format!("{} {service}.{member}", fields.name))
            }
            _ => Cow::Borrowed(fields.name),
        };
        let mut links = SpanLinks::default();
        links.links = fields.links;
        Some(SpanData {
            span_context: SpanContext::new(
                TraceId::from(fields.trace_id),
                SpanId::from(fields.span_id),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: SpanId::from(fields.parent_id),
            parent_span_is_remote: fields.kind == SpanKind::Server,
            span_kind: fields.kind,
            name,
            start_time: begun,
            end_time: SystemTime::now(),
            attributes: fields.attributes,
            dropped_attributes_count: fields.dropped,
            events: Default::default(),
            links,
            status: fields.status,
            instrumentation_scope: self.scope.clone(),
        })
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut recorded = Recorded {
            fields: Fields::of(attributes.metadata().name()),
            begun: SystemTime::now(),
        };
        attributes.record(&mut recorded.fields);
        if let Some(span) = cx.span(id) {
            span.extensions_mut().insert(recorded);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        if let Some(span) = cx.span(id)
            && let Some(recorded) = span.extensions_mut().get_mut::<Recorded>()
        {
            values.record(&mut recorded.fields);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let recorded = cx
            .span(&id)
            .and_then(|span| span.extensions_mut().remove::<Recorded>());
        if let Some(data) = recorded.and_then(|recorded| self.finished(recorded)) {
            self.processor.on_end(data);
        }
    }
}

/// A span that goes on.
struct Recorded {
    fields: Fields,
    begun: SystemTime,
}

/// What a span's fields say.
struct Fields {
    name: &'static str,
    trace_id: u128,
    span_id: u64,
    parent_id: u64,
    sampled: bool,
    kind: SpanKind,
    status: Status,
    service: Option<String>,
    member: Option<String>,
    links: Vec<Link>,
    attributes: Vec<KeyValue>,
    dropped: u32,
}

impl Fields {
    fn of(name: &'static str) -> Self {
        Fields {
            name,
            trace_id: 0,
            span_id: 0,
            parent_id: 0,
            sampled: false,
            kind: SpanKind::Internal,
            status: Status::Unset,
            service: None,
            member: None,
            links: Vec::new(),
            attributes: Vec::new(),
            dropped: 0,
        }
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "trace_id" => self.trace_id = u128::from_str_radix(&text, 16).unwrap_or(0),
            "span_id" => self.span_id = u64::from_str_radix(&text, 16).unwrap_or(0),
            "parent_id" => self.parent_id = u64::from_str_radix(&text, 16).unwrap_or(0),
            "otel.kind" => {
                self.kind = match text.as_str() {
                    "client" => SpanKind::Client,
                    "server" => SpanKind::Server,
                    _ => SpanKind::Internal,
                }
            }
            "link" => self.links.extend(link(&text)),
            _ if text.len() > LONGEST => self.dropped += 1,
            name => {
                match name {
                    "service" => self.service = Some(text.clone()),
                    "member" => self.member = Some(text.clone()),
                    "error.type" => self.status = Status::error(""),
                    _ => {}
                }
                self.put(field, text.into());
            }
        }
    }

    /// Of one field the last value holds.
    fn put(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            "service" => "rpc.service",
            "member" => "rpc.method",
            name => name,
        };
        match self
            .attributes
            .iter_mut()
            .find(|attribute| attribute.key.as_str() == name)
        {
            Some(attribute) => attribute.value = value,
            None => self.attributes.push(KeyValue::new(name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "sampled" => self.sampled = value,
            _ => self.put(field, value.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, i64::try_from(value).unwrap_or(i64::MAX).into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }
}

fn link(traceparent: &str) -> Option<Link> {
    let carrier = TraceCarrier::parse(traceparent, None).ok()?;
    let flags = if carrier.is_sampled() {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::default()
    };
    let context = SpanContext::new(
        TraceId::from(carrier.trace_id()),
        SpanId::from(carrier.span_id()),
        flags,
        true,
        TraceState::NONE,
    );
    Some(Link::new(context, Vec::new(), 0))
}
