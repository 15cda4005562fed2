//! What waits for one subscriber: its events in order, bounded, and the marks of those it lost.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bezel_context::{Context, TraceCarrier};
use serde::Serialize;
use tokio::sync::Notify;

use crate::sync::lock;

/// How many events wait for one subscriber before it loses the newer ones.
const MOST_WAITING: usize = 1024;

pub(super) struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    notify: Notify,
}

struct Waiting<T> {
    items: VecDeque<Item<T>>,
    closed: bool,
}

pub(super) enum Item<T> {
    Event(Arc<T>, TraceCarrier),
    Lost(u64),
}

type Callback<T> = dyn Fn(&Arc<T>, &Context) + Send + Sync;

pub(super) struct Listener<T> {
    pub(super) discriminator: String,
    call: Box<Callback<T>>,
    pub(super) queue: Queue<T>,
    busy: AtomicBool,
}

/// The value of the event's `type` member, or the event itself where it is a bare text.
pub(super) fn discriminator(event: &impl Serialize) -> Option<String> {
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
    /// Takes nothing more; what waits is still delivered, unless nobody is left to take it.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.notify.notify_one();
    }

    /// The next item, in order; `None` once it is closed and empty. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> Option<Item<T>> {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            {
                let mut waiting = lock(&self.waiting);
                if let Some(item) = waiting.items.pop_front() {
                    return Some(item);
                }
                if waiting.closed {
                    return None;
                }
            }
            notified.await;
        }
    }

    pub(super) fn new() -> Self {
        Queue {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                closed: false,
            }),
            notify: Notify::new(),
        }
    }

    pub(super) fn push(&self, item: Item<T>) {
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
    pub(super) fn new(
        discriminator: String,
        call: impl Fn(&Arc<T>, &Context) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Listener {
            discriminator,
            call: Box::new(call),
            queue: Queue::new(),
            busy: AtomicBool::new(false),
        })
    }

    /// Calls the listener for what waits. One thread at a time does, so the order holds.
    pub(super) fn drain(&self) {
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
