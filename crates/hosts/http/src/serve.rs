//! From a request to its answer.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use bezel_context::Spawner;
use bezel_rpc::{ErrorCode, PeerIdentity, RpcError, Transport};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::answer::{Problem, json};
use crate::catalogue::{Catalogue, DocumentError, Kind, Route};
use crate::links::Links;
use crate::{closed, follow, request, stream};

/// Connections that the server has not accepted yet.
const MOST_READY: usize = 16;

/// What the host is made of.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The OpenAPI document: what there is, served as it is.
    pub document: Bytes,
    /// The product's version, which the server compares with its own.
    pub product_version: String,
    /// Whose tasks keep the links.
    pub spawner: Spawner,
}

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub struct HttpHost(Arc<Inner>);

struct Inner {
    document: Bytes,
    catalogue: Catalogue,
    links: Links,
}

/// The connections of those whose requests are answered, for the server's listener.
#[derive(Debug)]
pub struct Visitors(mpsc::Receiver<(Transport, PeerIdentity)>);

impl Visitors {
    /// The next one, and where its request came from; none once the host is gone.
    pub async fn next(&mut self) -> Option<(Transport, PeerIdentity)> {
        self.0.recv().await
    }
}

/// What a client shows to get a token.
#[derive(Deserialize)]
struct PairRequest {
    code: String,
}

/// What it shows from then on.
#[derive(Serialize)]
struct Paired<'a> {
    token: &'a str,
}

impl HttpHost {
    /// A host, and the connections that it makes.
    pub fn new(options: HttpOptions) -> Result<(Self, Visitors), DocumentError> {
        let catalogue = Catalogue::read(&options.document)?;
        let (sender, visitors) = mpsc::channel(MOST_READY);
        let links = Links::new(sender, options.product_version, options.spawner);
        let host = HttpHost(Arc::new(Inner {
            document: options.document,
            catalogue,
            links,
        }));
        Ok((host, Visitors(visitors)))
    }

    /// Answers a request from `peer`. `let_in` is called as soon as its token is known to be good, before its
    /// body is read. Dropping the future cancels what it asked for.
    pub async fn answer(
        &self,
        request: Request,
        peer: PeerIdentity,
        let_in: impl FnOnce() + Send,
    ) -> Response {
        let answered = self.try_answer(request, peer, let_in).await;
        answered.unwrap_or_else(Problem::into_response)
    }

    async fn try_answer(
        &self,
        request: Request,
        peer: PeerIdentity,
        let_in: impl FnOnce() + Send,
    ) -> Result<Response, Problem> {
        let Inner {
            document,
            catalogue,
            links,
        } = &*self.0;
        let (parts, body) = request.into_parts();
        let headers = &parts.headers;
        let (session, service, member, kind, closed) =
            match catalogue.find(&parts.method, parts.uri.path())? {
                Route::Document => {
                    return Ok(json(StatusCode::OK, document.clone()));
                }
                Route::Pair => {
                    let body = request::arguments(headers, body, request::MOST_PAIRING).await?;
                    return self.pair(&body, peer).await;
                }
                Route::Events { session } => {
                    let token = request::bearer(headers)?;
                    let cx = request::context(headers)?;
                    let (lease, remote) = links.lease(&cx, token, peer, None).await?;
                    let_in();
                    let after = follow::cursor(headers, parts.uri.query());
                    return follow::session(&cx, &remote, lease, session, after).await;
                }
                Route::Member {
                    session,
                    service,
                    member,
                    kind,
                    closed,
                } => (session, service, member, kind, closed),
            };
        let token = request::bearer(headers)?;
        let cx = request::context(headers)?;
        let leased = links.lease(&cx, token, peer, session).await;
        let (lease, remote) = leased?;
        let_in();
        match kind {
            Kind::Call => {
                let arguments = request::arguments(headers, body, request::MOST_BODY).await?;
                closed::check(&closed, &arguments)?;
                let result = remote.call_unread(&cx, service, member, arguments).await?;
                drop(lease);
                Ok(json(StatusCode::OK, result))
            }
            Kind::State if !stream::wants_stream(headers) => {
                let answer = stream::value(&cx, &remote, service, member).await;
                drop(lease);
                answer
            }
            Kind::State => stream::state(&cx, &remote, lease, service, member).await,
            Kind::Events => {
                let resumed = headers.contains_key("last-event-id");
                stream::events(&cx, &remote, lease, (service, member), resumed).await
            }
        }
    }

    async fn pair(&self, body: &[u8], peer: PeerIdentity) -> Result<Response, Problem> {
        let request: PairRequest = serde_json::from_slice(body).map_err(|error| {
            let text = format!("a pairing request is {{\"code\": \"…\"}}: {error}");
            RpcError::new(ErrorCode::InvalidArguments, text)
        })?;
        let cx = bezel_context::Context::background();
        let token = self.0.links.pair(&cx, &request.code, peer).await?;
        let token = token.reveal().unwrap_or_default();
        let body = serde_json::to_vec(&Paired { token })
            .map_err(|error| RpcError::internal("encoding a token", &error))?;
        Ok(json(StatusCode::OK, body.into()))
    }
}

impl std::fmt::Debug for HttpHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HttpHost")
    }
}
