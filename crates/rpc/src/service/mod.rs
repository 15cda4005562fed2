//! Services: the handle that a contract's macro emits, what it binds to, and how a call enters it.

mod binding;
mod exposed;
mod reference;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use bezel_context::Context;
use bytes::Bytes;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::consumer::Proxy;
use crate::descriptor::{ServiceDescriptor, Version};
use crate::error::{CallError, ErrorCode, Failure, RpcError, ServiceError};

pub use binding::{Binding, LateBinding, Target};
pub use exposed::{Answer, Answered, Dispatch, EventsExposure, Exposed, StateExposure};
pub use reference::{
    Completion, Reference, ReferenceClient, ReferenceResult, encode_reference,
    encode_reference_outcome, reference_of,
};

pub(crate) use reference::completed;

/// What `#[service]` emits for a contract: token and handle in one, cheap to clone.
pub trait ServiceClient: Clone + Send + Sync + 'static {
    /// The service's id.
    const ID: &'static str;
    /// The version of the contract that this handle was built against.
    const VERSION: Version;

    /// Members, kinds, scopes and schemas.
    fn descriptor() -> &'static ServiceDescriptor;

    /// A handle to a service on the other side of a connection.
    fn from_proxy(proxy: Proxy) -> Self;

    /// What a [`ServiceTable`](crate::ServiceTable) needs to serve this object to peers.
    fn exposed(&self) -> Exposed;

    /// A handle that is bound later: until then calls fail with `not_active`, and state shows its
    /// initial value.
    fn late() -> (Self, LateBinding<Self>);
}

/// Runs an implementation in this process: its own child context, panics caught, ended with `cx`.
pub async fn call_local<O, T>(
    object: &O,
    cx: &Context,
    member: &'static str,
    start: impl for<'a> FnOnce(&'a O, &'a Context) -> BoxFuture<'a, T>,
) -> Result<T, RpcError>
where
    O: ?Sized,
{
    cx.status()?;
    let invocation = cx.invocation();
    let child = invocation.context();
    let mut body = start(object, child);
    // Declared after the body, so that a dropped call is signalled before its body goes.
    let mut guard = invocation.guard();
    let mut cancelled = std::pin::pin!(cx.cancelled());
    // Most calls end at once; those need not wait for anything else.
    let mut waits = false;
    std::future::poll_fn(|poller| {
        if waits && let Poll::Ready(reason) = cancelled.as_mut().poll(poller) {
            return Poll::Ready(Err(reason.into()));
        }
        match catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(poller))) {
            Ok(Poll::Ready(value)) => {
                guard.disarm();
                Poll::Ready(Ok(value))
            }
            Ok(Poll::Pending) if waits => Poll::Pending,
            Ok(Poll::Pending) => {
                waits = true;
                let ended = cancelled.as_mut().poll(poller);
                ended.map(|reason| Err(reason.into()))
            }
            Err(panic) => Poll::Ready(Err(RpcError::internal(member, &PanicText(&*panic)))),
        }
    })
    .await
}

/// Reads a call's arguments; an empty payload is an empty object.
pub fn decode_arguments<A: DeserializeOwned>(
    service: &str,
    member: &str,
    payload: &[u8],
) -> Result<A, Failure> {
    let payload = if payload.is_empty() { b"{}" } else { payload };
    crate::json::read(payload).map_err(|cause| {
        RpcError::new(
            ErrorCode::InvalidArguments,
            format!("the arguments of {service}.{member} do not fit its schema: {cause}"),
        )
        .into()
    })
}

/// Writes a call's arguments: one object, by name.
pub struct ArgumentsWriter {
    member: &'static str,
    buffer: Vec<u8>,
}

impl ArgumentsWriter {
    /// An empty object.
    pub fn new(member: &'static str) -> Self {
        ArgumentsWriter {
            member,
            buffer: Vec::new(),
        }
    }

    /// Adds one argument.
    pub fn field(&mut self, name: &'static str, value: &impl Serialize) -> Result<(), RpcError> {
        self.buffer.reserve(256);
        self.buffer
            .push(if self.buffer.is_empty() { b'{' } else { b',' });
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        crate::json::append(&mut self.buffer, value).map_err(|error| {
            let text = format!(
                "the argument {name} of {} has no JSON form: {error}",
                self.member
            );
            RpcError::new(ErrorCode::InvalidArguments, text)
        })
    }

    /// The object; no bytes at all where there are no arguments.
    pub fn finish(mut self) -> Bytes {
        if !self.buffer.is_empty() {
            self.buffer.push(b'}');
        }
        Bytes::from(self.buffer)
    }
}

/// The error for a member that the contract does not have.
pub fn unknown_member(service: &str, member: &str) -> Failure {
    RpcError::new(
        ErrorCode::UnknownMember,
        format!("{service} has no member {member}"),
    )
    .into()
}

/// The schema of one type, with its definitions.
pub fn schema_of<T: schemars::JsonSchema>() -> schemars::Schema {
    schemars::SchemaGenerator::default().into_root_schema_for::<T>()
}

/// The bytes of an infallible member's result.
pub fn encode_value<T: Serialize>(member: &str, value: T) -> Result<Answered, Failure> {
    encode(&value).map(Answered::Value).map_err(|error| {
        RpcError::new(
            ErrorCode::InvalidResult,
            format!("the result of {member} has no JSON form: {error}"),
        )
        .into()
    })
}

/// The bytes of a fallible member's result.
pub fn encode_outcome<T: Serialize, E: ServiceError>(
    member: &str,
    outcome: Result<T, E>,
) -> Result<Answered, Failure> {
    match outcome {
        Ok(value) => encode_value(member, value),
        Err(error) => Err(Failure::declared(&error)),
    }
}

/// Joins a local call's two kinds of failure.
pub fn local_outcome<T, E>(outcome: Result<Result<T, E>, RpcError>) -> Result<T, CallError<E>> {
    outcome?.map_err(CallError::Service)
}

/// The error of a handle that is not bound yet.
pub fn not_bound(service: &str, member: &str) -> RpcError {
    RpcError::new(
        ErrorCode::NotActive,
        format!(
            "{service}.{member} was called before the handle was bound; call it after activation"
        ),
    )
}

fn encode<T: Serialize>(value: &T) -> Result<Bytes, serde_json::Error> {
    crate::json::to_vec(value).map(Bytes::from)
}

/// A panic's message, for the log alone.
pub(crate) struct PanicText<'p>(pub &'p (dyn Any + Send));

impl std::fmt::Display for PanicText<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.downcast_ref::<&'static str>().copied();
        let text = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        write!(formatter, "panic: {}", text.unwrap_or("(no message)"))
    }
}

/// The object behind a handle, where it lives in this process.
pub(crate) type Object<O> = Arc<O>;
