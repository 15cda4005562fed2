//! The invocation context itself.

use std::any::{Any, TypeId};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

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
#[derive(Clone)]
pub struct Context(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    token: CancellationToken,
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

/// Cancels the context it was made with. Dropping it cancels nothing.
#[derive(Clone, Debug)]
pub struct CancelHandle(CancellationToken);

impl CancelHandle {
    /// Cancels the context and all its children.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Turns the handle into a guard that cancels when it is dropped.
    pub fn drop_guard(self) -> DropGuard {
        self.0.drop_guard()
    }
}

impl Context {
    /// A root for work that nobody waits for: no caller, no deadline, a fresh trace.
    pub fn background() -> Self {
        Context(Arc::new(Inner {
            token: CancellationToken::new(),
            deadline: None,
            trace: TraceCarrier::root(),
            principal: None,
            values: None,
        }))
    }

    /// A child that is cancelled with its parent, or alone through the handle.
    pub fn with_cancel(&self) -> (Self, CancelHandle) {
        let token = self.0.token.child_token();
        let child = self.derive(|inner| inner.token = token.clone());
        (child, CancelHandle(token))
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
        let mut node = self.0.values.as_ref();
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
        &self.0.trace
    }

    /// On whose behalf this runs, where an accepting side said so.
    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.0.principal.as_ref()
    }

    /// The instant at which this invocation ends, if it has one.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// Time left, `None` without a deadline, zero when it has passed.
    pub fn remaining(&self) -> Option<Duration> {
        self.0
            .deadline
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether the invocation has ended, and how.
    pub fn status(&self) -> Result<(), Cancelled> {
        if self.0.token.is_cancelled() {
            return Err(Cancelled::Cancelled);
        }
        match self.0.deadline {
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
        match self.0.deadline {
            None => {
                self.0.token.cancelled().await;
                Cancelled::Cancelled
            }
            Some(at) => tokio::select! {
                biased;
                () = self.0.token.cancelled() => Cancelled::Cancelled,
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

    fn derive(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner::clone(&self.0);
        change(&mut inner);
        Context(Arc::new(inner))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Context")
            .field("status", &self.status())
            .field("trace", &self.0.trace)
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
