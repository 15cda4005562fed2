//! Events: emitted after a subscription is active, bounded, never replayed.

mod queue;
mod view;

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bezel_context::{Context, Principal, TraceCarrier};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::ReadError;
use crate::state::Subscription;
use crate::sync::lock;

pub use view::Projected;

use queue::{Item, Listener, Queue, discriminator};
use view::{Encoded, Projector, View};

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
pub struct EventSource<T> {
    hub: Arc<Hub<T>>,
    projector: Option<Arc<Projector<T>>>,
}

/// The subscribing side of an event source. Cheap to clone.
pub struct Events<T> {
    hub: Arc<Hub<T>>,
    projector: Option<Arc<Projector<T>>>,
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
    /// Answers what the sink has to hold for as long as it wants events.
    fn attach(self: Arc<Self>, sink: Weak<dyn EventSink>) -> Arc<dyn Any + Send + Sync>;
}

/// An event source as the consuming side of a connection sees it.
pub(crate) trait EventReplica: Send + Sync {
    fn receive(&self, payload: &[u8], trace: TraceCarrier) -> Result<(), ReadError>;
    fn lost(&self, count: u64);
    /// No more events will come.
    fn end(&self);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

pub(crate) struct Hub<T> {
    inner: Mutex<Subscribers<T>>,
    /// Gives all subscribers the same order; held while an event is handed out, not while listeners run.
    order: Mutex<()>,
}

struct Subscribers<T> {
    /// Nothing more will come: a stream that begins now ends at once.
    ended: bool,
    queues: Vec<Weak<Queue<T>>>,
    listeners: Vec<Arc<Listener<T>>>,
    sinks: Vec<Weak<dyn EventSink>>,
    /// Sources that hand on what this one emits.
    relays: Vec<Weak<Hub<T>>>,
    /// What some principals see of it.
    views: Vec<Weak<View<T>>>,
}

impl<T: EventValue> EventSource<T> {
    /// A source without subscribers.
    pub fn new() -> Self {
        EventSource {
            hub: Hub::new(),
            projector: None,
        }
    }

    /// A source of which each remote principal gets only what `project` lets it see.
    ///
    /// What is hidden from a principal leaves no trace: it takes no room in its window and counts in no
    /// `lost`. Principals with the same owner, workspaces and scopes share one projection, so `project`
    /// must not look at the client id; it runs where the event is emitted, so it must be quick. Local
    /// subscribers get every event whole.
    pub fn projected(
        project: impl Fn(&T, &Principal) -> Projected<T> + Send + Sync + 'static,
    ) -> Self {
        EventSource {
            hub: Hub::new(),
            projector: Some(Projector::new(project)),
        }
    }

    /// Gives `event` to everybody who is subscribed now.
    pub fn emit(&self, cx: &Context, event: T) {
        self.hub.emit(Arc::new(event), cx.trace());
    }

    /// The handle that a contract returns.
    pub fn events(&self) -> Events<T> {
        Events {
            hub: Arc::clone(&self.hub),
            projector: self.projector.clone(),
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
        EventSource {
            hub: Arc::clone(&self.hub),
            projector: self.projector.clone(),
        }
    }
}

impl<T> Clone for Events<T> {
    fn clone(&self) -> Self {
        Events {
            hub: Arc::clone(&self.hub),
            projector: self.projector.clone(),
            keep: self.keep.clone(),
        }
    }
}

impl<T: EventValue> Events<T> {
    pub(crate) fn replica(hub: Arc<Hub<T>>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Events {
            hub,
            projector: None,
            keep: Some(keep),
        }
    }

    /// All events from now on. Of a remote service: from when its subscription is active.
    pub fn subscribe(&self) -> EventStream<T> {
        let queue = Arc::new(Queue::new());
        let mut inner = lock(&self.hub.inner);
        inner.queues.retain(|queue| queue.strong_count() > 0);
        inner.queues.push(Arc::downgrade(&queue));
        if inner.ended {
            queue.close();
        }
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
        let entry = Listener::new(discriminator.into(), listener);
        lock(&self.hub.inner).listeners.push(Arc::clone(&entry));
        let events = self.clone();
        Subscription::new(move || {
            entry.queue.close();
            lock(&events.hub.inner)
                .listeners
                .retain(|other| !Arc::ptr_eq(other, &entry));
        })
    }

