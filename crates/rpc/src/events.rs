//! Events: emitted after a subscription is active, bounded, never replayed.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bezel_context::{Context, TraceCarrier};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::state::Subscription;
use crate::sync::lock;

/// How many events wait for one subscriber before it loses the newer ones.
const MOST_WAITING: usize = 1024;

/// What an event must be: an enum tagged with `type`, so that [`Events::on`] can tell them apart.
pub trait EventValue: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> EventValue for T {}

/// What a subscriber gets, in order.
#[derive(Debug)]
pub enum Delivery<T> {
    /// An event.
    Event {
        /// The event, shared with the other subscribers of this process.
        value: Arc<T>,
        /// Built for this delivery; its trace is that of the emitter.
        cx: Context,
    },
    /// Events were dropped here, because this subscriber was too slow.
    Lost {
        /// How many.
        count: u64,
    },
}

/// Emits events. Cheap to clone; all clones are the same source.
pub struct EventSource<T>(Arc<Hub<T>>);

/// The subscribing side of an event source. Cheap to clone.
pub struct Events<T> {
    hub: Arc<Hub<T>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// One subscriber's events.
pub struct EventStream<T> {
    queue: Arc<Queue<T>>,
    _keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Is given encoded events; owned by a provider's connection.
pub(crate) trait EventSink: Send + Sync {
    fn emitted(&self, payload: &Bytes, trace: &TraceCarrier);
}

/// An event source as the providing side of a connection sees it.
pub(crate) trait EventOrigin: Send + Sync {
    fn attach(&self, sink: Weak<dyn EventSink>);
}

/// An event source as the consuming side of a connection sees it.
pub(crate) trait EventReplica: Send + Sync {
    fn receive(&self, payload: &[u8], trace: TraceCarrier) -> Result<(), serde_json::Error>;
    fn lost(&self, count: u64);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

pub(crate) struct Hub<T> {
    inner: Mutex<Subscribers<T>>,
    /// Gives all subscribers the same order; held while an event is handed out, not while listeners run.
    order: Mutex<()>,
}

struct Subscribers<T> {
    queues: Vec<Weak<Queue<T>>>,
    listeners: Vec<Arc<Listener<T>>>,
    sinks: Vec<Weak<dyn EventSink>>,
    /// Sources that hand on what this one emits.
    relays: Vec<Weak<Hub<T>>>,
}

struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    notify: Notify,
}

struct Waiting<T> {
    items: VecDeque<Item<T>>,
    closed: bool,
}

enum Item<T> {
    Event(Arc<T>, TraceCarrier),
    Lost(u64),
}

type Callback<T> = dyn Fn(&Arc<T>, &Context) + Send + Sync;

struct Listener<T> {
    discriminator: String,
    call: Box<Callback<T>>,
    queue: Queue<T>,
    busy: AtomicBool,
}

impl<T: EventValue> EventSource<T> {
    /// A source without subscribers.
    pub fn new() -> Self {
        EventSource(Hub::new())
    }

    /// Gives `event` to everybody who is subscribed now.
    pub fn emit(&self, cx: &Context, event: T) {
        self.0.emit(Arc::new(event), cx.trace());
    }

    /// The handle that a contract returns.
    pub fn events(&self) -> Events<T> {
        Events {
            hub: Arc::clone(&self.0),
            keep: None,
        }
    }
}

impl<T: EventValue> Default for EventSource<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for EventSource<T> {
    fn clone(&self) -> Self {
        EventSource(Arc::clone(&self.0))
    }
}

impl<T> Clone for Events<T> {
    fn clone(&self) -> Self {
        Events {
            hub: Arc::clone(&self.hub),
            keep: self.keep.clone(),
        }
    }
}

impl<T: EventValue> Events<T> {
    pub(crate) fn replica(hub: Arc<Hub<T>>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Events {
            hub,
            keep: Some(keep),
        }
    }

    /// All events from now on. Of a remote service: from when its subscription is active.
    pub fn subscribe(&self) -> EventStream<T> {
        let queue = Arc::new(Queue::new());
        let mut inner = lock(&self.hub.inner);
        inner.queues.retain(|queue| queue.strong_count() > 0);
        inner.queues.push(Arc::downgrade(&queue));
        drop(inner);
        EventStream {
            queue,
            _keep: self.keep.clone(),
        }
    }

