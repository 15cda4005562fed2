//! The read-only side of a state value: what a contract returns and a facet watches.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bezel_context::{Cancelled, Context, Principal, TraceCarrier};

use super::cell::Projector;
use super::core::{Core, Current};
use super::{Replica, Source, StateValue};

/// A read-only view of a value that somebody else owns. Cheap to clone.
///
/// It always holds a value: the replica's initial one (`Default`) until it is hydrated, and the last
/// known one while the owner cannot be reached.
pub struct State<T> {
    core: Arc<Core<T>>,
    projector: Option<Arc<Projector<T>>>,
    /// Keeps whatever feeds this value alive.
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

/// Ends a subscription when it is dropped.
#[must_use = "the subscription ends when this is dropped"]
pub struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

/// Waits for changes of one [`State`].
pub struct StateWatcher<T> {
    state: State<T>,
    seen: u64,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        State {
            core: Arc::clone(&self.core),
            projector: self.projector.clone(),
            keep: self.keep.clone(),
        }
    }
}

impl<T: StateValue> State<T> {
    /// A value that never changes.
    pub fn constant(value: T) -> Self {
        Self::owned(Core::new(value, true), None)
    }

    pub(super) fn owned(core: Arc<Core<T>>, projector: Option<Arc<Projector<T>>>) -> Self {
        State {
            core,
            projector,
            keep: None,
        }
    }

    /// A handle on a replica; `keep` lives as long as a handle does.
    pub(crate) fn replica(core: Arc<Core<T>>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        State {
            core,
            projector: None,
            keep: Some(keep),
        }
    }

    /// The current value.
    pub fn get(&self) -> Arc<T> {
        self.core.get()
    }

    /// Whether a value came from the owner at least once. Always true in the owner's process.
    pub fn is_ready(&self) -> bool {
        self.core.lock().ready
    }

    /// Whether the owner cannot be reached, so that the value may be out of date.
    pub fn is_stale(&self) -> bool {
        self.core.lock().stale
    }

    /// Calls `listener` at once with the current value and then on each change, in order.
    ///
    /// Changes that follow each other closely may be reported as one: the latest value counts. The
    /// context is built for the delivery; its trace is that of the change. The listener runs where the
    /// change is made or arrives, so it must be quick.
    pub fn subscribe(
        &self,
        listener: impl Fn(&Arc<T>, &Context) + Send + Sync + 'static,
    ) -> Subscription {
        let entry = self.core.listen(Box::new(listener));
        let state = self.clone();
        Subscription::new(move || state.core.unlisten(&entry))
    }

    /// Waits for changes; the first wait returns the current value at once.
    pub fn watch(&self) -> StateWatcher<T> {
        StateWatcher {
            state: self.clone(),
            seen: 0,
        }
    }

    /// Waits until the value satisfies `condition`.
    pub async fn wait_for(
        &self,
        cx: &Context,
        condition: impl Fn(&T) -> bool,
    ) -> Result<Arc<T>, Cancelled> {
        let mut watcher = self.watch();
        cx.run(async {
            loop {
                let value = watcher.changed().await;
                if condition(&value) {
                    return value;
                }
            }
        })
        .await
    }

    /// Waits until the value is the owner's current one: hydrated and not stale.
    pub async fn ready(&self, cx: &Context) -> Result<Arc<T>, Cancelled> {
        let mut watcher = self.watch();
        cx.run(watcher.changed_by_owner()).await
    }

    /// A state that follows this one through `convert`. It lives in this process only.
    pub fn map<U: StateValue>(
        &self,
        convert: impl Fn(&T) -> U + Send + Sync + 'static,
    ) -> State<U> {
        let current = self.core.current();
        let core = Core::new(convert(&current.value), current.ready);
        let keep = follow(self, &core, move |value| Arc::new(convert(value)));
        State {
            core,
            projector: None,
            keep: Some(Arc::new(keep)),
        }
    }

    /// What `principal` may follow of it from the other side of a connection.
    pub(crate) fn source(&self, principal: &Principal) -> Arc<dyn Source> {
        match &self.projector {
            Some(projector) => projector.view(&self.core, principal),
            None => Arc::<Core<T>>::clone(&self.core),
        }
    }
}

/// Copies `origin`'s values and flags into `target` for as long as the subscription lives.
fn follow<T: StateValue, U: StateValue>(
    origin: &State<T>,
    target: &Arc<Core<U>>,
    convert: impl Fn(&Arc<T>) -> Arc<U> + Send + Sync + 'static,
) -> Subscription {
    let target: Weak<Core<U>> = Arc::downgrade(target);
    let source = Arc::downgrade(&origin.core);
    origin.subscribe(move |_, cx| {
        if let (Some(target), Some(source)) = (target.upgrade(), source.upgrade()) {
            let current = source.current();
            let value = convert(&current.value);
            target.mirror(value, current.ready, current.stale, cx.trace().clone());
        }
    })
}

