//! The owner's side of a state value.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bezel_context::{Context, Principal, TraceCarrier};
use serde_json::Value;

use super::core::{Core, Projection, Refresh};
use super::handle::State;
use super::patch::{Operation, PatchError};
use super::path::Path;
use super::{Source, StateValue};

/// Owns one replicated value. Cheap to clone; all clones are the same cell.
pub struct StateCell<T> {
    core: Arc<Core<T>>,
    projector: Option<Arc<Projector<T>>>,
}

type Project<T> = dyn Fn(&T, &Principal) -> T + Send + Sync;

/// Makes a cell per set of rights, so that each is encoded once, not per client.
pub(crate) struct Projector<T> {
    project: Box<Project<T>>,
    /// One projection for each connection, whatever its rights.
    each: bool,
    // A plain mutex: held to look a projection up, never across an await.
    views: Mutex<Vec<(Principal, Weak<View<T>>)>>,
}

/// One projection, kept alive by those who follow it.
struct View<T> {
    core: Arc<Core<T>>,
    _refresh: Arc<Refresh<T>>,
}

impl<T> Clone for StateCell<T> {
    fn clone(&self) -> Self {
        StateCell {
            core: Arc::clone(&self.core),
            projector: self.projector.clone(),
        }
    }
}

impl<T: StateValue> StateCell<T> {
    /// A cell that holds `initial`.
    pub fn new(initial: T) -> Self {
        StateCell {
            core: Core::new(initial, true),
            projector: None,
        }
    }

    /// A cell of which each remote principal sees only what `project` makes of the value.
    ///
    /// Principals with the same owner, workspaces and scopes share one projection, so `project` must
    /// not look at the client id. Local handles see the whole value.
    pub fn projected(
        initial: T,
        project: impl Fn(&T, &Principal) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::with_projector(initial, Box::new(project), false)
    }

    /// The same for what differs from connection to connection: `project` may look at the client id. Costs a
    /// copy of the value and an encoding for each.
    pub fn projected_to_each(
        initial: T,
        project: impl Fn(&T, &Principal) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::with_projector(initial, Box::new(project), true)
    }

    fn with_projector(initial: T, project: Box<Project<T>>, each: bool) -> Self {
        let projector = Projector {
            project,
            each,
            views: Mutex::default(),
        };
        StateCell {
            core: Core::new(initial, true),
            projector: Some(Arc::new(projector)),
        }
    }

    /// The read-only handle that a contract returns.
    pub fn state(&self) -> State<T> {
        State::owned(Arc::clone(&self.core), self.projector.clone())
    }

    /// The current value.
    pub fn get(&self) -> Arc<T> {
        self.core.get()
    }

    /// Replaces the value. An equal value is not published.
    pub fn set(&self, cx: &Context, value: T) {
        let writer = self.core.writer();
        let changed = self.publish(cx, value);
        drop(writer);
        if changed {
            self.core.announce();
        }
    }

    /// Changes a copy of the value and publishes it, unless it is equal. A panic publishes nothing.
    ///
    /// `change` may read this cell but must not write to it: writers run one after another.
    pub fn update<R>(&self, cx: &Context, change: impl FnOnce(&mut T) -> R) -> R {
        let writer = self.core.writer();
        let mut value = self.core.copy().unwrap_or_else(|error| {
            tracing::error!(%error, value = std::any::type_name::<T>(), "a state value does not survive its JSON form");
            T::default()
        });
        let result = change(&mut value);
        let changed = self.publish(cx, value);
        drop(writer);
        if changed {
            self.core.announce();
        }
        result
    }

    /// Projects anew, where what `project` looks at changed and is not the value itself. Who sees what they saw
    /// before hears nothing.
    pub fn refresh(&self, cx: &Context) {
        let writer = self.core.writer();
        self.core.refresh_projections(cx.trace());
        drop(writer);
    }

    /// Adds `text` to the end of the string at `path`. Costs what it adds.
    pub fn append(
        &self,
        cx: &Context,
        path: impl Into<Path>,
        text: impl Into<String>,
    ) -> Result<(), PatchError> {
        self.operate(
            cx,
            Operation::Append {
                path: path.into(),
                text: text.into(),
            },
        )
    }

