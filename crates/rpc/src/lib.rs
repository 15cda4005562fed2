//! Frames, peers, calls, state, events, namespaces, loopback. Opens no socket and knows no session.
//!
//! A contract is a trait with [`service`] on it. Its provider hands an object to a [`ServiceTable`];
//! its consumers take a handle from a [`Remote`], or hold the object itself where both live in one
//! process. Neither sees frames, ids, or the connection that comes and goes beneath.

// Contracts of unit tests name the crate as any other contract does.
#[cfg(test)]
extern crate self as bezel_rpc;

mod acceptor;
mod connection;
mod consumer;
mod control;
mod descriptor;
mod error;
mod events;
#[cfg(test)]
mod fuzz;
mod handshake;
mod job;
mod json;
mod keeper;
mod limits;
mod link;
mod local;
mod provider;
mod router;
mod schema;
mod service;
mod state;
mod strict;
mod sync;
mod wire;

pub use acceptor::{AcceptedRole, Acceptor, Authenticate, Authenticated, PeerIdentity};
pub use bezel_context::{Context, Scope};
pub use bezel_rpc_macros::{reference, service};
pub use connection::{AttachmentState, Connect, ConnectError, ConnectionState};
pub use consumer::{Followed, Notice, Proxy, Remote, UnreadError};
pub use descriptor::{
    MemberDescriptor, MemberKind, MemberSummary, ServiceDescriptor, ServiceSummary, Version,
};
pub use error::{CallError, ErrorCode, RpcError, ServiceError};
pub use events::{Delivery, EventSource, EventStream, EventValue, Events, Projected};
pub use handshake::{Credential, Hello, Refusal, Role};
pub use job::{Job, JobEnd, JobError};
pub use keeper::exchange;
pub use limits::Limits;
pub use link::{AttachedRemote, Link};
pub use local::LocalService;
pub use provider::{ProvideError, ServiceTable};
pub use router::{Attachment, RouteError, Router, WorkerEvent};
pub use schema::SchemaConflict;
pub use service::{Completion, Exposed, LateBinding, Reference, ReferenceClient, ServiceClient};
pub use state::{
    PatchError, Path, Segment, State, StateCell, StateValue, StateWatcher, Subscription,
};
pub use wire::{
    Drained, Frame, FrameDecoder, FrameEncoder, FrameSink, FrameSource, Outbox, OutboxError,
    PROTOCOL, Transport, TransportError, loopback,
};

/// What the code that [`service`] emits needs; nothing for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::error::Failure;
    pub use crate::service::{
        Answer, ArgumentsWriter, Binding, Dispatch, EventsExposure, StateExposure, Target,
        call_local, decode_arguments, encode_outcome, encode_reference, encode_reference_outcome,
        encode_value, local_outcome, not_bound, reference_of, schema_of, unknown_member,
    };
    pub use futures;
    pub use futures::future::BoxFuture;
    pub use schemars;
    pub use serde;
    pub use serde_json;
}