/// A state handed out before its origin is known; it shows the initial value until it is linked.
pub(crate) struct Unlinked<T> {
    core: Arc<Core<T>>,
    link: Arc<Mutex<Option<Subscription>>>,
}

impl<T: StateValue> Unlinked<T> {
    pub(crate) fn new() -> Self {
        Unlinked {
            core: Core::new(T::default(), false),
            link: Arc::default(),
        }
    }

    pub(crate) fn state(&self) -> State<T> {
        let keep: Arc<dyn Any + Send + Sync> =
            Arc::<Mutex<Option<Subscription>>>::clone(&self.link);
        State {
            core: Arc::clone(&self.core),
            projector: None,
            keep: Some(keep),
        }
    }

    pub(crate) fn link(&self, origin: &State<T>) {
        let subscription = follow(origin, &self.core, Arc::clone);
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(subscription);
    }
}

/// A value that the machinery itself keeps, such as the state of a connection.
pub(crate) struct Kept<T>(Arc<Core<T>>);

impl<T: StateValue> Kept<T> {
    pub(crate) fn new(initial: T) -> Self {
        Kept(Core::new(initial, true))
    }

    pub(crate) fn state(&self) -> State<T> {
        State::owned(Arc::clone(&self.0), None)
    }

    /// Replaces the value without telling anybody; `announce` does that, with no lock held.
    pub(crate) fn put(&self, value: T) {
        let writer = self.0.writer();
        if let Err(error) = self.0.replace(value, &TraceCarrier::root()) {
            tracing::error!(%error, "a connection's state has no JSON form");
        }
        drop(writer);
    }

    pub(crate) fn announce(&self) {
        Replica::announce(&*self.0);
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.0.get()
    }
}

impl<T: StateValue> StateWatcher<T> {
    /// The value after the next change; the first call returns the current one at once.
    ///
    /// Dropping the future loses nothing.
    pub async fn changed(&mut self) -> Arc<T> {
        self.next().await.value
    }

    /// The value after the next change that is the owner's current one: hydrated and not stale. What is shown
    /// before the owner's first value is passed over.
    ///
    /// Dropping the future loses nothing that is still current.
    pub async fn changed_by_owner(&mut self) -> Arc<T> {
        loop {
            let current = self.next().await;
            if current.ready && !current.stale {
                return current.value;
            }
        }
    }

    async fn next(&mut self) -> Current<T> {
        loop {
            let mut notified = std::pin::pin!(self.state.core.notify.notified());
            notified.as_mut().enable();
            let current = self.state.core.current();
            if current.version != self.seen {
                self.seen = current.version;
                return current;
            }
            notified.await;
        }
    }

    /// The state that this watches.
    pub fn state(&self) -> &State<T> {
        &self.state
    }
}

impl Subscription {
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Subscription {
            end: Some(Box::new(end)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Subscription")
    }
}

impl<T: StateValue + std::fmt::Debug> std::fmt::Debug for State<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let current = self.core.current();
        formatter
            .debug_struct("State")
            .field("value", &current.value)
            .field("ready", &current.ready)
            .field("stale", &current.stale)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use bytes::Bytes;
    use futures::executor::block_on;

    use super::*;

    /// How many first values race with a reader; the window between a value and its flags is some nanoseconds.
    const RACES: usize = 20_000;

    /// Hydrates replica after replica while `read` reads each.
    fn race(read: impl Fn(State<u32>)) {
        let (sender, receiver) = mpsc::channel::<Arc<Core<u32>>>();
        let start = Arc::new(Barrier::new(2));
        let started = Arc::clone(&start);
        let owner = thread::spawn(move || {
            for core in receiver {
                started.wait();
                Replica::install(&*core, Bytes::from_static(b"7"), 1, TraceCarrier::root());
                Replica::announce(&*core);
            }
        });
        for _ in 0..RACES {
            let core = Core::new(0, false);
            sender.send(Arc::clone(&core)).expect("the owner lives");
            start.wait();
            read(State::owned(core, None));
        }
        drop(sender);
        owner.join().expect("the owner installs");
    }

    #[test]
    fn what_is_ready_is_never_the_value_from_before_the_first_one() {
        race(|state| {
            let ready = block_on(state.ready(&Context::background()));
            assert_eq!(ready.map(|value| *value), Ok(7));
        });
    }

    #[test]
    fn a_state_that_follows_another_is_not_ready_before_that_one_is() {
        race(|state| {
            let unlinked = Unlinked::new();
            let followed = unlinked.state();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let ready = block_on(followed.ready(&Context::background()));
                    assert_eq!(ready.map(|value| *value), Ok(7));
                });
                unlinked.link(&state);
            });
        });
    }
}
