//! What some principals see of an event source.

use std::any::Any;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};

use bezel_context::Principal;
use bytes::Bytes;
use serde::Serialize;

use super::{EventOrigin, EventSink, EventValue, Hub};
use crate::service::PanicText;
use crate::sync::lock;

/// How much of an event a principal may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projected<T> {
    /// Nothing: it does not learn that there was an event.
    Hidden,
    /// All of it. Encoded once for everybody who may see all of it.
    Whole,
    /// This instead. Encoded once for those who share the projection.
    Part(T),
}

type Project<T> = dyn Fn(&T, &Principal) -> Projected<T> + Send + Sync;

/// Makes a view per set of rights, so that each is projected and encoded once, not per client.
pub(super) struct Projector<T> {
    project: Box<Project<T>>,
    // A plain mutex: held to look a view up, never across an await.
    views: Mutex<Vec<Weak<View<T>>>>,
}

/// One projection, kept alive by those who follow it.
pub(super) struct View<T> {
    projector: Arc<Projector<T>>,
    principal: Principal,
    hub: Arc<Hub<T>>,
}

/// An event's JSON form, made when it is first needed; `None` where it has none.
#[derive(Default)]
pub(super) struct Encoded(OnceCell<Option<Bytes>>);

impl Encoded {
    pub(super) fn of<T: Serialize>(&self, event: &T) -> Option<&Bytes> {
        let encode = || match crate::json::to_vec(event) {
            Ok(payload) => Some(Bytes::from(payload)),
            Err(error) => {
                tracing::error!(%error, event = std::any::type_name::<T>(), "an event has no JSON form");
                None
            }
        };
        self.0.get_or_init(encode).as_ref()
    }
}

impl<T: EventValue> Projector<T> {
    pub(super) fn new(
        project: impl Fn(&T, &Principal) -> Projected<T> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Projector {
            project: Box::new(project),
            views: Mutex::default(),
        })
    }

    /// What `principal` may follow of `source`.
    pub(super) fn view(
        self: &Arc<Self>,
        source: &Arc<Hub<T>>,
        principal: &Principal,
    ) -> Arc<View<T>> {
        let mut views = lock(&self.views);
        views.retain(|view| view.strong_count() > 0);
        let same = |view: &View<T>| {
            view.principal.owner == principal.owner
                && view.principal.workspaces == principal.workspaces
                && view.principal.scopes == principal.scopes
        };
        if let Some(view) = views
            .iter()
            .filter_map(Weak::upgrade)
            .find(|view| same(view))
        {
            return view;
        }
        let view = Arc::new(View {
            projector: Arc::clone(self),
            principal: principal.clone(),
            hub: Hub::new(),
        });
        source.show(Arc::downgrade(&view));
        views.push(Arc::downgrade(&view));
        view
    }
}

impl<T: EventValue> View<T> {
    pub(super) fn hub(&self) -> &Hub<T> {
        &self.hub
    }

    /// A projection that panics shows nothing.
    pub(super) fn projected(&self, event: &T) -> Projected<T> {
        let project = || (self.projector.project)(event, &self.principal);
        catch_unwind(AssertUnwindSafe(project)).unwrap_or_else(|panic| {
            tracing::error!(cause = %PanicText(&*panic), event = std::any::type_name::<T>(), "an event's projection panicked");
            Projected::Hidden
        })
    }
}

impl<T: EventValue> EventOrigin for View<T> {
    fn attach(self: Arc<Self>, sink: Weak<dyn EventSink>) -> Arc<dyn Any + Send + Sync> {
        drop(Arc::clone(&self.hub).attach(sink));
        self
    }
}
