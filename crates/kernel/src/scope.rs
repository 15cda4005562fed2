//! What one unit owns: callbacks for activation and everything to undo.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_context::{Spawner, TaskScope};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::BoxError;

/// A callback that runs once.
pub(crate) type Callback = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), BoxError>> + Send>;

/// The lifetime of one unit. Cheap to clone; all clones are the same scope.
#[derive(Clone)]
pub struct Scope(Arc<Shared>);

struct Shared {
    name: Arc<str>,
    spawner: Spawner,
    // Plain mutexes: held to push or take, never across an await.
    state: Mutex<State>,
}

struct State {
    closed: bool,
    activations: Vec<Callback>,
    disposals: Vec<Callback>,
    tasks: Option<TaskScope>,
}

impl Scope {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let tasks = TaskScope::new();
        Scope(Arc::new(Shared {
            name,
            spawner: tasks.spawner(),
            state: Mutex::new(State {
                closed: false,
                activations: Vec::new(),
                disposals: Vec::new(),
                tasks: Some(tasks),
            }),
        }))
    }

    /// The unit's name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Runs `callback` when the unit is activated, after all setups. Ignored once that has happened.
    pub fn on_activate<F, Fut>(&self, callback: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.lock()
            .activations
            .push(Box::new(move || callback().boxed()));
    }

    /// Runs `callback` when the unit ends, before everything that was registered earlier.
    pub fn on_dispose<F, Fut>(&self, callback: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.lock()
            .disposals
            .push(Box::new(move || callback().boxed()));
    }

    /// Drops `resource` when the unit ends; at once if it has ended already.
    pub fn own<T: Send + 'static>(&self, resource: T) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            drop(resource);
            return;
        }
        state.disposals.push(Box::new(move || {
            drop(resource);
            async { Ok(()) }.boxed()
        }));
    }

    /// Starts tasks that end with the unit.
    pub fn spawner(&self) -> &Spawner {
        &self.0.spawner
    }

    /// Whether the unit has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn take_activations(&self) -> Vec<Callback> {
        std::mem::take(&mut self.lock().activations)
    }

    /// Closes the scope and hands over what is to be undone, oldest first, and its tasks.
    pub(crate) fn close(&self) -> (Vec<Callback>, Option<TaskScope>) {
        let mut state = self.lock();
        state.closed = true;
        state.activations.clear();
        (std::mem::take(&mut state.disposals), state.tasks.take())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Scope")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}
