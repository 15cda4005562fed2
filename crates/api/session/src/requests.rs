//! Durable requests: what a call asks somebody who may be away, and who may answer after a restart.

use std::any::TypeId;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bezel_context::Context;
use bezel_plugin::FacetScope;
use bezel_rpc::{State, StateCell};
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome, ToolError};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backend::{AgentBackend, RequestsBackend};

/// What can be asked or answered: JSON with a schema.
pub trait RequestValue: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> RequestValue for T {}

/// One kind of durable request, declared once and bound by [`crate::SessionContext::durable_requests`].
/// Requests and responses are checked against the types' JSON Schemas, also their limits.
///
/// ```
/// use bezel_api_session::DurableRequestDefinition;
///
/// /// A name for something, asked for and given.
/// const NAMES: DurableRequestDefinition<String, String> = DurableRequestDefinition::new("names");
/// # let _ = NAMES;
/// ```
pub struct DurableRequestDefinition<Request, Response> {
    id: &'static str,
    types: PhantomData<fn() -> (Request, Response)>,
}

impl<Request, Response> DurableRequestDefinition<Request, Response> {
    /// Requests called `id` within their plugin. What is pending is found again under this name.
    pub const fn new(id: &'static str) -> Self {
        DurableRequestDefinition {
            id,
            types: PhantomData,
        }
    }
}

/// A kind of request that could not be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the durable requests `{id}` cannot be used: {reason}")]
pub struct OpenRequestsError {
    /// Which.
    pub id: String,
    /// What is wrong with them.
    pub reason: String,
}

/// Why a call has no answer. A tool returns it with `?`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The request was not made: it does not match its schema, the call asked something else before, waits
    /// already, or is not safe to replay.
    #[error("{0}")]
    Refused(String),
    /// The call has settled or was interrupted: what it asked is withdrawn.
    #[error("{0}")]
    Ended(String),
    /// The wait was cancelled. What was asked stays asked.
    #[error("the wait for an answer was cancelled")]
    Cancelled,
    /// The answer is of another shape than this version of the plugin reads.
    #[error("the answer to {invocation} cannot be read: {reason}")]
    Unreadable {
        /// What it answers.
        invocation: InvocationId,
        /// What is wrong with it.
        reason: String,
    },
    /// The session could not be written.
    #[error("{0}")]
    Storage(String),
}

impl From<WaitError> for ToolError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Ended(_) | WaitError::Cancelled => ToolError::Interrupted,
            error => ToolError::failed(error.to_string()),
        }
    }
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It does not match its schema. Nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// The wait was cancelled; the answer may be accepted.
    #[error("nobody waited until the answer was written; look whether the request still waits")]
    Cancelled,
    /// The session could not be written.
    #[error("{0}")]
    Storage(String),
}

/// One kind of durable request in this session. A request belongs to the call that asks and goes with it;
/// its answer is given once, by whoever is first, and survives the process.
pub struct DurableRequests<Request, Response> {
    backend: Arc<dyn RequestsBackend>,
    pending: State<Vec<PendingRequest<Request>>>,
    response: PhantomData<fn() -> Response>,
}

impl<Request, Response> Clone for DurableRequests<Request, Response> {
    fn clone(&self) -> Self {
        DurableRequests {
            backend: Arc::clone(&self.backend),
            pending: self.pending.clone(),
            response: PhantomData,
        }
    }
}

impl<Request: RequestValue, Response: RequestValue> DurableRequests<Request, Response> {
    pub(crate) fn open(
        definition: &DurableRequestDefinition<Request, Response>,
        backend: &dyn AgentBackend,
        scope: &FacetScope,
    ) -> Result<Self, OpenRequestsError> {
        let plugin = scope.plugin().as_str();
        let (request, response) = (schema::<Request>(), schema::<Response>());
        let channel = backend.requests(plugin, definition.id, &request, &response)?;
        let mut watched = channel.pending();
        let cell = StateCell::new(read_pending(&watched.borrow_and_update()));
        let pending = cell.state();
        // Ends with the facet.
        scope.spawner().spawn("pending requests", async move {
            while watched.changed().await.is_ok() {
                let now = read_pending(&watched.borrow_and_update());
                cell.set(&Context::background(), now);
            }
        });
        Ok(DurableRequests {
            backend: channel,
            pending,
            response: PhantomData,
        })
    }

    /// What waits for an answer, in the order of asking. Fit for a contract: every client sees the same,
    /// a later one finds it.
    pub fn pending(&self) -> State<Vec<PendingRequest<Request>>> {
        self.pending.clone()
    }

    /// Asks on behalf of a call, and waits until somebody answers: a call that is being cleared, or one
    /// that runs and is safe to replay. Asking the same again, as a replay does, finds the request, or its
    /// answer; asking something else under the same call is an error, and so is a second wait beside the
    /// first. It has no deadline. Ending `cx` ends the waiting and leaves the request asked; settling the
    /// call or interrupting it removes the request.
    pub async fn wait(
        &self,
        cx: &Context,
        invocation: &InvocationId,
        request: &Request,
    ) -> Result<Response, WaitError> {
        let request = serde_json::to_value(request)
            .map_err(|error| WaitError::Refused(format!("the request is not JSON: {error}")))?;
        let answer = self.backend.wait(cx, invocation, request).await?;
        Response::deserialize(&*answer).map_err(|error| WaitError::Unreadable {
            invocation: invocation.clone(),
            reason: error.to_string(),
        })
    }

    /// Answers what `id` asks. The first answer is the answer: it is on the disk when this says
    /// `accepted`, whether or not anybody waits for it now.
    pub async fn submit(
        &self,
        cx: &Context,
        id: &InvocationId,
        response: &Response,
    ) -> Result<SubmitOutcome, SubmitError> {
        let response = serde_json::to_value(response)
            .map_err(|error| SubmitError::Invalid(format!("the answer is not JSON: {error}")))?;
        self.backend.submit(cx, id, response).await
    }
}

/// Made once for all sessions of the process.
fn schema<T: JsonSchema + 'static>() -> Arc<Value> {
    // A plain mutex: held to look up or make one. There are as many as the build has types of requests.
    static KNOWN: LazyLock<Mutex<HashMap<TypeId, Arc<Value>>>> = LazyLock::new(Mutex::default);

    let make = || SchemaGenerator::default().into_root_schema_for::<T>();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = known.entry(TypeId::of::<T>());
    Arc::clone(schema.or_insert_with(|| Arc::new(make().into())))
}

/// What can be read of what waits. What cannot was asked by another version of the plugin: its call asks
/// anew when it is replayed.
fn read_pending<Request: RequestValue>(
    pending: &[PendingRequest<Arc<Value>>],
) -> Vec<PendingRequest<Request>> {
    let read = |waiting: &PendingRequest<Arc<Value>>| match Request::deserialize(&*waiting.request)
    {
        Ok(request) => Some(PendingRequest {
            id: waiting.id.clone(),
            request,
            asker: None,
        }),
        Err(error) => {
            tracing::warn!(id = %waiting.id, %error, "a pending request cannot be read and is not shown");
            None
        }
    };
    pending.iter().filter_map(read).collect()
}
