//! OTLP over HTTP: batches as protobuf, posted from the batch processor's own thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use rustls::crypto::{CryptoProvider, ring};
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Builder, Runtime};

use crate::settings::Settings;

/// How long the collector may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);
/// Bytes of batches that are kept while the collector does not answer.
const BACKLOG: usize = 2 * 1024 * 1024;
/// Bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;

/// Posts batches. Made before anything is known of the collector; connects at the first batch.
#[derive(Debug)]
pub(crate) struct Exporter {
    settings: Settings,
    resource: ResourceAttributesWithSchema,
    // Only the batch processor's thread takes it.
    line: Mutex<Line>,
    health: Arc<Health>,
}

/// What the exporter knows of the collector.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The last batch did not reach it.
    failing: AtomicBool,
    warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Line {
    open: Option<(Runtime, Client)>,
    /// Encoded batches that wait for the collector, oldest first.
    backlog: VecDeque<Vec<u8>>,
}

/// A batch that did not arrive.
#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("its client could not be made: {0}")]
    Client(String),
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it answered {0}")]
    Busy(StatusCode),
    #[error("it answered {0}; check the endpoint and OTEL_EXPORTER_OTLP_HEADERS")]
    Refused(StatusCode),
}

impl PostError {
    /// Whether the same batch may arrive later.
    fn passes(&self) -> bool {
        matches!(self, PostError::Unreachable(_) | PostError::Busy(_))
    }
}

impl Health {
    /// Whether the collector answered last.
    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }
}

impl Exporter {
    pub(crate) fn new(settings: Settings) -> (Self, Arc<Health>) {
        let health = Arc::new(Health::default());
        let exporter = Exporter {
            resource: ResourceAttributesWithSchema::from(&settings.resource),
            settings,
            line: Mutex::default(),
            health: Arc::clone(&health),
        };
        (exporter, health)
    }

    /// Sends what waits, and then this batch.
    fn send(&self, body: Vec<u8>) -> Result<(), PostError> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let Line { open, backlog } = &mut *line;
        backlog.push_back(body);
        while backlog.len() > 1 && backlog.iter().map(Vec::len).sum::<usize>() > BACKLOG {
            backlog.pop_front();
        }
        let (runtime, client) = match open {
            Some(open) => open,
            None => open.insert((runtime()?, client(&self.settings)?)),
        };
        while let Some(body) = backlog.pop_front() {
            let sent = runtime.block_on(post(client, &self.settings.endpoint, &body));
            if let Err(error) = sent {
                if error.passes() {
                    backlog.push_front(body);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn settle(&self, outcome: &Result<(), PostError>) {
        self.health
            .failing
            .store(outcome.is_err(), Ordering::Relaxed);
        let Err(error) = outcome else { return };
        let collector = self.settings.endpoint.origin().ascii_serialization();
        if self.health.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(target: "bezel", collector, %error, "spans did not arrive");
        } else {
            tracing::warn!(target: "bezel", collector, %error, "spans do not reach the OpenTelemetry collector; this is said once");
        }
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        // The thread is the batch processor's own and in no runtime: it may wait here.
        let outcome = self.send(request.encode_to_vec());
        self.settle(&outcome);
        outcome.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }
}

fn runtime() -> Result<Runtime, PostError> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(|error| PostError::Client(error.to_string()))
}

fn client(settings: &Settings) -> Result<Client, PostError> {
    let tls = tls(&settings.endpoint).map_err(|error| PostError::Client(error.to_string()))?;
    let mut headers = settings.headers.clone();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-protobuf"),
    );
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("bezel/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(CONNECT)
        .timeout(settings.timeout)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(None)
        // A request with a key in its header must not follow anybody elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|error| PostError::Client(error.to_string()))
}

/// The provider is named: no process-wide one is there, and none is installed. The system's certificates
/// take milliseconds to load: only where the address is https.
fn tls(url: &Url) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    if url.scheme() != "https" {
        return Ok(config
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth());
    }
    Ok(config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(provider)?))
        .with_no_client_auth())
}

async fn post(client: &Client, endpoint: &Url, body: &[u8]) -> Result<(), PostError> {
    // The address may hold a password: no message shows it.
    let unreachable = |error: reqwest::Error| {
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        PostError::Unreachable(text)
    };
    let response = client
        .post(endpoint.clone())
        .body(body.to_vec())
        .send()
        .await
        .map_err(unreachable)?;
    match response.status() {
        status if status.is_success() => {}
        status @ (StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT) => return Err(PostError::Busy(status)),
        status => return Err(PostError::Refused(status)),
    }
    // The batch has arrived; that the rest of the answer does not is nothing to tell.
    if let Some(partial) = read(response)
        .await
        .and_then(|answer| answer.partial_success)
        && partial.rejected_spans > 0
    {
        tracing::debug!(target: "bezel", rejected = partial.rejected_spans, "the collector refused spans");
    }
    Ok(())
}

/// The answer, if it is small and one of the protocol. Read to its end, so that the connection serves again.
async fn read(mut response: reqwest::Response) -> Option<ExportTraceServiceResponse> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if bytes.len() + chunk.len() > ANSWER {
            return None;
        }
        bytes.extend_from_slice(&chunk);
    }
    ExportTraceServiceResponse::decode(&*bytes).ok()
}
