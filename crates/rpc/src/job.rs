//! Work that a service owns: it goes on when nobody waits, and ends for everyone when it is cancelled.

use std::future::Future;
use std::sync::{Arc, Mutex};

use bezel_context::{CancelHandle, Context, Spawner};
use futures::FutureExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::{Completion, PanicText};
use crate::state::{State, StateCell, StateValue};
use crate::sync::lock;

/// Long-running work with a `State` of its progress. Cheap to clone; all clones are the same work.
///
/// The work runs on a task of the owner's scope, under a context and a trace of its own: not those of
/// the call that started it. Three ways to end stay apart: dropping or cancelling a [`Job::wait`] ends
/// that wait alone; [`Job::cancel`] ends the work for everyone; the end of the owner's scope ends it
/// with its owner. A lost connection and a dropped handle end nothing.
///
/// `E` is the error that waiters get; [`JobError`] serves where a contract needs no errors of its own.
pub struct Job<P, R, E = JobError>(Arc<Shared<P, R, E>>);

struct Shared<P, R, E> {
    progress: StateCell<P>,
    outcome: Mutex<Option<Result<R, E>>>,
    completion: Completion,
    cancel: CancelHandle,
}

/// Why a job has no result, apart from errors of the work itself. `E` of a [`Job`] is made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// Somebody cancelled it.
    Cancelled,
    /// It panicked; the log has the cause.
    Failed,
    /// Its owner ended before it.
    Abandoned,
}

/// An error of jobs that have none of their own. It can stand in a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum JobError {
    /// Somebody cancelled the job.
    #[error("the job was cancelled; start it again if it is still wanted")]
    JobCancelled,
    /// The job failed.
    #[error("the job failed: {reason}")]
    JobFailed {
        /// What went wrong, for a person.
        reason: String,
    },
    /// The job's owner ended first.
    #[error("the job ended with its owner; start it again")]
    JobAbandoned,
}

impl JobError {
    /// The job's own work failed.
    pub fn failed(reason: impl Into<String>) -> Self {
        JobError::JobFailed {
            reason: reason.into(),
        }
    }
}

impl From<JobEnd> for JobError {
    fn from(end: JobEnd) -> Self {
        match end {
            JobEnd::Cancelled => JobError::JobCancelled,
            JobEnd::Failed => JobError::failed("it ended unexpectedly; the log has the cause"),
            JobEnd::Abandoned => JobError::JobAbandoned,
        }
    }
}

impl<P, R, E> Clone for Job<P, R, E> {
    fn clone(&self) -> Self {
        Job(Arc::clone(&self.0))
    }
}

impl<P, R, E> Job<P, R, E>
where
    P: StateValue,
    R: Clone + Send + Sync + 'static,
    E: From<JobEnd> + Clone + Send + Sync + 'static,
{
    /// Starts `work` on a task of the owner's scope.
    ///
    /// It gets a context that ends with the job, and the cell behind [`Job::progress`], which holds
    /// `initial` at first. `name` is what an overrun of the scope is reported under.
    pub fn start<F>(
        spawner: &Spawner,
        name: &'static str,
        initial: P,
        work: impl FnOnce(Context, StateCell<P>) -> F,
    ) -> Self
    where
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        let (cx, cancel) = Context::background().with_cancel();
        let shared = Arc::new(Shared {
            progress: StateCell::new(initial),
            outcome: Mutex::new(None),
            completion: Completion::new(),
            cancel,
        });
        // Settles the job even where the task is aborted or never starts.
        let unsettled = Unsettled(Arc::clone(&shared));
        let work = work(cx.clone(), shared.progress.clone());
        drop(spawner.spawn(name, async move {
            let work = std::panic::AssertUnwindSafe(work).catch_unwind();
            let outcome = match cx.run(work).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => {
                    tracing::error!(job = name, cause = %PanicText(&*panic), "a job panicked");
                    Err(JobEnd::Failed.into())
                }
                Err(_) => Err(JobEnd::Cancelled.into()),
            };
            unsettled.0.settle(outcome);
        }));
        Job(shared)
    }

    /// What the work says of itself; the last value stays when it has ended.
    pub fn progress(&self) -> State<P> {
        self.0.progress.state()
    }

    /// Waits for the result, which any number of waiters get. Dropping the wait leaves the job running.
    ///
    /// In a contract's member this is the whole body: the invocation that waits is ended from outside.
    pub async fn wait(&self) -> Result<R, E> {
        self.0.completion.completed().await;
        self.outcome()
            .unwrap_or_else(|| Err(JobEnd::Abandoned.into()))
    }

    /// The result, once there is one.
    pub fn outcome(&self) -> Option<Result<R, E>> {
        lock(&self.0.outcome).clone()
    }

    /// Ends the job for everyone: its context is cancelled, then its work is dropped, and waiters get
    /// [`JobEnd::Cancelled`]. A job that has ended stays as it is.
    pub fn cancel(&self) {
        self.0.cancel.cancel();
    }

    /// What a `#[reference]` implementation answers in `completion`.
    pub fn completion(&self) -> Completion {
        self.0.completion.clone()
    }
}

impl<P, R, E> Shared<P, R, E> {
    /// Keeps the first outcome.
    fn settle(&self, outcome: Result<R, E>) {
        lock(&self.outcome).get_or_insert(outcome);
        self.completion.complete();
    }
}

struct Unsettled<P, R, E: From<JobEnd>>(Arc<Shared<P, R, E>>);

impl<P, R, E: From<JobEnd>> Drop for Unsettled<P, R, E> {
    fn drop(&mut self) {
        self.0.settle(Err(JobEnd::Abandoned.into()));
    }
}

impl<P, R, E> std::fmt::Debug for Job<P, R, E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Job")
            .field("complete", &self.0.completion.is_complete())
            .finish_non_exhaustive()
    }
}
