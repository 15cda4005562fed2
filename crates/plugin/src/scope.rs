//! What every facet of every host may do.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_context::Spawner;
use bezel_kernel::{BoxError, Scope};
use bezel_rpc::{EventSource, LocalService, ServiceClient, ServiceTable, StateCell};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::local::{Local, LocalRegistry};
use crate::{Grant, PluginId};

/// A facet's lifetime, configuration and services. Everything registered through it ends with it.
#[derive(Clone)]
pub struct FacetScope(Arc<Inner>);

struct Inner {
    plugin: PluginId,
    scope: Scope,
    config: Value,
    grants: BTreeSet<Grant>,
    declared: Declared,
    registry: LocalRegistry,
    table: ServiceTable,
    violations: Mutex<Vec<String>>,
}

/// What a facet said that it provides and uses in its own process.
pub(crate) struct Declared {
    pub(crate) provides: BTreeSet<&'static str>,
    pub(crate) uses: BTreeSet<&'static str>,
    /// All services that some facet of this host declares.
    pub(crate) available: BTreeSet<&'static str>,
}

/// A plugin's configuration that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration of plugin `{plugin}` is wrong at `{at}`: {message}")]
pub struct ConfigError {
    /// The plugin.
    pub plugin: PluginId,
    /// Path of the value, `.` for the whole.
    pub at: String,
    /// What is wrong.
    pub message: String,
}

/// A plugin's configuration; an absent one is read as an empty object.
pub(crate) fn read_config<T: DeserializeOwned>(
    plugin: &PluginId,
    config: &Value,
) -> Result<T, ConfigError> {
    let value = match config {
        Value::Null => Value::Object(serde_json::Map::new()),
        value => value.clone(),
    };
    serde_json::from_value(value).map_err(|error| ConfigError {
        plugin: plugin.clone(),
        at: ".".into(),
        message: error.to_string(),
    })
}

impl FacetScope {
    pub(crate) fn new(
        plugin: PluginId,
        scope: Scope,
        (config, grants): (Value, BTreeSet<Grant>),
        declared: Declared,
        registry: LocalRegistry,
        table: ServiceTable,
    ) -> Self {
        let violations = Mutex::default();
        FacetScope(Arc::new(Inner {
            plugin,
            scope,
            config,
            grants,
            declared,
            registry,
            table,
            violations,
        }))
    }

    /// Whose facet it is.
    pub fn plugin(&self) -> &PluginId {
        &self.0.plugin
    }

    /// The plugin's configuration; an absent one reads as `null`, then as an empty object.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        read_config(&self.0.plugin, &self.0.config)
    }

    /// Whether the manifest grants this capability.
    pub fn is_granted(&self, grant: &str) -> bool {
        self.0.grants.iter().any(|held| held.as_str() == grant)
    }

    /// Runs `callback` once all facets are registered, providers before their users.
    pub fn on_activate<F, Fut>(&self, callback: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.0.scope.on_activate(callback);
    }

    /// Runs `callback` when the facet ends.
    pub fn on_dispose<F, Fut>(&self, callback: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.0.scope.on_dispose(callback);
    }

    /// Drops `resource` when the facet ends.
    pub fn own<T: Send + 'static>(&self, resource: T) {
        self.0.scope.own(resource);
    }

    /// Starts tasks that end with the facet.
    pub fn spawner(&self) -> &Spawner {
        self.0.scope.spawner()
    }

    /// Offers a declared service to this process and, by its descriptor, to remote users.
    pub fn provide<S: ServiceClient>(&self, service: S) {
        if self.provide_here(S::ID, Arc::new(service.clone())) {
            if let Err(error) = self.0.table.provide(service.exposed()) {
                self.violation(error.to_string());
                return;
            }
            let table = self.0.table.clone();
            self.0.scope.own(OnDrop::new(move || {
                table.withdraw(S::ID);
            }));
        }
    }

    /// Offers a declared service to this process only.
    pub fn provide_local<L: LocalService>(&self, service: Arc<L>) {
        self.provide_here(L::ID, service);
    }

    /// A handle to a declared service of this process, usable from activation on.
    pub fn use_service<S: ServiceClient>(&self) -> S {
        self.check_use(S::ID);
        let (client, binder) = S::late();
        self.0
            .registry
            .bind_later::<S>(S::ID, move |owner| binder.bind(&owner));
        client
    }

    /// The same where some plugin of this host provides it.
    pub fn use_optional<S: ServiceClient>(&self) -> Option<S> {
        self.0
            .declared
            .available
            .contains(S::ID)
            .then(|| self.use_service())
    }

    /// A handle to a declared service of this process only, usable from activation on.
    pub fn use_local<L: LocalService>(&self) -> Local<L> {
        self.check_use(L::ID);
        self.0.registry.local()
    }

    /// The same where some plugin of this host provides it.
    pub fn use_local_optional<L: LocalService>(&self) -> Option<Local<L>> {
        self.0
            .declared
            .available
            .contains(L::ID)
            .then(|| self.use_local())
    }

    /// An owner of replicated state.
    pub fn state_cell<T>(&self, initial: T) -> StateCell<T>
    where
        T: bezel_rpc::StateValue,
    {
        StateCell::new(initial)
    }

    /// An owner of an event source.
    pub fn event_source<T>(&self) -> EventSource<T>
    where
        T: bezel_rpc::EventValue,
    {
        EventSource::new()
    }

    /// The kernel's scope, for host crates that register what they hand out.
    #[doc(hidden)]
    pub fn kernel_scope(&self) -> &Scope {
        &self.0.scope
    }

    fn provide_here<T: Send + Sync + 'static>(&self, id: &'static str, value: Arc<T>) -> bool {
        if !self.0.declared.provides.contains(id) {
            self.violation(format!("it provides `{id}` without declaring it"));
            return false;
        }
        if !self.0.registry.provide(id, value) {
            self.violation(format!("it provides `{id}` twice"));
            return false;
        }
        let registry = self.0.registry.clone();
        self.0.scope.own(OnDrop::new(move || registry.withdraw(id)));
        true
    }

    fn check_use(&self, id: &'static str) {
        if !self.0.declared.uses.contains(id) {
            self.violation(format!(
                "it uses `{id}` of this process without declaring it"
            ));
        }
    }

    fn violation(&self, text: String) {
        self.0
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text);
    }

    /// What setup did that the descriptor does not say, and the other way round.
    pub(crate) fn violations(&self) -> Vec<String> {
        let found = self
            .0
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut all = found.clone();
        let missing = self
            .0
            .declared
            .provides
            .iter()
            .filter(|id| !self.0.registry.has(id));
        all.extend(missing.map(|id| format!("it declares `{id}` and does not provide it")));
        all
    }
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    fn new(run: F) -> Self {
        OnDrop(Some(run))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}
