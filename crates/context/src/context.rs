//! The invocation context itself.

use std::any::{Any, TypeId};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Principal, TraceCarrier};

/// Why a wait ended before its result: the invocation was cancelled or its deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// Somebody cancelled the invocation.
    Cancelled,
    /// The invocation's deadline passed.
    DeadlineExceeded,
}

impl std::fmt::Display for Cancelled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Cancelled::Cancelled => "cancelled",
            Cancelled::DeadlineExceeded => "deadline exceeded",
        })
    }
}

impl std::error::Error for Cancelled {}

/// One invocation's control data. Cheap to clone; derive children with the `with_*` methods.
pub struct Context {
    shared: Arc<Inner>,
    /// Of an [`Invocation`]: its own, made once somebody keeps it or asks when it ends.
    own: Option<OnceLock<Arc<Inner>>>,
}

struct Inner {
    cancellation: Cancellation,
    deadline: Option<Instant>,
    trace: TraceCarrier,
    principal: Option<Arc<Principal>>,
    values: Option<Arc<ValueNode>>,
}

struct ValueNode {
    key: TypeId,
    value: Arc<dyn Any + Send + Sync>,
    parent: Option<Arc<ValueNode>>,
}

/// What ends an invocation.
enum Cancellation {
    /// Nothing.
    Never,
    /// The end of its parent, or somebody alone.
    Alone { parent: Arc<Inner>, ended: Ended },
    /// The end of its parent.
    With(Arc<Inner>),
}

#[derive(Default)]
struct Ended {
    /// Known without a lock.
    is_cancelled: AtomicBool,
    /// For those who wait; most invocations end before anybody does.
    token: OnceLock<CancellationToken>,
}

/// Cancels the context it was made with. Dropping it cancels nothing.
#[derive(Clone)]
pub struct CancelHandle(Arc<Inner>);

/// Cancels the context it was made with when it is dropped.
#[must_use]
#[derive(Debug)]
pub struct CancelGuard(CancelHandle);

impl CancelHandle {
    /// Cancels the context and all its children.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Turns the handle into a guard that cancels when it is dropped.
    pub fn drop_guard(self) -> CancelGuard {
        CancelGuard(self)
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl std::fmt::Debug for CancelHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("CancelHandle")
            .field(&self.0.is_cancelled())
            .finish()
    }
}

impl Context {
    /// A root for work that nobody waits for: no caller, no deadline, a fresh trace.
    pub fn background() -> Self {
        Context::of(Inner {
            cancellation: Cancellation::Never,
            deadline: None,
            trace: TraceCarrier::root(),
            principal: None,
            values: None,
        })
    }

    /// A child that is cancelled with its parent, or alone through the handle.
    pub fn with_cancel(&self) -> (Self, CancelHandle) {
        let child = Arc::new(Inner::child(self.settled()));
        let handle = CancelHandle(Arc::clone(&child));
        (Context::shared(child), handle)
    }

    /// One call on this context's behalf: a child that is cancelled with its parent, or alone when the call is
    /// given up. It costs next to nothing for as long as the call neither keeps it nor waits for its end.
    #[inline]
    pub fn invocation(&self) -> Invocation {
        Invocation(Context {
            shared: Arc::clone(self.settled()),
            own: Some(OnceLock::new()),
        })
    }

