//! Work that waits for the disk, off the runtime's own thread.

/// Runs `work` on a thread for such work. A panic in it goes on here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends; so does whoever waits here.
            Err(_) => std::future::pending().await,
        },
    }
}
