//! What travels beside every call: cancellation, deadline, trace carrier, principal and typed values.
//!
//! A [`Context`] is the first parameter of everything that may wait. It is immutable and cheap to
//! clone; each derivation makes a child. Nothing in it is ever serialised: the receiver of a frame
//! builds a fresh one (see `wire.md`, "Identity"). Receivers never keep a caller's context.
//!
//! [`span!`] opens a span of the context's trace.
//!
//! [`TaskScope`] owns background tasks, so that every task ends with whoever started it.

mod context;
mod principal;
mod span;
mod tasks;
mod trace;

pub use context::{CancelGuard, CancelHandle, Cancelled, Context, Invocation, InvocationGuard};
pub use principal::{ClientId, CredentialId, Principal, Scope, Scopes, WorkspaceId, Workspaces};
pub use span::{Hex64, Hex128, Link};
pub use tasks::{Spawner, Task, TaskScope};
pub use trace::{Sampling, TraceCarrier, TraceError};

#[doc(hidden)]
pub use tracing as __tracing;
