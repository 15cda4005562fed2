//! File work off the runtime's threads.

use bezel_context::Context;
use bezel_session_types::ToolError;
use tokio::task::JoinError;

/// Runs work that changes files. When `cx` ends meanwhile, the call still waits for the work to end, so that
/// nothing changes behind its back.
pub(crate) async fn changing<T: Send + 'static>(
    cx: &Context,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::Interrupted);
    }
    settled(tokio::task::spawn_blocking(work).await)
}

/// Runs work that changes nothing. When `cx` ends, the call returns at once; the work should look at `cx` too,
/// so that it ends soon after.
pub(crate) async fn reading<T: Send + 'static>(
    cx: &Context,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::Interrupted);
    }
    match cx.run(tokio::task::spawn_blocking(work)).await {
        Ok(result) => settled(result),
        Err(_) => Err(ToolError::Interrupted),
    }
}

fn settled<T>(result: Result<Result<T, ToolError>, JoinError>) -> Result<T, ToolError> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ToolError::Interrupted),
    }
}
