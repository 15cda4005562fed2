//! A remote service as its handle sees it: calls, state, events.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;

use bezel_context::{Context, Hex64, Hex128};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::held::HeldReference;
use super::line::Reply;
use super::replicas::Replicas;
use crate::descriptor::ServiceDescriptor;
use crate::error::{CallError, Envelope, ErrorCode, RpcError, ServiceError};
use crate::events::{EventValue, Events};
use crate::service::ReferenceResult;
use crate::state::{State, StateValue};
use crate::wire::{Header, Kind};

/// A service on the other side of a connection. Cheap to clone; clones share replicas.
#[derive(Clone)]
pub struct Proxy(Arc<Replicas>);

impl Proxy {
    pub(crate) fn new(replicas: Arc<Replicas>) -> Self {
        Proxy(replicas)
    }

    pub(crate) fn of_reference(
        held: HeldReference,
        descriptor: &'static ServiceDescriptor,
    ) -> Self {
        Proxy(Replicas::of_reference(held, descriptor))
    }

    /// A call of a member that can fail with `E`.
    pub async fn call<T: DeserializeOwned, E: ServiceError>(
        &self,
        cx: &Context,
        member: &'static str,
        arguments: Bytes,
    ) -> Result<T, CallError<E>> {
        match self.exchange(cx, member, arguments).await? {
            Ok(returned) => Ok(self.decode(member, &returned.value(self, member)?)?),
            Err(envelope) => Err(envelope.into_declared()),
        }
    }

    /// A call of a member that returns a reference or can fail with `E`.
    pub async fn call_for_reference<R: ReferenceResult, E: ServiceError>(
        &self,
        cx: &Context,
        member: &'static str,
        arguments: Bytes,
    ) -> Result<R, CallError<E>> {
        match self.exchange(cx, member, arguments).await? {
            Ok(returned) => Ok(R::from_held(returned.reference())?),
            Err(envelope) => Err(envelope.into_declared()),
        }
    }

    /// A call of a member that returns a reference, without an error of its own.
    pub async fn call_for_reference_plain<R: ReferenceResult>(
        &self,
        cx: &Context,
        member: &'static str,
        arguments: Bytes,
    ) -> Result<R, CallError<Infallible>> {
        match self.exchange(cx, member, arguments).await? {
            Ok(returned) => Ok(R::from_held(returned.reference())?),
            Err(envelope) => Err(self.undeclared(member, &envelope)),
        }
    }

    /// A call of a member without an error of its own.
    pub async fn call_plain<T: DeserializeOwned>(
        &self,
        cx: &Context,
        member: &'static str,
        arguments: Bytes,
    ) -> Result<T, CallError<Infallible>> {
        match self.exchange(cx, member, arguments).await? {
            Ok(returned) => Ok(self.decode(member, &returned.value(self, member)?)?),
            Err(envelope) => Err(self.undeclared(member, &envelope)),
        }
    }

    fn undeclared(&self, member: &str, envelope: &Envelope) -> CallError<Infallible> {
        CallError::Rpc(RpcError::new(
            ErrorCode::InvalidResult,
            format!(
                "{}.{member} answered with error code {}, which its contract does not declare: {}",
                self.0.descriptor.id, envelope.code, envelope.message
            ),
        ))
    }

    fn decode<T: DeserializeOwned>(&self, member: &str, payload: &Bytes) -> Result<T, RpcError> {
        crate::json::read(payload).map_err(|cause| {
            RpcError::new(
                ErrorCode::InvalidResult,
                format!(
                    "the result of {}.{member} does not fit its schema: {cause}",
                    self.0.descriptor.id
                ),
            )
        })
    }

