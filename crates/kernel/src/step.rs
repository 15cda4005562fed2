//! One step of a unit's life, run under a deadline with panics caught.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A step of a unit's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It registers.
    Setup,
    /// It starts its effects.
    Activation,
    /// It undoes them.
    Disposal,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Phase::Setup => "setup",
            Phase::Activation => "activation",
            Phase::Disposal => "disposal",
        })
    }
}

/// A step that failed, panicked or overran, with the unit that it belongs to.
#[derive(Debug, thiserror::Error)]
#[error("{phase} of `{unit}` failed: {cause}")]
pub struct Failure {
    /// The unit.
    pub unit: Arc<str>,
    /// The step.
    pub phase: Phase,
    /// What happened.
    pub cause: BoxError,
}

#[derive(Debug, thiserror::Error)]
#[error("it did not end within {0:?}")]
struct Overran(Duration);

#[derive(Debug, thiserror::Error)]
#[error("it panicked: {0}")]
struct Panicked(String);

/// Runs one step. `make` may panic as well as its future.
pub(crate) async fn run<F, Fut>(
    unit: &Arc<str>,
    phase: Phase,
    deadline: Duration,
    make: F,
) -> Result<(), Failure>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<(), BoxError>>,
{
    let guarded = AssertUnwindSafe(async { make().await }).catch_unwind();
    let cause: BoxError = match tokio::time::timeout(deadline, guarded).await {
        Ok(Ok(Ok(()))) => return Ok(()),
        Ok(Ok(Err(error))) => error,
        Ok(Err(panic)) => Box::new(Panicked(panic_text(panic.as_ref()))),
        Err(_) => Box::new(Overran(deadline)),
    };
    Err(Failure {
        unit: Arc::clone(unit),
        phase,
        cause,
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not text".into())
}