    /// A child that ends at `deadline` or at its parent's, whichever comes first.
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        self.derive(|inner| {
            inner.deadline = Some(inner.deadline.map_or(deadline, |at| at.min(deadline)));
        })
    }

    /// A child that ends after `timeout` from now at the latest.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        self.with_deadline(Instant::now() + timeout)
    }

    /// A child under another trace parent.
    pub fn with_trace(&self, trace: TraceCarrier) -> Self {
        self.derive(|inner| inner.trace = trace)
    }

    /// A child that acts for `principal`. Only accepting sides call this, from a credential.
    pub fn with_principal(&self, principal: Arc<Principal>) -> Self {
        self.derive(|inner| inner.principal = Some(principal))
    }

    /// A child that carries `value`, keyed by its type; it shadows an outer value of that type.
    pub fn with_value<T: Send + Sync + 'static>(&self, value: T) -> Self {
        self.derive(|inner| {
            inner.values = Some(Arc::new(ValueNode {
                key: TypeId::of::<T>(),
                value: Arc::new(value),
                parent: inner.values.take(),
            }));
        })
    }

    /// The nearest value of type `T`.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let mut node = self.shared.values.as_ref();
        while let Some(current) = node {
            if current.key == TypeId::of::<T>() {
                return Arc::clone(&current.value).downcast().ok();
            }
            node = current.parent.as_ref();
        }
        None
    }

    /// The trace carrier of the current span.
    pub fn trace(&self) -> &TraceCarrier {
        &self.shared.trace
    }

    /// On whose behalf this runs, where an accepting side said so.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.shared.principal.as_ref()
    }

    /// The instant at which this invocation ends, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.deadline
    }

    /// Time left, `None` without a deadline, zero when it has passed.
    pub fn remaining(&self) -> Option<Duration> {
        self.shared
            .deadline
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether the invocation has ended, and how.
    #[inline]
    pub fn status(&self) -> Result<(), Cancelled> {
        // An invocation without a context of its own was not given up.
        let own = self.own.as_ref().and_then(OnceLock::get);
        if own.unwrap_or(&self.shared).is_cancelled() {
            return Err(Cancelled::Cancelled);
        }
        match self.shared.deadline {
            Some(at) if at <= Instant::now() => Err(Cancelled::DeadlineExceeded),
            _ => Ok(()),
        }
    }

    /// True once cancelled or past the deadline.
    pub fn is_cancelled(&self) -> bool {
        self.status().is_err()
    }

    /// Resolves when the invocation is cancelled or its deadline passes; never otherwise.
    pub async fn cancelled(&self) -> Cancelled {
        let token = self.settled().token();
        let cancelled = async {
            match token {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        match self.shared.deadline {
            None => {
                cancelled.await;
                Cancelled::Cancelled
            }
            Some(at) => tokio::select! {
                biased;
                () = cancelled => Cancelled::Cancelled,
                () = tokio::time::sleep_until(at) => Cancelled::DeadlineExceeded,
            },
        }
    }

    /// Runs `future` until it ends or this invocation does. The future is dropped in the latter case.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Cancelled> {
        tokio::select! {
            biased;
            reason = self.cancelled() => Err(reason),
            output = future => Ok(output),
        }
    }

    fn of(inner: Inner) -> Self {
        Context::shared(Arc::new(inner))
    }

    fn shared(shared: Arc<Inner>) -> Self {
        Context { shared, own: None }
    }

    /// What this context is to those who keep it.
    #[inline]
    fn settled(&self) -> &Arc<Inner> {
        match &self.own {
            None => &self.shared,
            Some(own) => own.get_or_init(|| Arc::new(Inner::child(&self.shared))),
        }
    }

    fn derive(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let parent = self.settled();
        let mut inner = parent.with(Cancellation::With(Arc::clone(parent)));
        change(&mut inner);
        Context::of(inner)
    }
}

impl Clone for Context {
    fn clone(&self) -> Self {
        Context::shared(Arc::clone(self.settled()))
    }
}

impl Inner {
    fn child(parent: &Arc<Inner>) -> Self {
        parent.with(Cancellation::Alone {
            parent: Arc::clone(parent),
            ended: Ended::default(),
        })
    }

    fn with(&self, cancellation: Cancellation) -> Self {
        Inner {
            cancellation,
            deadline: self.deadline,
            trace: self.trace.clone(),
            principal: self.principal.clone(),
            values: self.values.clone(),
        }
    }

    /// What tells that the invocation was cancelled; none where nothing can cancel it.
    fn token(&self) -> Option<&CancellationToken> {
        match &self.cancellation {
            Cancellation::Never => None,
            Cancellation::Alone { parent, ended } => {
                let begun = || match parent.token() {
                    Some(above) => above.child_token(),
                    None => CancellationToken::new(),
                };
                Some(ended.token.get_or_init(begun))
            }
            Cancellation::With(parent) => parent.token(),
        }
    }

    fn cancel(&self) {
        match &self.cancellation {
            Cancellation::Never => {}
            Cancellation::Alone { ended, .. } => {
                // Before the token, so that whoever the token wakes finds it.
                ended.is_cancelled.store(true, Ordering::Release);
                if let Some(token) = self.token() {
                    token.cancel();
                }
            }
            Cancellation::With(parent) => parent.cancel(),
        }
    }

    #[inline]
    fn is_cancelled(&self) -> bool {
        let mut inner = self;
        loop {
            inner = match &inner.cancellation {
                Cancellation::Never => return false,
                Cancellation::Alone { ended, .. } if ended.is_cancelled.load(Ordering::Acquire) => {
                    return true;
                }
                Cancellation::Alone { parent, .. } | Cancellation::With(parent) => parent,
            };
        }
    }
}

/// One call's context, made by [`Context::invocation`].
pub struct Invocation(Context);

/// Cancels an invocation's context when it is dropped, unless the call has ended.
pub struct InvocationGuard<'i>(Option<&'i Context>);

