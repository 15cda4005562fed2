//! The HTTP host in front of the product's server: requests instead of frames.

mod calls;
mod following;
mod streams;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, BodyDataStream, to_bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use bezel_access_contract::AccessClient;
use bezel_context::{Context, Scope, TaskScope};
use bezel_host_http::openapi::{self, Provided};
use bezel_host_http::{HttpHost, HttpOptions, Visitors};
use bezel_host_server::Listener;
use bezel_policy_contract::ServerControlClient;
use bezel_rpc::{PeerIdentity, ServiceClient as _, Transport};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{
    SessionDirectoryClient, SessionManagementClient, SessionRecordClient,
};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;

use crate::probe::ProbeClient;
use crate::world::{Via, World};

struct Arriving(Visitors);

impl Listener for Arriving {
    fn accept(&mut self) -> BoxFuture<'_, std::io::Result<(Transport, PeerIdentity)>> {
        async {
            match self.0.next().await {
                Some(visitor) => Ok(visitor),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// A server that is asked over HTTP, by somebody from the network.
struct Http {
    world: World,
    host: HttpHost,
    _tasks: TaskScope,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

fn document() -> String {
    let server = [
        AccessClient::descriptor(),
        ServerControlClient::descriptor(),
        SessionDirectoryClient::descriptor(),
        SessionManagementClient::descriptor(),
        SessionRecordClient::descriptor(),
    ];
    let mut contracts: Vec<(Value, bool)> = server
        .iter()
        .map(|contract| (contract.document().unwrap(), false))
        .collect();
    contracts.push((ProbeClient::descriptor().document().unwrap(), true));
    let provided: Vec<Provided<'_>> = contracts
        .iter()
        .map(|(contract, by_sessions)| Provided {
            contract,
            by_sessions: *by_sessions,
        })
        .collect();
    openapi::document("1.0.0", &provided).to_string()
}

fn peer() -> PeerIdentity {
    PeerIdentity::network(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)))
}

impl Http {
    async fn start() -> Self {
        let tasks = TaskScope::new();
        let (host, visitors) = HttpHost::new(HttpOptions {
            document: document().into(),
            product_version: "0.1.0".into(),
            spawner: tasks.spawner(),
        })
        .unwrap();
        let listener = Box::new(Arriving(visitors));
        Http {
            world: World::start_with(Via::Loopback, Some(listener)).await,
            host,
            _tasks: tasks,
        }
    }

    /// A session whose worker runs.
    async fn session(&self) -> SessionId {
        let local = self.world.client().await;
        let session = local.create(&self.world.project("a")).await;
        local.link.stop().await;
        session
    }

    async fn request(&self, request: Request) -> (Response, bool) {
        let entered = AtomicBool::new(false);
        let let_in = || entered.store(true, Ordering::SeqCst);
        let response = self.host.answer(request, peer(), let_in).await;
        (response, entered.load(Ordering::SeqCst))
    }

    async fn send(&self, request: Request) -> Answer {
        let (response, _) = self.request(request).await;
        let (parts, body) = response.into_parts();
        assert_eq!(parts.headers["content-type"], "application/json");
        assert_eq!(parts.headers["cache-control"], "no-store");
        let body = to_bytes(body, 1 << 25).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    async fn post(&self, token: &str, path: &str, arguments: Value) -> Answer {
        self.send(posting(token, path, arguments)).await
    }

    async fn get(&self, token: &str, path: &str) -> Answer {
        self.send(getting(token, path).body(Body::empty()).unwrap())
            .await
    }

    async fn stream(&self, token: &str, path: &str) -> Stream {
        let request = getting(token, path).header("accept", "text/event-stream");
        let (response, entered) = self.request(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(entered);
        Stream::of(response)
    }

    /// A code that gives an operator's token.
    async fn code(&self) -> String {
        let local = self.world.client().await;
        let access: AccessClient = local.link.server().use_service();
        let options = bezel_access_contract::PairOptions {
            label: None,
            scopes: vec![Scope::Operate],
            directory: None,
        };
        let made = access.pair(&Context::background(), options).await.unwrap();
        made.code
    }
}

fn getting(token: &str, path: &str) -> axum::http::request::Builder {
    let builder = axum::http::Request::builder().uri(path);
    builder.header("authorization", format!("Bearer {token}"))
}

fn posting(token: &str, path: &str, arguments: Value) -> Request {
    getting(token, path)
        .method("POST")
        .header("content-type", "application/json")
        .body(Body::from(arguments.to_string()))
        .unwrap()
}

/// Events as they are read.
struct Stream {
    body: BodyDataStream,
    text: String,
    events: VecDeque<Sent>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    name: String,
    /// A revision or a number, where it is one.
    id: Option<u64>,
    /// As it came.
    cursor: Option<String>,
    data: Value,
}

impl Stream {
    fn of(response: Response) -> Self {
        Stream {
            body: response.into_body().into_data_stream(),
            text: String::new(),
            events: VecDeque::new(),
        }
    }

    /// The next event; none at the end. Comments are passed over.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let piece = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let parsed = parse(block);
                self.text = rest.to_owned();
                self.events.extend(parsed);
            }
        }
    }
}

fn parse(block: &str) -> Option<Sent> {
    let mut sent = Sent {
        name: String::new(),
        id: None,
        cursor: None,
        data: Value::Null,
    };
    let mut data = Vec::new();
    for line in block.lines() {
        match line.split_once(':') {
            Some(("event", name)) => sent.name = name.trim().to_owned(),
            Some(("id", id)) => {
                sent.id = id.trim().parse().ok();
                sent.cursor = Some(id.trim().to_owned());
            }
            Some(("data", text)) => data.push(text.strip_prefix(' ').unwrap_or(text)),
            Some(("", _)) => return None,
            other => panic!("{other:?} is no line of an event"),
        }
    }
    sent.data = serde_json::from_str(&data.join("\n")).unwrap();
    Some(sent)
}
