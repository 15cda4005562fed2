//! The session facet: providers as ordered contributions.
//!
//! Four contributions build the set, in this order: the built-in providers, what the configuration adds or
//! replaces, the models that providers told of when they were asked, and whether each has a key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_accounts_contract::Credentials;
use bezel_api_session::{
    Availability, Facet, FacetError, ModelListing, ProviderEntry, SessionContext, SessionFacet,
};
use bezel_context::Context;
use bezel_plugin::{Contribution, Local};
use bezel_session_types::{ModelSpec, ProviderError};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde::Deserialize;

use crate::config::ProviderConfig;
use crate::keys::{self, KeySource};
use crate::{catalogue, provider, refresh};

/// Configuration of the plugin: the `[providers.NAME]` tables.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProvidersConfig {
    /// By name.
    pub providers: BTreeMap<String, ProviderConfig>,
}

/// The session facet of providers.
pub fn facet() -> SessionFacet {
    Facet::new("providers", setup)
        .configured::<ProvidersConfig>()
        .requires_local::<Credentials>()
}

type Change = Contribution<bezel_api_session::ProviderDraft>;

/// What the contributions read.
#[derive(Default)]
struct Known {
    /// Models that a provider told of, by provider.
    listed: BTreeMap<String, Vec<ModelSpec>>,
    /// Whether a provider has a key, by provider.
    keys: BTreeMap<String, keys::Availability>,
}

type Shared = Arc<Mutex<Known>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Known> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: ProvidersConfig = cx.config()?;
    let credentials: Local<Credentials> = cx.use_local();
    let environment = cx.agent.environment();
    let variables = environment
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    let keys = KeySource::new(variables).with_credentials(Arc::new(Stored(credentials.clone())));

    let mut built_in = catalogue::built_in();
    let configured: Vec<ProviderConfig> = config
        .providers
        .into_iter()
        .map(|(name, config)| config.named(&name))
        .collect();
    built_in.retain(|known| !configured.iter().any(|config| config.name == known.name));
    let all: Arc<[ProviderConfig]> = built_in.iter().chain(&configured).cloned().collect();

    let known = Shared::default();
    check_keys(&known, &all, &keys).await;
    let fetched: Arc<Mutex<Option<Change>>> = Arc::default();
    let entries =
        |configs: Vec<ProviderConfig>| -> Result<Vec<(String, ProviderEntry)>, FacetError> {
            let entry = |config: ProviderConfig| {
                let listing = Listing {
                    config: config.clone(),
                    keys: keys.clone(),
                    known: Arc::clone(&known),
                    fetched: Arc::clone(&fetched),
                };
                let entry = ProviderEntry {
                    provider: provider(config.clone(), keys.clone())?,
                    models: models(&config),
                    availability: Availability::Available,
                    key_origin: None,
                    listing: Some(Arc::new(listing)),
                };
                Ok((config.name, entry))
            };
            configs.into_iter().map(entry).collect()
        };
    let (built_in, configured) = (entries(built_in)?, entries(configured)?);
    // What a person configured comes first, so that it is what a session without a choice begins with.
    for contributed in [configured, built_in] {
        cx.providers.add(move |draft| {
            for (name, entry) in &contributed {
                draft.set(name, entry.clone());
            }
        });
    }
    let told = Arc::clone(&known);
    let contribution = cx.providers.add(move |draft| {
        for (name, models) in &lock(&told).listed {
            draft.update(name, |entry| entry.models = merged(&entry.models, models));
        }
    });
    *fetched.lock().unwrap_or_else(PoisonError::into_inner) = Some(contribution);

    let marked = Arc::clone(&known);
    let marking = cx.providers.add(move |draft| {
        for (name, key) in &lock(&marked).keys {
            draft.update(name, |entry| mark(entry, name, key));
        }
    });
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        // From now on the credential store can be asked too.
        let mut changes = credentials.get()?.changes();
        check_keys(&known, &all, &keys).await;
        marking.changed();
        spawner.spawn("credential changes", async move {
            while changes.changed().await.is_ok() {
                check_keys(&known, &all, &keys).await;
                marking.changed();
            }
        });
        Ok(())
    });
    Ok(())
}

async fn check_keys(known: &Shared, configs: &[ProviderConfig], keys: &KeySource) {
    let cx = Context::background();
    let checks = configs.iter().map(|config| keys.availability(&cx, config));
    let checked = join_all(checks).await;
    let named = configs
        .iter()
        .map(|config| config.name.clone())
        .zip(checked);
    lock(known).keys.extend(named);
}

fn mark(entry: &mut ProviderEntry, name: &str, key: &keys::Availability) {
    entry.availability = match key {
        keys::Availability::Available { .. } => Availability::Available,
        keys::Availability::NeedsKey { variables } => {
            let export = match variables.first() {
                Some(variable) => {
                    format!("export {variable} in the shell that you start Bezel from, or ")
                }
                None => String::new(),
            };
            Availability::Missing(format!(
                "`{name}` has no key; {export}set `api_key_env` or `api_key_command` under [providers.{name}] in config.toml"
            ))
        }
    };
    entry.key_origin = match key {
        keys::Availability::Available { origin } => *origin,
        keys::Availability::NeedsKey { .. } => None,
    };
}

/// Models of a provider before anybody asked it: the configured ones, then the catalogue's.
fn models(config: &ProviderConfig) -> Vec<ModelSpec> {
    let configured = config.models();
    let known: Vec<ModelSpec> = catalogue::models_of(&config.name).collect();
    merged(&configured, &known)
}

/// The first list, then what the second has beside it.
fn merged(first: &[ModelSpec], second: &[ModelSpec]) -> Vec<ModelSpec> {
    let new = second
        .iter()
        .filter(|spec| !first.iter().any(|known| known.model == spec.model));
    first.iter().chain(new).cloned().collect()
}

/// Asks one provider, and keeps what it told.
struct Listing {
    config: ProviderConfig,
    keys: KeySource,
    known: Shared,
    fetched: Arc<Mutex<Option<Change>>>,
}

impl ModelListing for Listing {
    fn list(&self, cx: &Context) -> BoxFuture<'static, Result<Vec<ModelSpec>, ProviderError>> {
        let (config, keys, cx) = (self.config.clone(), self.keys.clone(), cx.clone());
        let (known, fetched) = (Arc::clone(&self.known), Arc::clone(&self.fetched));
        async move {
            let models = refresh(&cx, &config, keys).await?;
            lock(&known).listed.insert(config.name, models.clone());
            if let Some(contribution) = &*fetched.lock().unwrap_or_else(PoisonError::into_inner) {
                contribution.changed();
            }
            Ok(models)
        }
        .boxed()
    }
}

/// The worker's credential store as a source of keys.
struct Stored(Local<Credentials>);

impl keys::CredentialStore for Stored {
    fn key<'a>(
        &'a self,
        _cx: &'a Context,
        provider: &'a str,
    ) -> BoxFuture<'a, Result<Option<keys::Secret>, keys::CredentialError>> {
        async move {
            // Before activation there is no store to ask, and nobody sends a request.
            let Ok(credentials) = self.0.get() else {
                return Ok(None);
            };
            let stored = credentials.get(provider).await;
            let stored = stored.map_err(|error| keys::CredentialError {
                message: error.message,
            })?;
            Ok(stored.map(|secret| keys::Secret::new(secret.reveal())))
        }
        .boxed()
    }
}
