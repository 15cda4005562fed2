//! Handles to services of the same process, and the registry that binds them to owners.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bezel_rpc::LocalService;

/// A handle that was used before the host had activated its facets, or whose provider failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("service `{0}` is not active")]
pub struct NotActive(pub &'static str);

/// A handle to a [`LocalService`]: the object itself, from activation on.
pub struct Local<L>(Arc<OnceLock<Arc<L>>>);

impl<L> Clone for Local<L> {
    fn clone(&self) -> Self {
        Local(Arc::clone(&self.0))
    }
}

impl<L: LocalService> Local<L> {
    /// The service.
    pub fn get(&self) -> Result<Arc<L>, NotActive> {
        self.0.get().cloned().ok_or(NotActive(L::ID))
    }
}

type Binding = Box<dyn FnOnce(&HashMap<&'static str, Provided>) + Send>;
type Provided = Arc<dyn Any + Send + Sync>;

/// What the facets of one host provide to each other.
#[derive(Clone, Default)]
pub(crate) struct LocalRegistry(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    provided: HashMap<&'static str, Provided>,
    bindings: Vec<Binding>,
}

impl LocalRegistry {
    /// False where the id is taken.
    pub(crate) fn provide<T: Send + Sync + 'static>(
        &self,
        id: &'static str,
        value: Arc<T>,
    ) -> bool {
        let mut tables = self.lock();
        if tables.provided.contains_key(id) {
            return false;
        }
        tables.provided.insert(id, value);
        true
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.lock().provided.contains_key(id)
    }

    pub(crate) fn withdraw(&self, id: &'static str) {
        self.lock().provided.remove(id);
    }

    /// Calls `bind` with the owner's value when the facets are activated, if there is one then.
    pub(crate) fn bind_later<T: Send + Sync + 'static>(
        &self,
        id: &'static str,
        bind: impl FnOnce(Arc<T>) + Send + 'static,
    ) {
        self.lock().bindings.push(Box::new(move |provided| {
            let value = provided.get(id).cloned();
            if let Some(value) = value.and_then(|value| value.downcast::<T>().ok()) {
                bind(value);
            }
        }));
    }

    pub(crate) fn local<L: LocalService>(&self) -> Local<L> {
        let slot = Arc::new(OnceLock::new());
        let inner = Arc::clone(&slot);
        self.bind_later::<L>(L::ID, move |value| {
            inner.get_or_init(|| value);
        });
        Local(slot)
    }

    /// Binds every handle that was taken so far.
    pub(crate) fn bind_all(&self) {
        let (bindings, provided) = {
            let mut tables = self.lock();
            (
                std::mem::take(&mut tables.bindings),
                tables.provided.clone(),
            )
        };
        for bind in bindings {
            bind(&provided);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
