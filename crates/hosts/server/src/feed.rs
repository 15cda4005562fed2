//! Who hears of changes, and in which order.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

type Listener<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// Delivers each change to every listener, in order of the changes, on the thread that made one. A
/// change that a listener makes is delivered after the one it listens to.
pub(crate) struct Feed<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    next: u64,
    listeners: BTreeMap<u64, Listener<T>>,
    pending: VecDeque<T>,
    delivering: bool,
}

impl<T> Clone for Feed<T> {
    fn clone(&self) -> Self {
        Feed(Arc::clone(&self.0))
    }
}

impl<T> Default for Feed<T> {
    fn default() -> Self {
        let (listeners, pending) = (BTreeMap::new(), VecDeque::new());
        Feed(Arc::new(Mutex::new(State {
            next: 0,
            listeners,
            pending,
            delivering: false,
        })))
    }
}

impl<T: Send + 'static> Feed<T> {
    /// Hears of everything from now on, until the result is dropped.
    pub(crate) fn subscribe(&self, listener: impl Fn(&T) + Send + Sync + 'static) -> Box<dyn Send> {
        let mut state = lock(&self.0);
        let id = state.next;
        state.next += 1;
        state.listeners.insert(id, Arc::new(listener));
        Box::new(Listening {
            feed: Arc::downgrade(&self.0),
            id,
        })
    }

    /// Puts a change in line; the caller may hold locks, and delivers once it has given them back.
    pub(crate) fn push(&self, change: T) {
        lock(&self.0).pending.push_back(change);
    }

    /// Delivers what is in line, unless somebody does.
    pub(crate) fn deliver(&self) {
        if std::mem::replace(&mut lock(&self.0).delivering, true) {
            return;
        }
        loop {
            let (change, listeners) = {
                let mut state = lock(&self.0);
                let Some(change) = state.pending.pop_front() else {
                    state.delivering = false;
                    return;
                };
                (
                    change,
                    state.listeners.values().cloned().collect::<Vec<_>>(),
                )
            };
            for listener in listeners {
                if catch_unwind(AssertUnwindSafe(|| listener(&change))).is_err() {
                    tracing::error!("a listener of the server's changes panicked");
                }
            }
        }
    }

    /// Puts a change in line and delivers.
    pub(crate) fn publish(&self, change: T) {
        self.push(change);
        self.deliver();
    }
}

struct Listening<T> {
    feed: Weak<Mutex<State<T>>>,
    id: u64,
}

impl<T> Drop for Listening<T> {
    fn drop(&mut self) {
        if let Some(feed) = self.feed.upgrade() {
            let removed = lock(&feed).listeners.remove(&self.id);
            // What a listener owns is dropped after the lock is given back.
            drop(removed);
        }
    }
}

// A plain mutex: held to push or take, never while a listener runs.
fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_reach_every_listener_in_order_even_those_that_a_listener_makes() {
        let feed = Feed::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let again = feed.clone();
        let _first = feed.subscribe(move |change: &u32| {
            if *change == 1 {
                again.publish(2);
            }
        });
        let inner = Arc::clone(&seen);
        let second = feed.subscribe(move |change| inner.lock().unwrap().push(*change));
        let _broken = feed.subscribe(|_| panic!("broken"));
        feed.publish(1);
        feed.publish(3);
        drop(second);
        feed.publish(4);
        assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
    }
}
