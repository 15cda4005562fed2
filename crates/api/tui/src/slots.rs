//! Slots: named places of the screen that views are put into.

use std::sync::Arc;

use crate::View;
use crate::backend::{OwnerId, Request, UiBackend, ViewId};

/// A place of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// Rows at the top, stacked.
    Header,
    /// Everything that is left; one view at a time, the one with the highest order.
    Main,
    /// Rows between main and composer, stacked.
    AboveComposer,
    /// Where a person writes; one view at a time, the one with the highest order. It has the focus at first.
    Composer,
    /// The status line from the left.
    StatusLeft,
    /// The status line from the right.
    StatusRight,
}

/// Where among the views of its slot one stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placement {
    /// Lower first: from the top, or from the edge of the status line inwards. Ties in order of adding.
    pub order: i32,
    /// What goes last when space is short: the higher, the longer it stays.
    pub importance: i32,
}

impl Placement {
    /// At this order.
    pub fn order(order: i32) -> Self {
        Placement {
            order,
            importance: 0,
        }
    }

    /// Stays the longer when space is short, the higher the value.
    #[must_use]
    pub fn importance(mut self, importance: i32) -> Self {
        self.importance = importance;
        self
    }
}

/// A facet's views in slots.
#[derive(Clone)]
pub struct Slots {
    backend: Arc<dyn UiBackend>,
    owner: OwnerId,
}

impl Slots {
    pub(crate) fn new(backend: Arc<dyn UiBackend>, owner: OwnerId) -> Self {
        Slots { backend, owner }
    }

    /// Puts a view into a slot until the facet ends or the handle removes it.
    pub fn add(&self, slot: Slot, placement: Placement, view: impl View) -> ViewHandle {
        let id = ViewId::next();
        let view = Box::new(view);
        self.backend.post(Request::AddView {
            owner: self.owner.clone(),
            id,
            slot,
            placement,
            view,
        });
        ViewHandle {
            backend: Arc::clone(&self.backend),
            id,
        }
    }
}

/// A view in a slot. Dropping the handle leaves it there.
#[derive(Clone)]
pub struct ViewHandle {
    backend: Arc<dyn UiBackend>,
    id: ViewId,
}

impl ViewHandle {
    /// Takes the view out.
    pub fn remove(&self) {
        self.backend.post(Request::RemoveView(self.id));
    }
}
