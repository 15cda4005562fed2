//! A provider of one of the four wire formats that are spoken here.

use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{ModelRequest, ModelStream, Provider, ProviderError, ProviderErrorKind};
use futures::StreamExt;
use futures::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};

use crate::answer::{Answer, Body, Rest};
use crate::config::{ProviderConfig, ProviderConfigError};
use crate::failure::{Fault, Origin};
use crate::http::Http;
use crate::keys::{Key, KeySource, Secret};
use crate::kind::Wire;
use crate::refusal;
use crate::thinking::Steering;
use crate::wire::{Outgoing, WrittenTools, anthropic, chat, gemini, responses};

const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for the body of an error, once its status is there.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
const ANTHROPIC_VERSION: &str = "2023-06-01";
const THINK_BETWEEN_CALLS: &str = "interleaved-thinking-2025-05-14";

/// A provider whose requests and answers are written and read here.
pub(crate) struct NativeProvider(Arc<Shared>);

/// One configured endpoint: what streaming and listing share.
pub(crate) struct Shared {
    pub(crate) config: ProviderConfig,
    pub(crate) http: Http,
    pub(crate) key: Key,
    rest: Rest,
    tools: WrittenTools,
}

impl Shared {
    pub(crate) fn new(
        config: ProviderConfig,
        keys: KeySource,
    ) -> Result<Self, ProviderConfigError> {
        config.check()?;
        let url = config.url()?;
        Ok(Shared {
            config,
            http: Http::new(url),
            key: Key::new(keys),
            rest: Rest::default(),
            tools: WrittenTools::default(),
        })
    }