impl Invocation {
    /// What the call is given.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.0
    }

    /// Signals the call when it is given up: declared after the call's body, so that the body sees it when it is
    /// dropped.
    #[inline]
    pub fn guard(&self) -> InvocationGuard<'_> {
        InvocationGuard(Some(&self.0))
    }
}

impl InvocationGuard<'_> {
    /// The call has ended by itself; what it left running ends with the caller alone.
    #[inline]
    pub fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for InvocationGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(context) = self.0 {
            context.settled().cancel();
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Context")
            .field("status", &self.status())
            .field("trace", &self.shared.trace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_child_ends_with_its_parent_and_at_the_earlier_deadline() {
        let (parent, cancel) = Context::background().with_cancel();
        let child = parent
            .with_timeout(Duration::from_secs(60))
            .with_timeout(Duration::from_secs(90));
        assert_eq!(child.remaining(), Some(Duration::from_secs(60)));
        assert_eq!(child.cancelled().await, Cancelled::DeadlineExceeded);
        assert!(!parent.is_cancelled());
        let other = parent.with_value(7_u32);
        cancel.cancel();
        assert_eq!(other.cancelled().await, Cancelled::Cancelled);
    }

    #[test]
    fn values_are_keyed_by_type_and_shadowed() {
        let outer = Context::background().with_value(1_u32).with_value("text");
        let inner = outer.with_value(2_u32);
        assert_eq!(inner.value::<u32>().as_deref(), Some(&2));
        assert_eq!(outer.value::<u32>().as_deref(), Some(&1));
        assert_eq!(inner.value::<&str>().as_deref(), Some(&"text"));
        assert!(inner.value::<u64>().is_none());
    }

    #[test]
    fn an_invocation_that_is_given_up_cancels_what_was_kept_of_it_and_nothing_else() {
        let caller = Context::background();
        let (given_up, ended) = (caller.invocation(), caller.invocation());
        let kept = given_up.context().clone();
        let derived = given_up.context().with_value(1_u32);
        let within = given_up.context().invocation();
        let kept_within = within.context().clone();
        within.guard().disarm();
        let left_running = ended.context().clone();
        ended.guard().disarm();
        drop(given_up.guard());
        for cx in [&kept, &derived, &kept_within, given_up.context()] {
            assert_eq!(cx.status(), Err(Cancelled::Cancelled));
        }
        assert_eq!((left_running.status(), caller.status()), (Ok(()), Ok(())));
    }

    #[tokio::test]
    async fn whoever_waited_before_or_asks_after_hears_of_a_cancelled_ancestor() {
        let (caller, cancel) = Context::background().with_cancel();
        let invocation = caller.invocation();
        let (child, _handle) = invocation.context().with_cancel();
        let mut waiting = Box::pin(child.cancelled());
        assert!(poll(&mut waiting).is_pending());
        cancel.cancel();
        assert_eq!(waiting.await, Cancelled::Cancelled);
        let late = invocation.context().with_cancel().0;
        assert!(late.is_cancelled() && invocation.context().is_cancelled());
        assert_eq!(late.cancelled().await, Cancelled::Cancelled);
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
        let mut poller = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut poller)
    }

    #[tokio::test]
    async fn run_drops_the_future_when_cancelled() {
        let (cx, cancel) = Context::background().with_cancel();
        cancel.cancel();
        assert_eq!(
            cx.run(std::future::pending::<()>()).await,
            Err(Cancelled::Cancelled)
        );
    }
}
