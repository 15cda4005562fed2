//! The model choice of one session over the provider contributions.
//!
//! The server's record is the authority for the choice: a selection is validated here, recorded there and
//! then applied to the lane. What somebody else has recorded is followed: it comes from the record and does not
//! go back to it.

mod choice;
mod recorded;
mod service;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bezel_api_session::{
    Facet, FacetError, Lane, Namespace, ProviderSet, SessionContext, SessionFacet,
};
use bezel_context::Context;
use bezel_models_contract::{Configuration, ModelsClient, ModelsState};
use bezel_rpc::StateCell;
use bezel_session_types::{ModelRef, ThinkingLevel};
use bezel_sessions_contract::SessionRecordClient;
use serde::Deserialize;
use tokio::sync::watch;

use crate::recorded::Recorded;
use crate::service::ModelsService;

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelsConfig {
    /// The model to begin with: the record's, else the configured one.
    pub model: Option<ModelRef>,
    /// How much it reasons to begin with.
    pub thinking: ThinkingLevel,
    /// Providers that a person configured; the others are there in case.
    pub configured_providers: BTreeSet<String>,
}

/// The session facet of models.
pub fn facet() -> SessionFacet {
    Facet::new("models", setup)
        .provides::<ModelsClient>()
        .requires::<SessionRecordClient>(Namespace::Server)
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: ModelsConfig = cx.config()?;
    let lane = cx.agent.main();
    let cell = cx.state_cell(ModelsState::default());
    let record = cx.server.use_service::<SessionRecordClient>();
    let followed = Arc::new(AtomicU64::new(0));
    cx.provide(ModelsClient::new(ModelsService {
        catalogue: cx.catalogue.clone(),
        cell: cell.clone(),
        lane: lane.clone(),
        record: record.clone(),
        followed: Arc::clone(&followed),
        configured: config.configured_providers.clone(),
    }));
    let recorded = Recorded {
        catalogue: cx.catalogue.clone(),
        cell: cell.clone(),
        lane: lane.clone(),
        followed,
        seen: None,
    };
    let providers = cx.catalogue.watch();
    let mut follower = Follower {
        providers,
        cell,
        lane,
        begin: config,
    };
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        follower.apply();
        spawner.spawn("model catalogue", async move {
            while follower.providers.changed().await.is_ok() {
                follower.apply();
            }
        });
        spawner.spawn("recorded model", recorded.follow(record.state()));
        Ok(())
    });
    Ok(())
}

/// Carries changes of the providers into the state and the lane.
struct Follower {
    providers: watch::Receiver<Arc<ProviderSet>>,
    cell: StateCell<ModelsState>,
    lane: Lane,
    begin: ModelsConfig,
}

impl Follower {
    fn apply(&mut self) {
        let providers = Arc::clone(&self.providers.borrow_and_update());
        let chosen = self.cell.get().configuration.clone();
        let (wanted, thinking) = match chosen.model {
            Some(model) => (Some(model), chosen.thinking_level),
            None => (self.begin.model.clone(), self.begin.thinking),
        };
        let model = choice::initial(&providers, wanted.as_ref());
        let thinking_level = choice::thinking(&providers, model.as_ref(), thinking);
        self.cell.update(&Context::background(), |state| {
            let models: Vec<_> = providers.available_models().cloned().collect();
            if state.catalog.available_models != models {
                state.catalog.available_models = models;
                state.catalog.revision += 1;
            }
            state.configuration = Configuration {
                model: model.clone(),
                thinking_level,
            };
        });
        self.lane.set_model(model, thinking_level);
    }
}