    /// Calls `listener` for each event whose `type` is `discriminator`, in order.
    pub fn on(
        &self,
        discriminator: impl Into<String>,
        listener: impl Fn(&Arc<T>, &Context) + Send + Sync + 'static,
    ) -> Subscription {
        let entry = Arc::new(Listener {
            discriminator: discriminator.into(),
            call: Box::new(listener),
            queue: Queue::new(),
            busy: AtomicBool::new(false),
        });
        lock(&self.hub.inner).listeners.push(Arc::clone(&entry));
        let events = self.clone();
        Subscription::new(move || {
            lock(&entry.queue.waiting).closed = true;
            lock(&events.hub.inner)
                .listeners
                .retain(|other| !Arc::ptr_eq(other, &entry));
        })
    }

    pub(crate) fn origin(&self) -> Arc<dyn EventOrigin> {
        Arc::<Hub<T>>::clone(&self.hub)
    }
}

impl<T: EventValue> EventStream<T> {
    /// The next delivery, in order. Dropping the future loses nothing.
    ///
    /// Answers `None` only once the source has gone and everything was delivered.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            let mut notified = std::pin::pin!(self.queue.notify.notified());
            notified.as_mut().enable();
            {
                let mut waiting = lock(&self.queue.waiting);
                match waiting.items.pop_front() {
                    Some(Item::Event(value, trace)) => {
                        return Some(Delivery::Event {
                            value,
                            cx: Context::background().with_trace(trace.child()),
                        });
                    }
                    Some(Item::Lost(count)) => return Some(Delivery::Lost { count }),
                    None if waiting.closed => return None,
                    None => {}
                }
            }
            notified.await;
        }
    }
}

impl<T: EventValue> Hub<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Hub {
            inner: Mutex::new(Subscribers {
                queues: Vec::new(),
                listeners: Vec::new(),
                sinks: Vec::new(),
                relays: Vec::new(),
            }),
            order: Mutex::new(()),
        })
    }

    fn emit(&self, event: Arc<T>, trace: &TraceCarrier) {
        let mut called = Vec::new();
        self.hand_out(&event, trace, &mut called);
        for listener in called {
            listener.drain();
        }
    }

    /// Queues the event everywhere, in one order; the listeners that got one are for the caller to drain.
    fn hand_out(&self, event: &Arc<T>, trace: &TraceCarrier, called: &mut Vec<Arc<Listener<T>>>) {
        let _order = lock(&self.order);
        let live = self.live();
        if !live.sinks.is_empty() {
            match serde_json::to_vec(&**event) {
                Ok(payload) => {
                    let payload = Bytes::from(payload);
                    for sink in &live.sinks {
                        sink.emitted(&payload, trace);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, event = std::any::type_name::<T>(), "an event has no JSON form")
                }
            }
        }
        for queue in live.queues {
            queue.push(Item::Event(Arc::clone(event), trace.clone()));
        }
        if !live.listeners.is_empty() {
            let kind = discriminator(&**event);
            for listener in live.listeners {
                if Some(&listener.discriminator) == kind.as_ref() {
                    listener
                        .queue
                        .push(Item::Event(Arc::clone(event), trace.clone()));
                    called.push(listener);
                }
            }
        }
        for relay in live.relays {
            relay.hand_out(event, trace, called);
        }
    }

    fn lose(&self, count: u64) {
        let _order = lock(&self.order);
        let live = self.live();
        for queue in live.queues {
            queue.push(Item::Lost(count));
        }
        for relay in live.relays {
            relay.lose(count);
        }
    }

    fn live(&self) -> Live<T> {
        fn live<T: ?Sized>(all: &mut Vec<Weak<T>>) -> Vec<Arc<T>> {
            all.retain(|one| one.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        }
        let mut inner = lock(&self.inner);
        Live {
            queues: live(&mut inner.queues),
            listeners: inner.listeners.clone(),
            sinks: live(&mut inner.sinks),
            relays: live(&mut inner.relays),
        }
    }
}

