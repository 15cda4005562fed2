//! A harness channel of durable requests behind the facets' handle.

use std::sync::Arc;

use bezel_api_session::backend::RequestsBackend;
use bezel_api_session::{SubmitError, WaitError};
use bezel_context::Context;
use bezel_harness::RequestChannel;
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

pub(crate) struct HostRequests(pub(crate) RequestChannel);

impl RequestsBackend for HostRequests {
    fn pending(&self) -> watch::Receiver<Arc<[PendingRequest<Arc<Value>>]>> {
        self.0.pending()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        invocation: &'a InvocationId,
        request: Value,
    ) -> BoxFuture<'a, Result<Arc<Value>, WaitError>> {
        async move {
            let answer = self.0.wait(cx, invocation, request).await;
            answer.map_err(wait_error)
        }
        .boxed()
    }

    fn submit<'a>(
        &'a self,
        cx: &'a Context,
        invocation: &'a InvocationId,
        response: Value,
    ) -> BoxFuture<'a, Result<SubmitOutcome, SubmitError>> {
        async move {
            let outcome = self.0.submit(cx, invocation, response).await;
            outcome.map_err(submit_error)
        }
        .boxed()
    }
}

fn wait_error(error: bezel_harness::WaitError) -> WaitError {
    use bezel_harness::WaitError as Harness;
    match error {
        Harness::Invalid { .. }
        | Harness::NotReplaySafe { .. }
        | Harness::OtherRequest { .. }
        | Harness::Waiting { .. } => WaitError::Refused(error.to_string()),
        Harness::NotCurrent { .. } | Harness::Closed => WaitError::Ended(error.to_string()),
        Harness::Cancelled(_) => WaitError::Cancelled,
        Harness::Storage(_) => WaitError::Storage(error.to_string()),
    }
}

fn submit_error(error: bezel_harness::SubmitError) -> SubmitError {
    use bezel_harness::SubmitError as Harness;
    match error {
        Harness::Invalid { .. } => SubmitError::Invalid(error.to_string()),
        Harness::Cancelled(_) => SubmitError::Cancelled,
        Harness::Closed | Harness::Storage(_) => SubmitError::Storage(error.to_string()),
    }
}
