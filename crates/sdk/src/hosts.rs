//! The hosts of the sessions that call the program's tools.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::{SessionContext, Sessions};
use bezel_context::{Context, Spawner, Task};
use bezel_session_types::SessionId;
use tokio::runtime::Handle;

/// The session has ended, and with it what was done for one of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session that calls has ended")]
pub struct SessionEnded;

/// Where a session lives, and what it reaches.
#[derive(Clone)]
pub(crate) struct CallingHost {
    /// What is done with sessions starts tasks, which belong where they live.
    runtime: Handle,
    spawner: Spawner,
    sessions: Sessions,
}

impl CallingHost {
    pub(crate) async fn run<T, F, Fut>(&self, cx: Context, work: F) -> Result<T, SessionEnded>
    where
        T: Send + 'static,
        F: FnOnce(Context, Sessions) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let sessions = self.sessions.clone();
        let task = {
            let _entered = self.runtime.enter();
            let work = async move { work(cx, sessions).await };
            self.spawner.spawn("a tool of the program", work)
        };
        let mut task = Ends(task);
        match (&mut task.0).await {
            Some(Ok(done)) => Ok(done),
            Some(Err(failed)) if failed.is_panic() => resume_unwind(failed.into_panic()),
            Some(Err(_)) | None => Err(SessionEnded),
        }
    }
}

/// The hosts that run, by their session.
#[derive(Clone, Default)]
pub(crate) struct Hosts(
    // A plain mutex: held to look up or change, never across an await.
    Arc<Mutex<HashMap<SessionId, CallingHost>>>,
);

impl Hosts {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, CallingHost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of `cx` is hosted until its facet ends.
    pub(crate) fn enter(&self, cx: &SessionContext) {
        let session = cx.session.own().clone();
        let host = CallingHost {
            runtime: Handle::current(),
            spawner: cx.spawner().clone(),
            sessions: cx.session.clone(),
        };
        self.lock().insert(session.clone(), host);
        cx.own(Leaves {
            hosts: self.clone(),
            session,
        });
    }

    pub(crate) fn of(&self, session: &SessionId) -> Option<CallingHost> {
        self.lock().get(session).cloned()
    }
}

struct Leaves {
    hosts: Hosts,
    session: SessionId,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let left = self.hosts.lock().remove(&self.session);
        // Outside of the lock: what it held may come here again when it is dropped.
        drop(left);
    }
}

/// Ends its task when nobody waits for it any more.
pub(crate) struct Ends<T>(pub(crate) Task<T>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