    /// What `principal` may follow of it from the other side of a connection.
    pub(crate) fn origin(&self, principal: &Principal) -> Arc<dyn EventOrigin> {
        match &self.projector {
            Some(projector) => projector.view(&self.hub, principal),
            None => Arc::<Hub<T>>::clone(&self.hub),
        }
    }
}

impl<T: EventValue> EventStream<T> {
    /// The next delivery, in order. Dropping the future loses nothing.
    ///
    /// Answers `None` only once the source has gone and everything was delivered.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        Some(match self.queue.next().await? {
            Item::Event(value, trace) => Delivery::Event {
                value,
                cx: Context::background().with_trace(trace.child()),
            },
            Item::Lost(count) => Delivery::Lost { count },
        })
    }
}

impl<T: EventValue> Hub<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Hub {
            inner: Mutex::new(Subscribers {
                ended: false,
                queues: Vec::new(),
                listeners: Vec::new(),
                sinks: Vec::new(),
                relays: Vec::new(),
                views: Vec::new(),
            }),
            order: Mutex::new(()),
        })
    }

    fn emit(&self, event: Arc<T>, trace: &TraceCarrier) {
        let mut called = Vec::new();
        self.hand_out(&event, trace, &Encoded::default(), &mut called);
        for listener in called {
            listener.drain();
        }
    }

    /// Queues the event everywhere, in one order; the listeners that got one are for the caller to drain.
    fn hand_out(
        &self,
        event: &Arc<T>,
        trace: &TraceCarrier,
        encoded: &Encoded,
        called: &mut Vec<Arc<Listener<T>>>,
    ) {
        let _order = lock(&self.order);
        let live = self.live();
        if !live.sinks.is_empty()
            && let Some(payload) = encoded.of(&**event)
        {
            for sink in &live.sinks {
                sink.emitted(payload, trace);
            }
        }
        for view in live.views {
            match view.projected(event) {
                Projected::Hidden => {}
                Projected::Whole => view.hub().hand_out(event, trace, encoded, called),
                Projected::Part(part) => {
                    let part = Arc::new(part);
                    view.hub()
                        .hand_out(&part, trace, &Encoded::default(), called);
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
            relay.hand_out(event, trace, encoded, called);
        }
    }

    /// Hands what is emitted to a view too.
    fn show(&self, view: Weak<View<T>>) {
        let mut inner = lock(&self.inner);
        inner.views.retain(|view| view.strong_count() > 0);
        inner.views.push(view);
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
            views: live(&mut inner.views),
        }
    }
}

struct Live<T> {
    queues: Vec<Arc<Queue<T>>>,
    listeners: Vec<Arc<Listener<T>>>,
    sinks: Vec<Arc<dyn EventSink>>,
    relays: Vec<Arc<Hub<T>>>,
    views: Vec<Arc<View<T>>>,
}

impl<T: EventValue> EventOrigin for Hub<T> {
    fn attach(self: Arc<Self>, sink: Weak<dyn EventSink>) -> Arc<dyn Any + Send + Sync> {
        let mut inner = lock(&self.inner);
        // Here too, for a source may be followed often and emit seldom.
        inner.sinks.retain(|sink| sink.strong_count() > 0);
        inner.sinks.push(sink);
        drop(inner);
        self
    }
}

impl<T: EventValue> EventReplica for Hub<T> {
    fn receive(&self, payload: &[u8], trace: TraceCarrier) -> Result<(), ReadError> {
        self.emit(Arc::new(crate::json::read(payload)?), &trace);
        Ok(())
    }

    fn lost(&self, count: u64) {
        self.lose(count);
    }

    fn end(&self) {
        lock(&self.inner).end();
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<T> Drop for Hub<T> {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.end();
    }
}

impl<T> Subscribers<T> {
    /// Lets every stream end once it has delivered what waits.
    fn end(&mut self) {
        self.ended = true;
        for queue in self.queues.iter().filter_map(Weak::upgrade) {
            queue.close();
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
            projector: None,
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
