//! The replicas of one remote service, and the one subscription that feeds them all.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bezel_context::TraceCarrier;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::held::HeldReference;
use super::line::Line;
use super::namespace::Namespace;
use crate::descriptor::ServiceDescriptor;
use crate::error::RpcError;
use crate::events::{EventReplica, EventValue, Hub};
use crate::json::ReadError;
use crate::state::{Core, Operation, PatchError, Replica, StateValue};
use crate::strict::StrictError;
use crate::sync::lock;
use crate::wire::{Header, Kind};

/// What one service of a namespace shares between its proxies.
pub(crate) struct Replicas {
    origin: Origin,
    pub(super) descriptor: &'static ServiceDescriptor,
    inner: Mutex<Inner>,
}

/// Where the replicas' owner is found.
enum Origin {
    /// A service: by its id, over whatever connection there is.
    Service(Arc<Namespace>),
    /// An object: over the connection that it came over.
    Reference(HeldReference),
}

#[derive(Default)]
struct Inner {
    cells: Vec<(&'static str, Arc<dyn Replica>)>,
    events: Vec<(&'static str, Arc<dyn EventReplica>)>,
    /// Somebody asked for state or events.
    wanted: bool,
    subscription: Option<Subscribed>,
}

struct Subscribed {
    line: Arc<Line>,
    route: Option<u64>,
    id: u64,
    /// Parent of what the hydration delivers.
    trace: TraceCarrier,
}

/// Why a subscription cannot go on from where it is.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("a frame lacks its member or its revision")]
    Incomplete,
    #[error("a payload is not strict JSON: {0}")]
    Strict(#[from] StrictError),
    #[error("a payload cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Patch(#[from] PatchError),
}

#[derive(Deserialize)]
struct Snapshot<'p> {
    #[serde(default, borrow)]
    cells: HashMap<Cow<'p, str>, (u64, &'p RawValue)>,
}

impl Replicas {
    pub(crate) fn new(
        namespace: Arc<Namespace>,
        descriptor: &'static ServiceDescriptor,
    ) -> Arc<Self> {
        Arc::new(Replicas {
            origin: Origin::Service(namespace),
            descriptor,
            inner: Mutex::default(),
        })
    }

    /// Of one object that a peer gave a reference to.
    pub(super) fn of_reference(
        held: HeldReference,
        descriptor: &'static ServiceDescriptor,
    ) -> Arc<Self> {
        Arc::new(Replicas {
            origin: Origin::Reference(held),
            descriptor,
            inner: Mutex::default(),
        })
    }

    /// The way to the owner, or why there is none.
    pub(super) fn reach(&self) -> Result<(Arc<Line>, Option<u64>), RpcError> {
        match &self.origin {
            Origin::Service(namespace) => namespace.reach(self.descriptor),
            Origin::Reference(held) => held.reach(self.descriptor.id),
        }
    }