    /// How long an answer may be silent.
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.config
            .idle_timeout_seconds
            .map_or(IDLE_TIMEOUT, Duration::from_secs)
    }

    /// Whom a request to `url` is made to, for the words of an error.
    pub(crate) fn origin(&self, model: bezel_session_types::ModelRef, url: &str) -> Origin {
        let ProviderConfig {
            name,
            api_key_command,
            base_url,
            ..
        } = &self.config;
        let hint = match (api_key_command, self.config.key_variables().as_slice()) {
            (Some(_), _) => format!("Check what providers.{name}.api_key_command prints."),
            (None, [variable, ..]) => {
                format!("Check the key in `{variable}`, or the one stored for `{name}`.")
            }
            (None, []) => {
                format!("Set providers.{name}.api_key_env to the variable that holds its key.")
            }
        };
        Origin::new(model, url.into(), hint, base_url.is_some())
    }

    /// An address below the base URL. `version` is put between where the base URL ends without one.
    pub(crate) fn address(&self, version: Option<&str>, path: &str) -> String {
        let base = self.http.url().as_str().trim_end_matches('/');
        let versioned = base.rsplit('/').next().is_some_and(|last| {
            let digits = last.strip_prefix('v').unwrap_or_default();
            digits.starts_with(|digit: char| digit.is_ascii_digit())
        });
        match version.filter(|_| !versioned) {
            Some(version) => format!("{base}/{version}/{path}"),
            None => format!("{base}/{path}"),
        }
    }

    /// Adds the key where this format wants it, and the configured headers.
    pub(crate) fn authorised(
        &self,
        request: RequestBuilder,
        key: Option<&Secret>,
    ) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.config.headers {
            // Both were checked with the configuration.
            if let (Ok(name), Ok(value)) = (
                reqwest::header::HeaderName::from_bytes(name.as_bytes()),
                value.parse(),
            ) {
                headers.insert(name, value);
            }
        }
        let anthropic = matches!(self.config.kind.facts().wire, Wire::Anthropic);
        if anthropic && !headers.contains_key("anthropic-version") {
            headers.insert(
                "anthropic-version",
                HeaderValue::from_static(ANTHROPIC_VERSION),
            );
        }
        if let Some(key) = key {
            let (name, text) = match self.config.kind.facts().wire {
                Wire::Anthropic => ("x-api-key", key.expose().to_owned()),
                Wire::Gemini => ("x-goog-api-key", key.expose().to_owned()),
                _ => ("authorization", format!("Bearer {}", key.expose())),
            };
            // Every key was checked to hold what a header can.
            if let (Ok(mut value), false) =
                (HeaderValue::from_str(&text), headers.contains_key(name))
            {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        request.headers(headers)
    }

    /// What an HTTP error means. A refused key of a command is asked for anew next time.
    pub(crate) async fn refused(&self, origin: &Origin, response: Response) -> ProviderError {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = tokio::time::timeout(ERROR_BODY_TIMEOUT, response.text()).await;
        // Without its body the status still says what happened.
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let error = origin.status(status, &headers, &body);
        if error.kind == ProviderErrorKind::Authentication {
            self.key.refused().await;
        }
        error
    }

    /// What a whole document means where a stream was asked for: mostly an error, or another server.
    async fn unstreamed(&self, origin: &Origin, response: Response) -> ProviderError {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = tokio::time::timeout(ERROR_BODY_TIMEOUT, response.text()).await;
        let body = body.ok().and_then(Result::ok).unwrap_or_default();
        let report = refusal::read(&body);
        if report.message.is_empty() || report.message == refusal::WEB_PAGE {
            return origin.fault(Fault::malformed(body.as_bytes()));
        }
        let error = origin.status(status, &headers, &body);
        ProviderError {
            status: None,
            ..error
        }
    }

    async fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> Result<ModelStream, ProviderError> {
        let model_id = request.model.model_id.as_str();
        let outgoing = Outgoing {
            steering: Steering::of(&self.config, model_id, request.options.thinking),
            max_output: self
                .config
                .model(model_id)
                .map(|model| model.max_output)
                .filter(|limit| *limit > 0),
            official: self.config.base_url.is_none(),
            tools: &self.tools,
            request: &request,
        };
        let wire = self.config.kind.facts().wire;
        let (url, body) = match wire {
            Wire::Chat(dialect) => (
                self.address(None, "chat/completions"),
                chat::body(&outgoing, dialect),
            ),
            Wire::Responses => (self.address(None, "responses"), responses::body(&outgoing)),
            Wire::Anthropic => (
                self.address(Some("v1"), "messages"),
                anthropic::body(&outgoing),
            ),
            Wire::Gemini => {
                let path = format!("models/{model_id}:streamGenerateContent?alt=sse");
                (self.address(Some("v1beta"), &path), gemini::body(&outgoing))
            }
            Wire::Genai(_) => unreachable!("providers of this wire are made in through_genai"),
        };
        let origin = self.origin(request.model.clone(), &url);
        let body = body.map_err(|error| ProviderError {
            kind: ProviderErrorKind::InvalidRequest,
            message: format!(
                "The request to `{}` could not be written as JSON: {error}.",
                request.model
            ),
            status: None,
            retry_after: None,
        })?;
        let key = self.key.get(cx, &self.config).await?;
        let mut sending = self
            .http
            .client(self.key.source())?
            .post(&url)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if matches!(wire, Wire::Anthropic) && anthropic::thinks_between_calls(&outgoing) {
            sending = sending.header("anthropic-beta", THINK_BETWEEN_CALLS);
        }
        self.rest.release().await;
        let sending = self.authorised(sending, key.as_ref()).send();
        let timeout = self.idle_timeout();
        let response = match tokio::time::timeout(timeout, sending).await {
            Err(_) => return Err(origin.silent(timeout)),
            Ok(Err(error)) => return Err(origin.unreachable(&error)),
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::OK {
            return Err(self.refused(&origin, response).await);
        }
        if !streams(&response) {
            return Err(self.unstreamed(&origin, response).await);
        }
        let body: Body = response.bytes_stream().boxed();
        let rest = self.rest.clone();
        Ok(match wire {
            Wire::Chat(_) => {
                Answer::new(cx, body, rest, chat::Decoder::default(), timeout, origin).boxed()
            }
            Wire::Responses => Answer::new(
                cx,
                body,
                rest,
                responses::Decoder::default(),
                timeout,
                origin,
            )
            .boxed(),
            Wire::Anthropic => Answer::new(
                cx,
                body,
                rest,
                anthropic::Decoder::default(),
                timeout,
                origin,
            )
            .boxed(),
            Wire::Gemini => {
                Answer::new(cx, body, rest, gemini::Decoder::default(), timeout, origin).boxed()
            }
            Wire::Genai(_) => unreachable!("providers of this wire are made in through_genai"),
        })
    }
}

/// Whether an answer may be a stream. Servers that name no type, or a wrong one, are given the benefit.
fn streams(response: &Response) -> bool {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    !kind.is_some_and(|kind| kind.starts_with("application/json") || kind.starts_with("text/html"))
}

impl NativeProvider {
    pub(crate) fn new(
        config: ProviderConfig,
        keys: KeySource,
    ) -> Result<Self, ProviderConfigError> {
        Ok(NativeProvider(Arc::new(Shared::new(config, keys)?)))
    }
}

impl Provider for NativeProvider {
    fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>> {
        let shared = Arc::clone(&self.0);
        let cx = cx.clone();
        Box::pin(async move {
            let origin = shared.origin(request.model.clone(), shared.http.url().as_str());
            match cx.run(shared.stream(&cx, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(origin.cancelled()),
            }
        })
    }
}
