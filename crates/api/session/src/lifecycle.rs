//! Hooks around the life of a session in its process. The host calls them, whatever engine drives the session.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_context::Context;
use bezel_plugin::{FacetError, FacetScope, PluginId};
use futures::FutureExt;

use crate::hooks::HookResult;

/// A session that its process has taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStart {
    /// What was there.
    pub found: FoundSession,
}

/// What there was of a session when its process took it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundSession {
    /// Nothing: no entry yet.
    New,
    /// Entries, and nothing to go on with.
    Reopened,
    /// Something that goes on once the hooks have run: an operation that was cut off, or a message that waits.
    Resumed,
}

pub(crate) type SessionStartHook =
    Arc<dyn Fn(Context, SessionStart) -> HookResult<()> + Send + Sync>;
pub(crate) type SessionEndHook = Arc<dyn Fn(Context) -> HookResult<()> + Send + Sync>;

/// A hook around the session's life that failed, panicked or overran its deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hook `{hook}` of plugin `{plugin}`: {message}")]
pub struct LifecycleFailure {
    /// Whose hook.
    pub plugin: PluginId,
    /// Which: `session_start` or `session_end`.
    pub hook: &'static str,
    /// What happened.
    pub message: String,
}

/// The hooks around one session's life, in order of registration.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Lifecycle {
    starts: Registered<SessionStartHook>,
    ends: Registered<SessionEndHook>,
}

/// One kind of hook: its registrations in order.
struct Registered<Hook>(Arc<Mutex<Vec<Registration<Hook>>>>);

/// A hook and its plugin. The mark is of this registration alone, for taking it out again.
type Registration<Hook> = (Arc<()>, PluginId, Hook);

impl<Hook> Clone for Registered<Hook> {
    fn clone(&self) -> Self {
        Registered(Arc::clone(&self.0))
    }
}

impl<Hook> Default for Registered<Hook> {
    fn default() -> Self {
        Registered(Arc::default())
    }
}

impl<Hook: Clone + Send + Sync + 'static> Registered<Hook> {
    fn lock(&self) -> MutexGuard<'_, Vec<Registration<Hook>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, scope: &FacetScope, hook: Hook) {
        let mark = Arc::new(());
        self.lock()
            .push((Arc::clone(&mark), scope.plugin().clone(), hook));
        scope.own(Guard {
            registered: self.clone(),
            mark,
        });
    }

    async fn call_all(
        &self,
        cx: &Context,
        name: &'static str,
        deadline: Duration,
        call: impl Fn(&Hook, Context) -> HookResult<()>,
    ) -> Vec<LifecycleFailure> {
        let hooks = self.lock().clone();
        let mut failures = Vec::new();
        for (_, plugin, hook) in hooks {
            if let Err(error) = call_one(cx, deadline, |cx| call(&hook, cx)).await {
                let message = error.to_string();
                tracing::warn!(%plugin, hook = name, message, "a hook failed");
                failures.push(LifecycleFailure {
                    plugin,
                    hook: name,
                    message,
                });
            }
        }
        failures
    }
}

struct Guard<Hook: Clone + Send + Sync + 'static> {
    registered: Registered<Hook>,
    mark: Arc<()>,
}

impl<Hook: Clone + Send + Sync + 'static> Drop for Guard<Hook> {
    fn drop(&mut self) {
        let mut hooks = self.registered.lock();
        hooks.retain(|(mark, ..)| !Arc::ptr_eq(mark, &self.mark));
    }
}

impl Lifecycle {
    pub(crate) fn on_start(&self, scope: &FacetScope, hook: SessionStartHook) {
        self.starts.add(scope, hook);
    }

    pub(crate) fn on_end(&self, scope: &FacetScope, hook: SessionEndHook) {
        self.ends.add(scope, hook);
    }

    /// Calls the hooks at the start one after the other, each for no longer than `deadline`. Those that fail are
    /// named in the log.
    pub async fn start(
        &self,
        cx: &Context,
        found: FoundSession,
        deadline: Duration,
    ) -> Vec<LifecycleFailure> {
        let call = |hook: &SessionStartHook, cx| hook(cx, SessionStart { found });
        self.starts
            .call_all(cx, "session_start", deadline, call)
            .await
    }

    /// Calls the hooks at the end one after the other, each for no longer than `deadline`.
    pub async fn end(&self, cx: &Context, deadline: Duration) -> Vec<LifecycleFailure> {
        let call = |hook: &SessionEndHook, cx| hook(cx);
        self.ends.call_all(cx, "session_end", deadline, call).await
    }
}

/// Calls one hook; the error is what happened, for people.
async fn call_one(
    cx: &Context,
    deadline: Duration,
    call: impl FnOnce(Context) -> HookResult<()>,
) -> Result<(), LifecycleError> {
    let inner = cx.with_timeout(deadline);
    let called = std::panic::catch_unwind(AssertUnwindSafe(|| call(inner.clone())));
    let running = called.map_err(|_| LifecycleError::Panicked)?;
    match inner.run(AssertUnwindSafe(running).catch_unwind()).await {
        Ok(Ok(answer)) => answer.map_err(LifecycleError::Failed),
        Ok(Err(_)) => Err(LifecycleError::Panicked),
        Err(_) => Err(LifecycleError::Overran(deadline)),
    }
}

#[derive(Debug, thiserror::Error)]
enum LifecycleError {
    #[error("it panicked")]
    Panicked,
    #[error("it did not answer within {0:?}")]
    Overran(Duration),
    #[error("{0}")]
    Failed(FacetError),
}