    /// Takes `delete` elements at `index` out of the array at `path` and puts `items` there. Costs what it adds.
    pub fn splice<I: serde::Serialize>(
        &self,
        cx: &Context,
        path: impl Into<Path>,
        index: usize,
        delete: usize,
        items: impl IntoIterator<Item = I>,
    ) -> Result<(), PatchError> {
        let path = path.into();
        let items: Result<Vec<Value>, _> = items.into_iter().map(serde_json::to_value).collect();
        let items = items.map_err(|_| PatchError {
            verb: "splice",
            path: path.to_string(),
            reason: "an item has no JSON form",
            expected: "an array",
        })?;
        self.operate(
            cx,
            Operation::Splice {
                path,
                index,
                delete,
                items,
            },
        )
    }

    /// Replaces the value at `path` alone; its parent must exist. Costs what it puts there.
    pub fn put(
        &self,
        cx: &Context,
        path: impl Into<Path>,
        value: impl serde::Serialize,
    ) -> Result<(), PatchError> {
        let path = path.into();
        let value = serde_json::to_value(value).map_err(|_| PatchError {
            verb: "set",
            path: path.to_string(),
            reason: "the value has no JSON form",
            expected: "an object's member or an array's element",
        })?;
        self.operate(cx, Operation::Set { path, value })
    }

    fn operate(&self, cx: &Context, operation: Operation) -> Result<(), PatchError> {
        let writer = self.core.writer();
        self.core.operate(operation, cx.trace())?;
        self.core.refresh_projections(cx.trace());
        drop(writer);
        self.core.announce();
        Ok(())
    }

    fn publish(&self, cx: &Context, value: T) -> bool {
        match self.core.replace(value, cx.trace()) {
            Ok(true) => {
                self.core.refresh_projections(cx.trace());
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::error!(%error, value = std::any::type_name::<T>(), "a state value has no JSON form; the old one stays");
                false
            }
        }
    }
}

impl<T: StateValue> Projector<T> {
    /// What `principal` may follow of `core`.
    pub(crate) fn view(
        self: &Arc<Self>,
        core: &Arc<Core<T>>,
        principal: &Principal,
    ) -> Arc<dyn Source> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.retain(|(_, view)| view.strong_count() > 0);
        let same = |other: &Principal| {
            other.owner == principal.owner
                && other.workspaces == principal.workspaces
                && other.scopes == principal.scopes
                && (!self.each || other.client == principal.client)
        };
        if let Some(view) = views
            .iter()
            .find(|(other, _)| same(other))
            .and_then(|(_, view)| view.upgrade())
        {
            return view;
        }
        let writer = core.writer();
        let projected = Core::new((self.project)(&core.get(), principal), true);
        let refresh: Arc<Refresh<T>> = {
            let (projector, projected, principal) =
                (Arc::clone(self), Arc::clone(&projected), principal.clone());
            Arc::new(move |core, trace| {
                let value = (projector.project)(&core.get(), &principal);
                let writer = projected.writer();
                let changed = projected.replace(value, trace);
                drop(writer);
                match changed {
                    Ok(true) => projected.announce(),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(%error, "a projected state value has no JSON form")
                    }
                }
            })
        };
        core.project(Projection {
            refresh: Arc::downgrade(&refresh),
        });
        drop(writer);
        let view = Arc::new(View {
            core: projected,
            _refresh: refresh,
        });
        views.push((principal.clone(), Arc::downgrade(&view)));
        view
    }
}

impl<T: StateValue> Source for View<T> {
    fn attach(&self, feed: Weak<dyn super::Feed>) {
        self.core.attach(feed);
    }

    fn whole(&self) -> (u64, bytes::Bytes) {
        self.core.whole()
    }

    fn since(&self, base: u64) -> super::Change {
        self.core.since(base)
    }

    fn trace(&self) -> TraceCarrier {
        self.core.trace()
    }
}
