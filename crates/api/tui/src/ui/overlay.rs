//! Overlays: views above the screen.

use std::sync::Arc;

use tokio::sync::watch;

use crate::View;
use crate::backend::{Request, UiBackend, ViewId};

/// Where an overlay stands; always cut to the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlayPlacement {
    /// In the middle, at most this large, its frame included. The view's `height` can make it smaller.
    Center {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
    /// All but a margin.
    Fill {
        /// Columns left and right, and half as many rows above and below.
        margin: u16,
    },
    /// Right above the composer and as wide, at most this high; for completion lists.
    AboveComposer {
        /// Rows.
        height: u16,
    },
}

/// A view above the screen.
pub struct Overlay {
    pub(crate) view: Box<dyn View>,
    pub(crate) placement: OverlayPlacement,
    pub(crate) title: Option<String>,
    pub(crate) hints: String,
    pub(crate) framed: bool,
    pub(crate) modal: bool,
}

impl Overlay {
    /// A framed dialog in the middle that takes all keys. Esc closes it unless the view uses Esc itself.
    pub fn new(view: impl View) -> Self {
        Overlay {
            view: Box::new(view),
            placement: OverlayPlacement::Center {
                width: 72,
                height: 20,
            },
            title: None,
            hints: String::new(),
            framed: true,
            modal: true,
        }
    }

    /// Puts it elsewhere.
    #[must_use]
    pub fn placement(mut self, placement: OverlayPlacement) -> Self {
        self.placement = placement;
        self
    }

    /// The title in its frame.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Keys worth knowing, in the lower edge of its frame: `enter choose · esc close`.
    #[must_use]
    pub fn hints(mut self, hints: impl Into<String>) -> Self {
        self.hints = hints.into();
        self
    }

    /// Without a frame; the surface stays.
    #[must_use]
    pub fn frameless(mut self) -> Self {
        self.framed = false;
        self
    }

    /// Takes no keys and no focus: the view below stays in charge, the mouse still reaches it.
    #[must_use]
    pub fn passive(mut self) -> Self {
        self.modal = false;
        self
    }
}

/// An open overlay. Dropping the handle leaves it open.
#[derive(Clone)]
pub struct OverlayHandle {
    backend: Arc<dyn UiBackend>,
    id: ViewId,
    closed: watch::Receiver<bool>,
}

impl OverlayHandle {
    pub(crate) fn new(
        backend: Arc<dyn UiBackend>,
        id: ViewId,
        closed: watch::Receiver<bool>,
    ) -> Self {
        OverlayHandle {
            backend,
            id,
            closed,
        }
    }

    /// Closes it.
    pub fn close(&self) {
        self.backend.post(Request::CloseOverlay(self.id));
    }

    /// Whether it has closed.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when it has closed, by whomever.
    pub async fn closed(&self) {
        let mut closed = self.closed.clone();
        // An error means that the host has gone, and the overlay with it.
        let _gone = closed.wait_for(|closed| *closed).await.is_err();
    }
}

/// Closes an overlay when the one that waits for it stops waiting.
pub(crate) struct CloseOnDrop {
    backend: Arc<dyn UiBackend>,
    id: ViewId,
}

impl CloseOnDrop {
    pub(crate) fn new(backend: Arc<dyn UiBackend>, id: ViewId) -> Self {
        CloseOnDrop { backend, id }
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.backend.post(Request::CloseOverlay(self.id));
    }
}
