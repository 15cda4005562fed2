//! A fake model server on loopback: real HTTP/1.1, every wire format, one script.

mod connection;
mod encode;
mod http;
mod record;
mod routes;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_context::TaskScope;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use record::{RecordedRequest, WaitError};

use crate::{Flood, ModelCall, Script, Turn, WireFormat};
use record::Records;

const WAIT: Duration = Duration::from_secs(20);

/// A fake model server. Dropping it closes every connection.
pub struct FakeModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: TaskScope,
}

/// What every connection shares.
struct Shared {
    script: Script,
    records: Records,
    connections: AtomicUsize,
    // Held only to look up or insert.
    floods: Mutex<HashMap<(WireFormat, Flood), Writes>>,
}

/// What goes out in one write each.
type Writes = Arc<Vec<Vec<u8>>>;

impl FakeModelServer {
    /// Listens on a free loopback port and answers by `script`.
    pub async fn start(script: impl Into<Script>) -> std::io::Result<FakeModelServer> {
        FakeModelServer::start_on(0, script).await
    }

    /// The same on a port of the caller's choice; 0 takes a free one.
    pub async fn start_on(
        port: u16,
        script: impl Into<Script>,
    ) -> std::io::Result<FakeModelServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let script = script.into();
        let shared = Arc::new(Shared {
            script,
            records: Records::default(),
            connections: AtomicUsize::new(0),
            floods: Mutex::default(),
        });
        if let Some(flood) = shared.script.first_flood() {
            shared.flood(WireFormat::OpenAiChat, "flood", 0, &flood);
        }
        let tasks = TaskScope::new();
        let spawner = tasks.spawner();
        let accepting = Arc::clone(&shared);
        tasks.spawn("accept model requests", async move {
            // Accepting fails only for want of descriptors, or for a connection that is gone already.
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    accepting.connections.fetch_add(1, Ordering::Relaxed);
                    spawner.spawn(
                        "serve model requests",
                        connection::serve(stream, Arc::clone(&accepting)),
                    );
                } else {
                    tokio::task::yield_now().await;
                }
            }
        });
        Ok(FakeModelServer {
            address,
            shared,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL as a configuration has it for this format.
    pub fn base_url(&self, format: WireFormat) -> String {
        let version = match format {
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses | WireFormat::Anthropic => "/v1",
            WireFormat::Gemini => "/v1beta",
            WireFormat::Ollama => "",
        };
        format!("{}{version}", self.url())
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Adds a turn to the end of the script's queue.
    pub fn push(&self, turn: Turn) {
        self.shared.script.push(turn);
    }

    /// Every request so far, listings included, in order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.records.all()
    }

    /// Every model request so far, as the fake understood it.
    pub fn calls(&self) -> Vec<ModelCall> {
        self.requests()
            .into_iter()
            .filter_map(|request| request.call)
            .collect()
    }

    /// The last model request. Panics when there was none.
    pub fn last_call(&self) -> ModelCall {
        self.calls().pop().expect("a model request was made")
    }

    /// The JSON body of the last model request. Panics when there was none.
    pub fn last_body(&self) -> Value {
        let mut requests = self.requests().into_iter().rev();
        requests
            .find(|request| request.call.is_some())
            .expect("a model request was made")
            .body
    }

    /// Waits until `count` requests have arrived.
    pub async fn wait_for_requests(&self, count: usize) -> Result<Vec<RecordedRequest>, WaitError> {
        let arrived = |requests: &[RecordedRequest]| requests.len() >= count;
        self.shared
            .records
            .wait(WAIT, format!("{count} requests"), arrived)
            .await
    }

    /// Waits until the client has closed the connection of request `number` before its answer ended.
    pub async fn wait_for_early_close(&self, number: usize) -> Result<RecordedRequest, WaitError> {
        let closed = |requests: &[RecordedRequest]| {
            requests
                .get(number)
                .is_some_and(|request| request.closed_early)
        };
        let mut requests = self
            .shared
            .records
            .wait(WAIT, format!("request {number} to be closed early"), closed)
            .await?;
        Ok(requests.swap_remove(number))
    }

    /// Changes whenever a request arrives, is answered or is closed early.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.records.changes()
    }
}

impl std::fmt::Debug for FakeModelServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FakeModelServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The writes of a flood, encoded once per format: its model and ids are those of the first request.
    fn flood(&self, format: WireFormat, model: &str, number: usize, flood: &Flood) -> Writes {
        let mut floods = self.floods.lock().unwrap_or_else(PoisonError::into_inner);
        let encoded = floods
            .entry((format, flood.clone()))
            .or_insert_with(|| Arc::new(encode::flood(format, model, number, flood)));
        Arc::clone(encoded)
    }
}
