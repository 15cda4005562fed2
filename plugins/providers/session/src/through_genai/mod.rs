//! Providers whose protocol genai speaks: Ollama, Bedrock, Vertex.

mod events;
mod request;

use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{ModelRequest, ModelStream, Provider, ProviderError, ProviderErrorKind};
use futures::StreamExt;
use futures::future::BoxFuture;
use genai::adapter::AdapterKind;
use genai::chat::ChatStreamEvent;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget, webc};
use reqwest::StatusCode;

use crate::config::{ProviderConfig, ProviderConfigError};
use crate::failure::{Fault, Origin};
use crate::keys::KeySource;
use crate::native::Shared;
use crate::refusal;

/// A provider behind one of genai's adapters.
pub(crate) struct GenaiProvider {
    adapter: AdapterKind,
    shared: Arc<Shared>,
}

impl GenaiProvider {
    pub(crate) fn new(
        adapter: AdapterKind,
        config: ProviderConfig,
        keys: KeySource,
    ) -> Result<Self, ProviderConfigError> {
        Ok(GenaiProvider {
            adapter,
            shared: Arc::new(Shared::new(config, keys)?),
        })
    }
}

impl Provider for GenaiProvider {
    fn stream(
        &self,
        cx: &Context,
        request: ModelRequest,
    ) -> BoxFuture<'static, Result<ModelStream, ProviderError>> {
        let (adapter, shared, cx) = (self.adapter, Arc::clone(&self.shared), cx.clone());
        Box::pin(async move {
            let origin = shared.origin(request.model.clone(), shared.http.url().as_str());
            match cx
                .run(stream(adapter, &shared, &cx, request, origin.clone()))
                .await
            {
                Ok(answer) => answer,
                Err(_) => Err(origin.cancelled()),
            }
        })
    }
}

async fn stream(
    adapter: AdapterKind,
    shared: &Shared,
    cx: &Context,
    request: ModelRequest,
    origin: Origin,
) -> Result<ModelStream, ProviderError> {
    let client = client(shared)?;
    let target = target(adapter, shared, cx, &request.model.model_id).await?;
    let (chat, options) = request::write(&shared.config, &request, shared.idle_timeout());
    let answer = client.exec_chat_stream(target, chat, Some(&options)).await;
    let mut answer = answer.map_err(|error| failure(&origin, error))?.stream;
    // The request goes out with the first event that is asked for: an HTTP error is told before the stream.
    let first = loop {
        match answer.next().await {
            Some(Ok(ChatStreamEvent::Start | ChatStreamEvent::Heartbeat)) => {}
            Some(Err(error)) => {
                let error = failure(&origin, error);
                if error.kind == ProviderErrorKind::Authentication {
                    shared.key.refused().await;
                }
                return Err(error);
            }
            first => break first,
        }
    };
    let answer = futures::stream::iter(first).chain(answer).boxed();
    Ok(events::read(cx, answer, origin))
}

/// The ids of the models that the endpoint lists.
pub(crate) async fn list(
    adapter: AdapterKind,
    shared: &Shared,
    cx: &Context,
    origin: &Origin,
) -> Result<Vec<String>, ProviderError> {
    let target = target(adapter, shared, cx, "").await?;
    let names = client(shared)?
        .all_model_names(adapter, (target.endpoint, target.auth))
        .await;
    names.map_err(|error| failure(origin, error))
}

fn client(shared: &Shared) -> Result<Client, ProviderError> {
    let http = shared.http.client(shared.key.source())?.clone();
    Client::builder()
        .with_reqwest(http)
        .build()
        .map_err(|error| ProviderError {
            kind: ProviderErrorKind::InvalidRequest,
            message: format!(
                "A client for `{}` could not be made: {error}.",
                shared.config.name
            ),
            status: None,
            retry_after: None,
        })
}

async fn target(
    adapter: AdapterKind,
    shared: &Shared,
    cx: &Context,
    model_id: &str,
) -> Result<ServiceTarget, ProviderError> {
    let key = shared.key.get(cx, &shared.config).await?;
    Ok(ServiceTarget {
        endpoint: Endpoint::from_owned(format!(
            "{}/",
            shared.http.url().as_str().trim_end_matches('/')
        )),
        // An adapter that wants a key wants one even where the server does not.
        auth: AuthData::Key(key.map_or_else(|| "none".into(), |key| key.expose().into())),
        model: ModelIden::new(adapter, model_id),
    })
}

/// What an error of genai's means.
fn failure(origin: &Origin, error: genai::Error) -> ProviderError {
    match error {
        genai::Error::HttpError {
            status,
            body,
            headers,
            ..
        } => origin.status(status, &headers, &body),
        genai::Error::WebModelCall { webc_error, .. }
        | genai::Error::WebAdapterCall { webc_error, .. } => web_failure(origin, webc_error),
        genai::Error::WebStream { error, cause, .. } => match error.downcast::<genai::Error>() {
            Ok(inner) => failure(origin, *inner),
            Err(error) => match error.downcast::<reqwest::Error>() {
                Ok(error) if error.is_connect() || error.is_builder() || error.is_request() => {
                    origin.unreachable(&error)
                }
                Ok(error) => origin.broken_off(&error),
                Err(_) => origin.fault(Fault::Malformed(cause)),
            },
        },
        genai::Error::StreamParse { serde_error, .. } => {
            origin.fault(Fault::Malformed(serde_error.to_string()))
        }
        genai::Error::ChatResponse { body, .. } => {
            origin.fault(Fault::Reported(refusal::from_value(body)))
        }
        other => origin.status(
            StatusCode::BAD_REQUEST,
            &Default::default(),
            &other.to_string(),
        ),
    }
}

fn web_failure(origin: &Origin, error: webc::Error) -> ProviderError {
    match error {
        webc::Error::ResponseFailedStatus {
            status,
            body,
            headers,
        } => origin.status(status, &headers, &body),
        webc::Error::Reqwest(error) => origin.unreachable(&error),
        other => origin.fault(Fault::Malformed(other.to_string())),
    }
}
