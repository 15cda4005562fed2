//! How handles reach the screen: requests in order, and a note that a frame is due.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bezel_api_tui::backend::{Request, UiBackend};
use tokio::sync::Notify;

/// Filled from any task, emptied by the one that draws.
#[derive(Default)]
pub(crate) struct Mailbox {
    // A plain mutex: held to push or take, never across an await.
    requests: Mutex<VecDeque<Request>>,
    dirty: AtomicBool,
    wake: Notify,
}

impl Mailbox {
    /// The requests so far.
    pub(crate) fn take(&self) -> VecDeque<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a frame is due; asks once.
    pub(crate) fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }

    /// Resolves when there is something to do.
    pub(crate) async fn filled(&self) {
        self.wake.notified().await;
    }
}

impl UiBackend for Mailbox {
    fn post(&self, request: Request) {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(request);
        self.wake.notify_one();
    }

    fn redraw(&self) {
        // One wake-up for all changes until the next frame has begun.
        if !self.dirty.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }
}
