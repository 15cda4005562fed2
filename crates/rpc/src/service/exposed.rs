//! A service as its provider offers it to peers.

use std::sync::Arc;

use bezel_context::{Context, Principal};
use bytes::Bytes;
use futures::future::BoxFuture;

use super::reference::Completion;
use crate::descriptor::ServiceDescriptor;
use crate::error::Failure;
use crate::events::{EventOrigin, EventValue, Events};
use crate::state::{Source, State, StateValue};

/// A call that has begun: what goes back.
pub type Answer = BoxFuture<'static, Result<Answered, Failure>>;

/// A call's result on its way out.
#[derive(Debug)]
pub enum Answered {
    /// An encoded value.
    Value(Bytes),
    /// An object that stays here; a reference to it crosses.
    Reference(Exposed),
    /// No object, where one was possible.
    Nothing,
}

/// Decodes calls for one object; `#[service]` writes the implementation.
pub trait Dispatch: Send + Sync + 'static {
    /// Begins a call of `member`, which the descriptor lists as a call.
    fn call(&self, cx: Context, member: &str, arguments: &[u8]) -> Result<Answer, Failure>;

    /// The state behind `member`.
    fn state(&self, member: &str) -> Option<StateExposure>;

    /// The events behind `member`.
    fn events(&self, member: &str) -> Option<EventsExposure>;

    /// When a reference's object is complete, if it says so.
    fn completion(&self) -> Option<Completion> {
        None
    }
}

/// A state member with its type erased.
pub struct StateExposure(Box<SourceFor>);

type SourceFor = dyn Fn(&Principal) -> Arc<dyn Source> + Send + Sync;

impl StateExposure {
    /// Erases the type.
    pub fn new<T: StateValue>(state: State<T>) -> Self {
        StateExposure(Box::new(move |principal| state.source(principal)))
    }

    pub(crate) fn source(&self, principal: &Principal) -> Arc<dyn Source> {
        (self.0)(principal)
    }
}

/// An events member with its type erased.
pub struct EventsExposure(Box<OriginFor>);

type OriginFor = dyn Fn(&Principal) -> Arc<dyn EventOrigin> + Send + Sync;

impl EventsExposure {
    /// Erases the type.
    pub fn new<T: EventValue>(events: Events<T>) -> Self {
        EventsExposure(Box::new(move |principal| events.origin(principal)))
    }

    pub(crate) fn origin(&self, principal: &Principal) -> Arc<dyn EventOrigin> {
        (self.0)(principal)
    }
}

/// A service that a [`ServiceTable`](crate::ServiceTable) can provide.
#[derive(Clone)]
pub struct Exposed {
    descriptor: &'static ServiceDescriptor,
    dispatch: Option<Arc<dyn Dispatch>>,
}

impl Exposed {
    /// An object of this process.
    pub fn new(descriptor: &'static ServiceDescriptor, dispatch: Arc<dyn Dispatch>) -> Self {
        Exposed {
            descriptor,
            dispatch: Some(dispatch),
        }
    }

    /// A handle without an object here: it cannot be provided or passed on.
    pub fn without_object(descriptor: &'static ServiceDescriptor) -> Self {
        Exposed {
            descriptor,
            dispatch: None,
        }
    }

    /// The service's allowlist.
    pub fn descriptor(&self) -> &'static ServiceDescriptor {
        self.descriptor
    }

    pub(crate) fn dispatch(&self) -> Option<&Arc<dyn Dispatch>> {
        self.dispatch.as_ref()
    }
}

impl std::fmt::Debug for Exposed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Exposed")
            .field("service", &self.descriptor.id)
            .finish_non_exhaustive()
    }
}
