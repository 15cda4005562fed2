//! Owned tasks: the only place of the workspace that starts one.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as PollContext, Poll};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio_util::task::TaskTracker;

/// Owns tasks. Dropping it aborts what still runs; [`TaskScope::shutdown`] waits first.
#[derive(Debug)]
pub struct TaskScope {
    spawner: Spawner,
}

/// Starts tasks in a [`TaskScope`] without owning it. Once the scope has ended it starts nothing.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tracker: TaskTracker,
    // A plain mutex: held only to insert, remove or take, never across an await.
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    closed: bool,
    next: u64,
    tasks: HashMap<u64, (&'static str, AbortHandle)>,
}

/// A running task's result. Dropping it leaves the task running in its scope.
#[derive(Debug)]
pub struct Task<T>(Option<JoinHandle<T>>);

impl TaskScope {
    /// A scope without tasks.
    pub fn new() -> Self {
        TaskScope {
            spawner: Spawner(Arc::new(Shared {
                tracker: TaskTracker::new(),
                running: Mutex::default(),
            })),
        }
    }

    /// A handle that starts tasks here.
    pub fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Starts a task; `name` is what an overrun is reported under.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawner.spawn(name, future)
    }

    /// Starts nothing more, waits up to `grace` for what runs, aborts the rest and names it.
    pub async fn shutdown(self, grace: Duration) -> Vec<&'static str> {
        let shared = Arc::clone(&self.spawner.0);
        shared.lock().closed = true;
        shared.tracker.close();
        if tokio::time::timeout(grace, shared.tracker.wait())
            .await
            .is_ok()
        {
            return Vec::new();
        }
        let overran = shared.abort_all();
        shared.tracker.wait().await;
        overran
    }
}

impl Default for TaskScope {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TaskScope {
    fn drop(&mut self) {
        self.spawner.0.lock().closed = true;
        self.spawner.0.abort_all();
    }
}

impl Spawner {
    /// Starts a task; `name` is what an overrun is reported under.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut running = self.0.lock();
        if running.closed {
            return Task(None);
        }
        let id = running.next;
        running.next += 1;
        let entry = Entry {
            shared: Arc::clone(&self.0),
            id,
        };
        let handle = self.0.tracker.spawn(async move {
            let _entry = entry;
            future.await
        });
        running.tasks.insert(id, (name, handle.abort_handle()));
        Task(Some(handle))
    }

    /// How many tasks run now.
    pub fn count(&self) -> usize {
        self.0.lock().tasks.len()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abort_all(&self) -> Vec<&'static str> {
        let tasks = std::mem::take(&mut self.lock().tasks);
        tasks
            .into_values()
            .map(|(name, handle)| {
                handle.abort();
                name
            })
            .collect()
    }
}

/// Removes the task from its scope's list when it ends, however it ends.
struct Entry {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.lock().tasks.remove(&self.id);
    }
}

impl<T> Task<T> {
    /// Stops the task at its next await.
    pub fn abort(&self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }

    /// Whether the task has ended or never started.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Future for Task<T> {
    /// `None` when the scope had ended before the task could start.
    type Output = Option<Result<T, JoinError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            None => Poll::Ready(None),
            Some(handle) => Pin::new(handle).poll(cx).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_then_aborts_and_names_what_overran() {
        let scope = TaskScope::new();
        let quick = scope.spawn("quick", tokio::time::sleep(Duration::from_millis(5)));
        scope.spawn("stuck", std::future::pending::<()>());
        assert_eq!(scope.spawner().count(), 2);
        let spawner = scope.spawner();
        assert_eq!(scope.shutdown(Duration::from_secs(1)).await, vec!["stuck"]);
        assert!(matches!(quick.await, Some(Ok(()))));
        assert!(spawner.spawn("late", async {}).await.is_none());
    }

    #[tokio::test]
    async fn dropping_the_scope_ends_its_tasks() {
        let scope = TaskScope::new();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        scope.spawn("holds the sender", async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        drop(scope);
        assert!(receiver.await.is_err());
    }
}
