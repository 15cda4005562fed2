//! The value behind every state handle, owned or replicated: JSON, a lazily typed copy, who watches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bezel_context::{Context, TraceCarrier};
use tokio::sync::Notify;

use super::StateValue;
use super::held::Held;
use super::history::History;
use super::patch::{Operation, PatchError};
use crate::sync::lock;

pub(crate) type Listener<T> = dyn Fn(&Arc<T>, &Context) + Send + Sync;

pub(crate) struct Core<T> {
    inner: Mutex<Held<T>>,
    pub(super) notify: Notify,
    /// Serialises writers, so that a writer may read while it prepares its value.
    writer: Mutex<()>,
}

/// What a cell holds at one moment. Whoever judges a value by its flags takes both from here: a flag that is
/// read after its value may be the one of the next value.
pub(crate) struct Current<T> {
    pub(crate) version: u64,
    pub(crate) value: Arc<T>,
    /// Whether it came from the owner.
    pub(crate) ready: bool,
    /// Whether the owner cannot be reached.
    pub(crate) stale: bool,
}

pub(super) type Refresh<T> = dyn Fn(&Core<T>, &TraceCarrier) + Send + Sync;

/// A view of the cell for some principals, kept while somebody follows it.
pub(super) struct Projection<T> {
    pub(super) refresh: Weak<Refresh<T>>,
}

pub(super) struct Entry<T> {
    listener: Box<Listener<T>>,
    active: AtomicBool,
    busy: AtomicBool,
    seen: AtomicU64,
}

impl<T: StateValue> Core<T> {
    pub(crate) fn new(initial: T, ready: bool) -> Arc<Self> {
        Arc::new(Core {
            inner: Mutex::new(Held {
                document: None,
                typed: Some(Arc::new(initial)),
                raw: None,
                told: None,
                version: 1,
                revision: 1,
                ready,
                stale: false,
                trace: TraceCarrier::root(),
                history: History::default(),
                feeds: Vec::new(),
                encoded: None,
                length: 0,
                encoded_patch: None,
                listeners: Vec::new(),
                projections: Vec::new(),
            }),
            notify: Notify::new(),
            writer: Mutex::new(()),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Held<T>> {
        lock(&self.inner)
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, ()> {
        lock(&self.writer)
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.lock().typed()
    }

    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    /// The value and what is known of it, of one moment.
    pub(crate) fn current(&self) -> Current<T> {
        let mut inner = self.lock();
        Current {
            version: inner.version,
            value: inner.typed(),
            ready: inner.ready,
            stale: inner.stale,
        }
    }

    /// A copy of the value for a writer to work on.
    pub(super) fn copy(&self) -> Result<T, serde_json::Error> {
        let mut inner = self.lock();
        T::deserialize(&*inner.document()?)
    }

    /// Replaces the value, unless it is equal; answers whether it was replaced. The writer lock is held.
    pub(super) fn replace(
        &self,
        value: T,
        trace: &TraceCarrier,
    ) -> Result<bool, serde_json::Error> {
        let document = serde_json::to_value(&value)?;
        let mut inner = self.lock();
        let followed = inner.followed();
        let held = inner.document()?;
        if *held == document {
            return Ok(false);
        }
        let before = std::mem::replace(held, document);
        inner.typed = Some(Arc::new(value));
        if followed {
            let revision = inner.revision;
            inner.told.get_or_insert((revision, before));
            inner.step(trace);
        } else {
            inner.advance([], trace);
        }
        Ok(true)
    }

    /// Applies one operation in place. The writer lock is held.
    pub(super) fn operate(
        &self,
        operation: Operation,
        trace: &TraceCarrier,
    ) -> Result<(), PatchError> {
        let mut inner = self.lock();
        let followed = inner.followed();
        inner.settle();
        let document = inner.document().map_err(|_| PatchError {
            verb: "change",
            path: "(root)".into(),
            reason: "the value has no JSON form",
            expected: "a value",
        })?;
        if followed {
            operation.clone().apply(document)?;
            inner.typed = None;
            inner.advance([operation], trace);
        } else {
            operation.apply(document)?;
            inner.typed = None;
            inner.advance([], trace);
        }
        Ok(())
    }

    /// Takes over a value and its flags from another cell.
    pub(super) fn mirror(&self, value: Arc<T>, ready: bool, stale: bool, trace: TraceCarrier) {
        let mut inner = self.lock();
        inner.document = None;
        inner.raw = None;
        inner.typed = Some(value);
        inner.ready = ready;
        inner.stale = stale;
        inner.advance([], &trace);
        inner.history.clear();
        drop(inner);
        self.announce();
    }

    pub(super) fn listen(self: &Arc<Self>, listener: Box<Listener<T>>) -> Arc<Entry<T>> {
        let entry = Arc::new(Entry {
            listener,
            active: AtomicBool::new(true),
            busy: AtomicBool::new(false),
            seen: AtomicU64::new(0),
        });
        self.lock().listeners.push(Arc::clone(&entry));
        self.deliver(&entry);
        entry
    }

    pub(super) fn unlisten(&self, entry: &Arc<Entry<T>>) {
        entry.active.store(false, Ordering::Release);
        self.lock()
            .listeners
            .retain(|other| !Arc::ptr_eq(other, entry));
    }

    pub(super) fn project(&self, projection: Projection<T>) {
        let mut inner = self.lock();
        inner
            .projections
            .retain(|other| other.refresh.strong_count() > 0);
        inner.projections.push(projection);
    }

    /// Brings every projection up to date. The writer lock is held.
    pub(super) fn refresh_projections(&self, trace: &TraceCarrier) {
        let live: Vec<_> = self
            .lock()
            .projections
            .iter()
            .filter_map(|projection| projection.refresh.upgrade())
            .collect();
        for refresh in live {
            refresh(self, trace);
        }
    }

    /// Tells watchers, listeners and feeds. No lock is held.
    pub(crate) fn announce(&self) {
        self.notify.notify_waiters();
        let (listeners, feeds) = {
            let mut inner = self.lock();
            inner.feeds.retain(|feed| feed.strong_count() > 0);
            (inner.listeners.clone(), inner.feeds.clone())
        };
        for feed in feeds.iter().filter_map(Weak::upgrade) {
            feed.changed();
        }
        for entry in &listeners {
            self.deliver(entry);
        }
    }

    /// Brings one listener to the newest value. One thread at a time calls it, in order.
    fn deliver(&self, entry: &Entry<T>) {
        loop {
            if entry.busy.swap(true, Ordering::AcqRel) {
                return;
            }
            loop {
                let (version, value, trace) = {
                    let mut inner = self.lock();
                    (inner.version, inner.typed(), inner.trace.clone())
                };
                if entry.seen.load(Ordering::Acquire) == version
                    || !entry.active.load(Ordering::Acquire)
                {
                    break;
                }
                entry.seen.store(version, Ordering::Release);
                let cx = Context::background().with_trace(trace.child());
                if catch_unwind(AssertUnwindSafe(|| (entry.listener)(&value, &cx))).is_err() {
                    tracing::error!(
                        value = std::any::type_name::<T>(),
                        "a state listener panicked"
                    );
                }
            }
            entry.busy.store(false, Ordering::Release);
            if entry.seen.load(Ordering::Acquire) == self.version()
                || !entry.active.load(Ordering::Acquire)
            {
                return;
            }
        }
    }
}