struct Live<T> {
    queues: Vec<Arc<Queue<T>>>,
    listeners: Vec<Arc<Listener<T>>>,
    sinks: Vec<Arc<dyn EventSink>>,
    relays: Vec<Arc<Hub<T>>>,
}

impl<T: EventValue> EventOrigin for Hub<T> {
    fn attach(&self, sink: Weak<dyn EventSink>) {
        lock(&self.inner).sinks.push(sink);
    }
}

impl<T: EventValue> EventReplica for Hub<T> {
    fn receive(&self, payload: &[u8], trace: TraceCarrier) -> Result<(), serde_json::Error> {
        self.emit(Arc::new(serde_json::from_slice(payload)?), &trace);
        Ok(())
    }

    fn lost(&self, count: u64) {
        self.lose(count);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// The value of the event's `type` member, or the event itself where it is a bare text.
fn discriminator(event: &impl Serialize) -> Option<String> {
    match serde_json::to_value(event).ok()? {
        serde_json::Value::Object(mut fields) => match fields.remove("type")? {
            serde_json::Value::String(kind) => Some(kind),
            _ => None,
        },
        serde_json::Value::String(kind) => Some(kind),
        _ => None,
    }
}

impl<T> Queue<T> {
    fn new() -> Self {
        Queue {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                closed: false,
            }),
            notify: Notify::new(),
        }
    }

    fn push(&self, item: Item<T>) {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return;
        }
        let dropped = match &item {
            Item::Lost(count) => *count,
            Item::Event(..) if waiting.items.len() >= MOST_WAITING => 1,
            Item::Event(..) => 0,
        };
        match waiting.items.back_mut() {
            _ if dropped == 0 => waiting.items.push_back(item),
            Some(Item::Lost(count)) => *count += dropped,
            _ => waiting.items.push_back(Item::Lost(dropped)),
        }
        drop(waiting);
        self.notify.notify_one();
    }
}

impl<T> Listener<T> {
    /// Calls the listener for what waits. One thread at a time does, so the order holds.
    fn drain(&self) {
        while !self.busy.swap(true, Ordering::AcqRel) {
            loop {
                let item = {
                    let mut waiting = lock(&self.queue.waiting);
                    if waiting.closed {
                        None
                    } else {
                        waiting.items.pop_front()
                    }
                };
                let Some(item) = item else { break };
                let Item::Event(value, trace) = item else {
                    continue;
                };
                let cx = Context::background().with_trace(trace.child());
                if catch_unwind(AssertUnwindSafe(|| (self.call)(&value, &cx))).is_err() {
                    tracing::error!(
                        event = std::any::type_name::<T>(),
                        "an event listener panicked"
                    );
                }
            }
            self.busy.store(false, Ordering::Release);
            let waiting = lock(&self.queue.waiting);
            if waiting.closed || waiting.items.is_empty() {
                return;
            }
        }
    }
}

impl<T> Drop for Hub<T> {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        for queue in inner.queues.iter().filter_map(Weak::upgrade) {
            lock(&queue.waiting).closed = true;
            queue.notify.notify_one();
        }
    }
}

/// Events handed out before their origin is known.
pub(crate) struct UnlinkedEvents<T>(Arc<Link<T>>);

/// Kept by every handle and stream, so that events flow while somebody listens.
struct Link<T> {
    hub: Arc<Hub<T>>,
    origin: Mutex<Option<Events<T>>>,
}

impl<T: EventValue> UnlinkedEvents<T> {
    pub(crate) fn new() -> Self {
        UnlinkedEvents(Arc::new(Link {
            hub: Hub::new(),
            origin: Mutex::new(None),
        }))
    }

    pub(crate) fn events(&self) -> Events<T> {
        let keep: Arc<dyn Any + Send + Sync> = Arc::<Link<T>>::clone(&self.0);
        Events {
            hub: Arc::clone(&self.0.hub),
            keep: Some(keep),
        }
    }

    pub(crate) fn link(&self, origin: &Events<T>) {
        lock(&origin.hub.inner)
            .relays
            .push(Arc::downgrade(&self.0.hub));
        *lock(&self.0.origin) = Some(origin.clone());
    }
}
