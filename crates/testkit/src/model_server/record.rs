//! What the server saw.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use super::http::Request;
use crate::ModelCall;

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// `GET`, `POST`…
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// Path and query as they came.
    pub target: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; `null` when it was not JSON.
    pub body: Value,
    /// When its last byte had arrived.
    pub arrived: Instant,
    /// When its answer had been handed to the socket; none while it runs, or when it was cut.
    pub answered: Option<Instant>,
    /// Whether the client closed the connection before the answer ended.
    pub closed_early: bool,
    /// What it asks of the model; none for a listing or an unknown path.
    pub call: Option<ModelCall>,
}

impl RecordedRequest {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn new(request: &Request, call: Option<ModelCall>) -> Self {
        RecordedRequest {
            method: request.method.clone(),
            path: request.path().into(),
            target: request.target.clone(),
            headers: request.headers.clone(),
            body: serde_json::from_slice(&request.body).unwrap_or_default(),
            arrived: Instant::now(),
            answered: None,
            closed_early: false,
            call,
        }
    }
}

/// What a test waited for did not happen.
#[derive(Debug, thiserror::Error)]
#[error("waited {waited:?} for {what}; so far: {seen:?}")]
pub struct WaitError {
    /// What was waited for.
    pub what: String,
    /// How long.
    pub waited: Duration,
    /// Method and path of what did arrive.
    pub seen: Vec<String>,
}

/// All requests, and a signal for each change.
#[derive(Default)]
pub(super) struct Records {
    // Held only to read or change one record.
    requests: Mutex<Vec<RecordedRequest>>,
    changes: watch::Sender<()>,
}

impl Records {
    /// Adds a request and returns its number.
    pub(super) fn add(&self, request: RecordedRequest) -> usize {
        let mut requests = self.lock();
        requests.push(request);
        let number = requests.len() - 1;
        drop(requests);
        self.changes.send_replace(());
        number
    }

    pub(super) fn update(&self, number: usize, change: impl FnOnce(&mut RecordedRequest)) {
        if let Some(request) = self.lock().get_mut(number) {
            change(request);
        }
        self.changes.send_replace(());
    }

    pub(super) fn all(&self) -> Vec<RecordedRequest> {
        self.lock().clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) async fn wait(
        &self,
        timeout: Duration,
        what: String,
        reached: impl Fn(&[RecordedRequest]) -> bool,
    ) -> Result<Vec<RecordedRequest>, WaitError> {
        let mut changes = self.changes.subscribe();
        let wait = changes.wait_for(|()| reached(&self.lock()));
        let happened = matches!(tokio::time::timeout(timeout, wait).await, Ok(Ok(_)));
        let requests = self.all();
        if happened {
            return Ok(requests);
        }
        let seen = requests
            .iter()
            .map(|request| format!("{} {}", request.method, request.path))
            .collect();
        Err(WaitError {
            what,
            waited: timeout,
            seen,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecordedRequest>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