    /// Sends a call and waits for its answer. Dropping the future tells the peer to stop.
    async fn exchange(
        &self,
        cx: &Context,
        member: &'static str,
        arguments: Bytes,
    ) -> Result<Result<Returned, Envelope>, RpcError> {
        cx.status()?;
        let service = self.0.descriptor.id;
        let (line, route) = self.0.reach()?;
        let carrier = cx.trace().child();
        // Only a presentation or a worker that exports spans, or logs at `debug`, pays for one.
        let span = tracing::debug_span!(
            parent: None,
            "rpc.client",
            service,
            member,
            trace_id = %Hex128(carrier.trace_id()),
            span_id = %Hex64(carrier.span_id()),
            parent_id = %Hex64(cx.trace().open_span().unwrap_or(0)),
            sampled = carrier.is_sampled(),
            otel.kind = "client",
            "error.type" = tracing::field::Empty,
        );
        let traceparent = carrier.traceparent();
        let header = Header {
            member: Some(member),
            trace: Some(&traceparent),
            trace_state: carrier.tracestate().map(Into::into),
            deadline: cx.remaining().map(|left| {
                u64::try_from(left.as_millis())
                    .unwrap_or(u64::MAX)
                    .clamp(1, 1 << 53)
            }),
            ..self.0.header(Kind::Call, route)
        };
        let mut begun = line.call(header, arguments)?;
        let wait = async {
            tokio::select! {
                biased;
                reply = &mut begun.reply => match reply {
                    Ok(Reply::Value(payload)) => Ok(Ok(Returned::Value(payload))),
                    Ok(Reply::Reference(held)) => Ok(Ok(Returned::Reference(held))),
                    Ok(Reply::Declared(envelope)) => Ok(Err(envelope)),
                    Ok(Reply::Failed(error)) => Err(error),
                    Err(_) => Err(RpcError::new(ErrorCode::Disconnected, "the connection ended")),
                },
                reason = cx.cancelled() => Err(reason.into()),
            }
        };
        let outcome = wait.instrument(span.clone()).await;
        let failed = match &outcome {
            Ok(Ok(_)) => None,
            Ok(Err(envelope)) => Some(envelope.code.as_str()),
            Err(error) => Some(error.code.as_str()),
        };
        if let Some(code) = failed {
            span.record("error.type", code);
        }
        outcome
    }

    /// Makes a state member known before anybody asks for it, so that one snapshot fills all.
    pub fn declare_state<T: StateValue>(&self, member: &'static str) {
        drop(self.0.cell::<T>(member));
    }

    /// Makes an events member known before anybody asks for it.
    pub fn declare_events<T: EventValue>(&self, member: &'static str) {
        drop(self.0.hub::<T>(member));
    }

    /// A state member's replica; asking for it begins the subscription.
    pub fn state<T: StateValue>(&self, member: &'static str) -> State<T> {
        let core = self.0.cell(member);
        self.0.want();
        let keep: Arc<dyn Any + Send + Sync> = Arc::<Replicas>::clone(&self.0);
        State::replica(core, keep)
    }

    /// An events member; asking for it begins the subscription.
    pub fn events<T: EventValue>(&self, member: &'static str) -> Events<T> {
        let hub = self.0.hub(member);
        self.0.want();
        let keep: Arc<dyn Any + Send + Sync> = Arc::<Replicas>::clone(&self.0);
        Events::replica(hub, keep)
    }
}

/// A result as it came.
enum Returned {
    Value(Bytes),
    Reference(HeldReference),
}

impl Returned {
    /// The reference, if it is one. A value instead is an optional reference that is not there.
    fn reference(self) -> Option<HeldReference> {
        match self {
            Returned::Reference(held) => Some(held),
            Returned::Value(_) => None,
        }
    }

    fn value(self, proxy: &Proxy, member: &str) -> Result<Bytes, RpcError> {
        match self {
            Returned::Value(payload) => Ok(payload),
            Returned::Reference(_) => Err(RpcError::new(
                ErrorCode::InvalidResult,
                format!(
                    "{}.{member} answered with a reference where its contract has a value",
                    proxy.0.descriptor.id
                ),
            )),
        }
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("service", &self.0.descriptor.id)
            .finish()
    }
}