    /// A header that names the owner.
    pub(super) fn header(&self, kind: Kind, route: Option<u64>) -> Header<'static> {
        let (service, reference) = match &self.origin {
            Origin::Service(_) => (Some(self.descriptor.id), None),
            Origin::Reference(held) => (None, Some(held.id())),
        };
        Header {
            route,
            service,
            reference,
            ..Header::new(kind)
        }
    }

    /// The connection or the attachment has ended. A service comes back, an object does not.
    pub(super) fn lose_reference(&self) {
        if matches!(self.origin, Origin::Reference(_)) {
            self.close();
        }
    }

    pub(super) fn cell<T: StateValue>(self: &Arc<Self>, member: &'static str) -> Arc<Core<T>> {
        let mut inner = lock(&self.inner);
        let known = inner.cells.iter().filter(|(name, _)| *name == member);
        if let Some(core) = known
            .filter_map(|(_, cell)| Arc::clone(cell).as_any().downcast().ok())
            .next()
        {
            return core;
        }
        let core = Core::new(T::default(), false);
        inner.cells.push((member, Arc::<Core<T>>::clone(&core)));
        self.restart(inner);
        core
    }

    pub(super) fn hub<T: EventValue>(self: &Arc<Self>, member: &'static str) -> Arc<Hub<T>> {
        let mut inner = lock(&self.inner);
        let known = inner.events.iter().filter(|(name, _)| *name == member);
        if let Some(hub) = known
            .filter_map(|(_, hub)| Arc::clone(hub).as_any().downcast().ok())
            .next()
        {
            return hub;
        }
        let hub = Hub::new();
        inner.events.push((member, Arc::<Hub<T>>::clone(&hub)));
        hub
    }

    /// A cell came after the snapshot: only another snapshot fills it.
    fn restart(self: &Arc<Self>, mut inner: std::sync::MutexGuard<'_, Inner>) {
        if let Some(old) = inner.subscription.take() {
            drop(inner);
            old.line.unsubscribe(old.id);
            self.follow();
        }
    }

    pub(super) fn want(self: &Arc<Self>) {
        let first = !std::mem::replace(&mut lock(&self.inner).wanted, true);
        if first {
            self.follow();
        }
    }

    /// Subscribes, if somebody wants it, the peer can be reached, and it is not done yet.
    pub(crate) fn follow(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        if !inner.wanted || inner.subscription.is_some() {
            return;
        }
        let Ok((line, route)) = self.reach() else {
            return;
        };
        let trace = TraceCarrier::root();
        let traceparent = trace.traceparent();
        let header = Header {
            trace: Some(&traceparent),
            ..self.header(Kind::Subscribe, route)
        };
        match line.subscribe(header, Arc::downgrade(self)) {
            Ok(id) => {
                inner.subscription = Some(Subscribed {
                    line,
                    route,
                    id,
                    trace,
                })
            }
            Err(error) => {
                tracing::debug!(%error, service = self.descriptor.id, "a subscription could not begin")
            }
        }
    }

    /// The way to the peer has changed: what is there is stale until a new snapshot replaces it.
    pub(crate) fn refollow(self: &Arc<Self>) {
        let current = self.reach().ok();
        let mut inner = lock(&self.inner);
        if let (Some(subscription), Some((line, route))) = (&inner.subscription, &current)
            && Arc::ptr_eq(&subscription.line, line)
            && subscription.route == *route
        {
            return;
        }
        inner.subscription = None;
        let cells: Vec<_> = inner
            .cells
            .iter()
            .map(|(_, cell)| Arc::clone(cell))
            .collect();
        drop(inner);
        for cell in &cells {
            cell.lose();
        }
        for cell in &cells {
            cell.announce();
        }
        self.follow();
    }

    /// Takes one frame of the subscription. The connection's reader calls this, frame by frame.
    pub(crate) fn deliver(self: &Arc<Self>, header: &Header<'_>, payload: &Bytes) {
        let inner = lock(&self.inner);
        let Some(subscription) = inner
            .subscription
            .as_ref()
            .filter(|current| current.id == header.id)
        else {
            return;
        };
        let taken = match header.kind {
            Kind::Snapshot => self.take_snapshot(inner, payload),
            Kind::State => self.take_state(inner, header, payload),
            Kind::Event => self.take_event(inner, header, payload),
            _ => {
                tracing::debug!(
                    service = self.descriptor.id,
                    "the peer closed a subscription"
                );
                drop(subscription.trace.clone());
                drop(inner);
                self.close();
                Ok(())
            }
        };
        if let Err(cause) = taken {
            tracing::warn!(service = self.descriptor.id, %cause, "a subscription broke");
            let mut inner = lock(&self.inner);
            let old = inner
                .subscription
                .take_if(|current| current.id == header.id);
            let cells: Vec<_> = inner
                .cells
                .iter()
                .map(|(_, cell)| Arc::clone(cell))
                .collect();
            drop(inner);
            for cell in &cells {
                cell.lose();
                cell.announce();
            }
            if let Some(old) = old {
                old.line.unsubscribe(old.id);
                // Another snapshot would be as unreadable: what is there stays, stale, until the way changes.
                if header.kind != Kind::Snapshot {
                    self.follow();
                }
            }
        }
    }

    fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.subscription = None;
        let cells: Vec<_> = inner
            .cells
            .iter()
            .map(|(_, cell)| Arc::clone(cell))
            .collect();
        // What is closed of an object stays closed: its streams end.
        let ended: Vec<_> = match self.origin {
            Origin::Service(_) => Vec::new(),
            Origin::Reference(_) => inner
                .events
                .iter()
                .map(|(_, hub)| Arc::clone(hub))
                .collect(),
        };
        drop(inner);
        for cell in &cells {
            cell.lose();
            cell.announce();
        }
        for hub in ended {
            hub.end();
        }
    }

    fn take_snapshot(
        &self,
        inner: std::sync::MutexGuard<'_, Inner>,
        payload: &Bytes,
    ) -> Result<(), Broken> {
        let snapshot: Snapshot<'_> = crate::json::read(payload)?;
        let trace = inner
            .subscription
            .as_ref()
            .map_or_else(TraceCarrier::root, |current| current.trace.clone());
        let mut filled = Vec::new();
        for (name, cell) in &inner.cells {
            if let Some((revision, value)) = snapshot.cells.get(*name) {
                // A copy, so that one cell does not keep the whole snapshot.
                let value = Bytes::copy_from_slice(value.get().as_bytes());
                cell.install(value, *revision, trace.clone());
                filled.push(Arc::clone(cell));
            }
        }
        drop(inner);
        for cell in filled {
            cell.announce();
        }
        Ok(())
    }

    fn take_state(
        &self,
        inner: std::sync::MutexGuard<'_, Inner>,
        header: &Header<'_>,
        payload: &Bytes,
    ) -> Result<(), Broken> {
        let (Some(member), Some(revision)) = (header.member, header.revision) else {
            return Err(Broken::Incomplete);
        };
        let cells: Vec<_> = inner
            .cells
            .iter()
            .filter(|(name, _)| *name == member)
            .map(|(_, cell)| Arc::clone(cell))
            .collect();
        if cells.is_empty() {
            crate::strict::check(payload)?;
        }
        let trace = trace_of(header);
        for cell in &cells {
            match header.base {
                None => {
                    // Checked to be JSON, like everything that is kept unread.
                    crate::json::read::<&RawValue>(payload)?;
                    cell.install(Bytes::copy_from_slice(payload), revision, trace.clone());
                }
                Some(base) => {
                    let operations: Vec<Operation> = crate::json::read(payload)?;
                    cell.patch(base, revision, operations, trace.clone())?;
                }
            }
        }
        drop(inner);
        for cell in cells {
            cell.announce();
        }
        Ok(())
    }

    fn take_event(
        &self,
        inner: std::sync::MutexGuard<'_, Inner>,
        header: &Header<'_>,
        payload: &Bytes,
    ) -> Result<(), Broken> {
        let Some(member) = header.member else {
            return Err(Broken::Incomplete);
        };
        let hubs: Vec<_> = inner
            .events
            .iter()
            .filter(|(name, _)| *name == member)
            .map(|(_, hub)| Arc::clone(hub))
            .collect();
        drop(inner);
        for hub in hubs {
            if let Some(count) = header.lost {
                hub.lost(count);
                continue;
            }
            if let Err(cause) = hub.receive(payload, trace_of(header)) {
                // One event that cannot be read is one lost; the subscription itself is sound.
                tracing::warn!(service = self.descriptor.id, member, %cause, "an event cannot be read");
                hub.lost(1);
            }
        }
        Ok(())
    }
}

fn trace_of(header: &Header<'_>) -> TraceCarrier {
    header
        .trace
        .and_then(|parent| TraceCarrier::parse(parent, header.trace_state.as_deref()).ok())
        .unwrap_or_else(TraceCarrier::root)
}

impl Drop for Replicas {
    fn drop(&mut self) {
        let inner = self
            .inner
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(subscription) = inner.subscription.take() {
            subscription.line.unsubscribe(subscription.id);
        }
    }
}
