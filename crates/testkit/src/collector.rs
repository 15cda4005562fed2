//! A fake OpenTelemetry collector on loopback: OTLP over HTTP/1.1, what comes is decoded and kept.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bezel_context::TaskScope;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A fake collector. Dropping it closes every connection.
pub struct FakeCollector {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: TaskScope,
}

struct Shared {
    connections: AtomicUsize,
    /// The status that it answers with.
    status: AtomicU16,
    // Held to add or copy.
    exports: Mutex<Vec<Export>>,
    count: watch::Sender<usize>,
}

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Export {
    /// The request's path.
    pub path: String,
    /// Its headers, the names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// One span as a collector shows it. Ids are lower-case hex.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportedSpan {
    /// The resource's `service.name`.
    pub service: String,
    /// The attributes of the process that it came from, as text.
    pub resource: BTreeMap<String, String>,
    /// Its name.
    pub name: String,
    /// Its trace.
    pub trace_id: String,
    /// Itself.
    pub span_id: String,
    /// What it is a part of; empty for a trace's first.
    pub parent_id: String,
    /// `internal`, `client`, `server`, `producer` or `consumer`.
    pub kind: &'static str,
    /// Its attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// The spans that it is linked to, as `trace id/span id`.
    pub links: Vec<String>,
    /// Whether its status says that it failed.
    pub failed: bool,
    /// Nanoseconds from its beginning to its end.
    pub duration: u64,
}

impl FakeCollector {
    /// Listens on a free loopback port.
    pub async fn start() -> std::io::Result<FakeCollector> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            connections: AtomicUsize::new(0),
            status: AtomicU16::new(200),
            exports: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let tasks = TaskScope::new();
        let spawner = tasks.spawner();
        let accepting = Arc::clone(&shared);
        tasks.spawn("accept exports", async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    accepting.connections.fetch_add(1, Ordering::Relaxed);
                    spawner.spawn("serve exports", serve(stream, Arc::clone(&accepting)));
                } else {
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(FakeCollector {
            address,
            shared,
            _tasks: tasks,
        })
    }

    /// The value of `OTEL_EXPORTER_OTLP_ENDPOINT` for it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Answers with this status from now on. What is not a success is kept among the exports all the same.
    pub fn answer_with(&self, status: u16) {
        self.shared.status.store(status, Ordering::Relaxed);
    }

    /// Every request so far, in order of arrival.
    pub fn exports(&self) -> Vec<Export> {
        self.shared
            .exports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until there were `count` requests.
    pub async fn received(&self, count: usize) {
        let mut counted = self.shared.count.subscribe();
        counted
            .wait_for(|received| *received >= count)
            .await
            .expect("the sender lives in `self`");
    }

    /// Every span so far. Panics over a body that is not of the protocol.
    pub fn spans(&self) -> Vec<ExportedSpan> {
        self.exports()
            .iter()
            .flat_map(|export| {
                let request = ExportTraceServiceRequest::decode(&*export.body)
                    .expect("an export is of the protocol");
                spans(request)
            })
            .collect()
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut bytes = Vec::new();
    loop {
        let (export, consumed) = loop {
            if let Some(read) = parse(&bytes) {
                break read;
            }
            if !matches!(stream.read_buf(&mut bytes).await, Ok(read) if read > 0) {
                return;
            }
        };
        bytes.drain(..consumed);
        let received = {
            let mut exports = shared
                .exports
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            exports.push(export);
            exports.len()
        };
        shared.count.send_replace(received);
        let status = shared.status.load(Ordering::Relaxed);
        let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The first request in `bytes` and its length; none while it is not whole.
fn parse(bytes: &[u8]) -> Option<(Export, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = request.parse(bytes) else {
        return None;
    };
    let path = request.path.unwrap_or_default().to_owned();
    let headers: BTreeMap<String, String> = request
        .headers
        .iter()
        .map(|header| {
            (
                header.name.to_ascii_lowercase(),
                String::from_utf8_lossy(header.value).into_owned(),
            )
        })
        .collect();
    let length: usize = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let body = bytes.get(head..head + length)?.to_vec();
    let export = Export {
        path,
        headers,
        body,
    };
    Some((export, head + length))
}

fn spans(request: ExportTraceServiceRequest) -> Vec<ExportedSpan> {
    let mut spans = Vec::new();
    for resource_spans in request.resource_spans {
        let attributes = resource_spans
            .resource
            .map(|resource| resource.attributes)
            .unwrap_or_default();
        let resource = texts(attributes);
        let service = resource.get("service.name").cloned().unwrap_or_default();
        let of_scopes = resource_spans
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        spans.extend(of_scopes.map(|span| exported(&service, &resource, span)));
    }
    spans
}

fn exported(service: &str, resource: &BTreeMap<String, String>, span: Span) -> ExportedSpan {
    ExportedSpan {
        service: service.to_owned(),
        resource: resource.clone(),
        kind: match span.kind() {
            SpanKind::Unspecified | SpanKind::Internal => "internal",
            SpanKind::Server => "server",
            SpanKind::Client => "client",
            SpanKind::Producer => "producer",
            SpanKind::Consumer => "consumer",
        },
        failed: span
            .status
            .as_ref()
            .is_some_and(|status| status.code() == StatusCode::Error),
        name: span.name,
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_id: hex(&span.parent_span_id),
        attributes: texts(span.attributes),
        links: span
            .links
            .iter()
            .map(|link| format!("{}/{}", hex(&link.trace_id), hex(&link.span_id)))
            .collect(),
        duration: span
            .end_time_unix_nano
            .saturating_sub(span.start_time_unix_nano),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes
        .into_iter()
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::BoolValue(value)) => value.to_string(),
        Some(any_value::Value::IntValue(value)) => value.to_string(),
        Some(any_value::Value::DoubleValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
