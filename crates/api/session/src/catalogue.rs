//! Model providers as ordered contributions, and the catalogue that they add up to.

use std::sync::Arc;

use bezel_context::Context;
use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem, Registry};
use bezel_session_types::{ModelRef, ModelSpec, Provider, ProviderError};
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Asks a provider which models it has.
pub trait ModelListing: Send + Sync {
    /// The models, with whatever the provider tells of them.
    fn list(&self, cx: &Context) -> BoxFuture<'static, Result<Vec<ModelSpec>, ProviderError>>;
}

/// Whether a provider can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot, and what the person can do.
    Missing(String),
}

/// Where a provider's key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The shell that started the session.
    Environment,
    /// The credential store.
    Store,
    /// The configured command.
    Command,
}

/// One provider.
#[derive(Clone)]
pub struct ProviderEntry {
    /// Answers requests.
    pub provider: Arc<dyn Provider>,
    /// Its models, best first.
    pub models: Vec<ModelSpec>,
    /// Whether it can be used.
    pub availability: Availability,
    /// Where its key comes from; none where it needs none or has none.
    pub key_origin: Option<KeyOrigin>,
    /// Asks it for its models, where it can tell.
    pub listing: Option<Arc<dyn ModelListing>>,
}

/// Providers under construction.
pub struct ProviderDraft(Names<ProviderEntry>);

/// The finished providers, in order.
#[derive(Clone, Default)]
pub struct ProviderSet {
    entries: Vec<(String, ProviderEntry)>,
}

impl ProviderDraft {
    /// Adds a provider after the earlier ones.
    pub fn set(&mut self, name: &str, entry: ProviderEntry) {
        self.0.set(name, entry);
    }

    /// Sets a provider on purpose, whoever has set it before.
    pub fn replace(&mut self, name: &str, entry: ProviderEntry) {
        self.0.replace(name, entry);
    }

    /// Takes a provider out. False where nobody had set it.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name)
    }

    /// A provider so far.
    pub fn get(&self, name: &str) -> Option<&ProviderEntry> {
        self.0.get(name).map(|named| &named.value)
    }

    /// The names so far.
    pub fn names(&self) -> Vec<String> {
        self.0.names().map(str::to_owned).collect()
    }

    /// Changes a provider that is there. False where it is not.
    pub fn update(&mut self, name: &str, change: impl FnOnce(&mut ProviderEntry)) -> bool {
        let Some(mut entry) = self.get(name).cloned() else {
            return false;
        };
        change(&mut entry);
        self.0.replace(name, entry);
        true
    }
}

impl Draft for ProviderDraft {
    type Output = ProviderSet;

    fn new() -> Self {
        ProviderDraft(Names::new("provider"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<ProviderSet, DraftError> {
        let named: Vec<_> = self.0.finish(problems).collect();
        if let Some((name, named)) = named
            .iter()
            .find(|(name, _)| name.is_empty() || name.contains("::"))
        {
            let message =
                format!("`{name}` is not a provider name: it must not be empty or hold `::`");
            return Err(DraftError {
                plugin: named.plugin.clone(),
                message,
            });
        }
        let entries = named
            .into_iter()
            .map(|(name, named)| (name, named.value))
            .collect();
        Ok(ProviderSet { entries })
    }
}

impl ProviderSet {
    /// All providers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ProviderEntry)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
    }

    /// One provider.
    pub fn get(&self, name: &str) -> Option<&ProviderEntry> {
        self.iter()
            .find(|(other, _)| *other == name)
            .map(|(_, entry)| entry)
    }

    /// The models of all providers that can be used, in order.
    pub fn available_models(&self) -> impl Iterator<Item = &ModelSpec> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.availability == Availability::Available)
            .flat_map(|(_, entry)| &entry.models)
    }

    /// What is known of a model.
    pub fn model(&self, model: &ModelRef) -> Option<&ModelSpec> {
        self.get(&model.provider)?
            .models
            .iter()
            .find(|spec| spec.model == *model)
    }
}

/// Reads the finished providers.
#[derive(Clone)]
pub struct ProviderCatalogue(pub(crate) Registry<ProviderDraft>);

impl ProviderCatalogue {
    /// The newest complete set.
    pub fn current(&self) -> Arc<ProviderSet> {
        self.0.current()
    }

    /// The newest complete set and each one after it.
    pub fn watch(&self) -> watch::Receiver<Arc<ProviderSet>> {
        self.0.watch()
    }
}
