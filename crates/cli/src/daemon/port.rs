//! The port of a server that other machines reach: WebSocket for Bezel's own clients, HTTP for everyone else.

use std::io;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use bezel_context::Spawner;
use bezel_host_http::{HttpHost, HttpOptions, Visitors};
use bezel_rpc::{PeerIdentity, Transport};
use bezel_sockets::{Site, Visitor, WebSocketListener, WebSocketOptions};
use bytes::Bytes;
use futures::future::BoxFuture;

use crate::failure::{Failure, Outcome};

/// What is answered over HTTP.
const DOCUMENT: &[u8] = include_bytes!("../../../../docs/openapi.json");

/// A port that is taken.
pub struct Port {
    listener: WebSocketListener,
    visitors: Visitors,
}

impl Port {
    /// Takes it.
    pub async fn bind(address: &str, options: WebSocketOptions, spawner: Spawner) -> Outcome<Self> {
        let (host, visitors) = HttpHost::new(HttpOptions {
            document: Bytes::from_static(DOCUMENT),
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            spawner,
        })
        .map_err(Failure::failed)?;
        let options = WebSocketOptions {
            site: Some(Arc::new(Http(host))),
            ..options
        };
        let bound = WebSocketListener::bind(address, options).await;
        Ok(Port {
            listener: bound.map_err(Failure::failed)?,
            visitors,
        })
    }

    /// What clients are told: `http(s)://HOST:PORT`.
    pub fn url(&self) -> &str {
        self.listener.url()
    }

    /// The next connection, whichever way it came.
    pub async fn accept(&mut self) -> io::Result<(Transport, PeerIdentity)> {
        tokio::select! {
            accepted = self.listener.accept() => accepted,
            Some(visitor) = self.visitors.next() => Ok(visitor),
        }
    }
}

/// Hands requests of the port to the host.
struct Http(HttpHost);

impl Site for Http {
    fn answer(&self, request: Request, visitor: Visitor) -> BoxFuture<'static, Response> {
        let host = self.0.clone();
        Box::pin(async move {
            let peer = visitor.peer();
            host.answer(request, peer, || visitor.let_in()).await
        })
    }
}
