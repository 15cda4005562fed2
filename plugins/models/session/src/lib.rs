//! The model choice of one session over the provider contributions.
//!
//! The server's record is the authority for the choice: a selection is validated here, recorded there and
//! then applied to the lane. What somebody else has recorded is followed: it comes from the record and does not
//! go back to it.

mod choice;
mod recorded;
mod service;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::{
    Facet, FacetError, Lane, Namespace, ProviderSet, SessionContext, SessionFacet,
};
use bezel_context::Context;
use bezel_models_contract::{AgentModel, Configuration, ModelsClient, ModelsState};
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
    /// Whether that is the record's model, which goes before the one of an agent.
    pub chosen: bool,
    /// Providers that a person configured; the others are there in case.
    pub configured_providers: BTreeSet<String>,
}

/// The session facet of models.
pub fn facet() -> SessionFacet {
    Facet::new("models", setup)
        .configured::<ModelsConfig>()
        .provides::<ModelsClient>()
        .provides_local::<AgentModel>()
        .requires::<SessionRecordClient>(Namespace::Server)
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: ModelsConfig = cx.config()?;
    let lane = cx.agent.main();
    let cell = cx.state_cell(ModelsState::default());
    let record = cx.server.use_service::<SessionRecordClient>();
    let followed = Arc::new(AtomicU64::new(0));
    let chosen = Arc::new(AtomicBool::new(config.chosen));
    let agent = AgentModel::default();
    cx.provide_local(Arc::new(agent.clone()));
    cx.provide(ModelsClient::new(ModelsService {
        catalogue: cx.catalogue.clone(),
        cell: cell.clone(),
        lane: lane.clone(),
        record: record.clone(),
        followed: Arc::clone(&followed),
        chosen: Arc::clone(&chosen),
        configured: config.configured_providers.clone(),
    }));
    let recorded = Recorded {
        catalogue: cx.catalogue.clone(),
        cell: cell.clone(),
        lane: lane.clone(),
        followed,
        chosen: Arc::clone(&chosen),
        seen: None,
    };
    let providers = cx.catalogue.watch();
    let mut changes = providers.clone();
    // Plain mutex: held while a change is carried, never across an await.
    let follower = Arc::new(Mutex::new(Follower {
        providers,
        cell,
        lane,
        begin: config,
        chosen,
        agent: agent.clone(),
        first: None,
    }));
    let apply = move || {
        let mut follower = follower.lock().unwrap_or_else(PoisonError::into_inner);
        follower.apply();
    };
    let (wished, is_active) = (apply.clone(), Arc::new(AtomicBool::new(false)));
    let active = Arc::clone(&is_active);
    // Where the wish is set it counts: the request that follows goes to that model.
    cx.own(agent.state().subscribe(move |_, _| {
        if active.load(Ordering::Acquire) {
            wished();
        }
    }));
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        is_active.store(true, Ordering::Release);
        apply();
        spawner.spawn("model catalogue", async move {
            changes.mark_unchanged();
            while changes.changed().await.is_ok() {
                apply();
            }
        });
        spawner.spawn("recorded model", recorded.follow(record.state()));
        Ok(())
    });
    Ok(())
}

/// Carries changes of the providers and of the agent into the state and the lane.
struct Follower {
    providers: watch::Receiver<Arc<ProviderSet>>,
    cell: StateCell<ModelsState>,
    lane: Lane,
    begin: ModelsConfig,
    /// Whether somebody chose the model for this session.
    chosen: Arc<AtomicBool>,
    agent: AgentModel,
    /// What served where nobody had a wish: it stays, whatever comes before it later.
    first: Option<ModelRef>,
}

impl Follower {
    fn apply(&mut self) {
        let providers = Arc::clone(&self.providers.borrow_and_update());
        let chosen = self.cell.get().configuration.clone();
        let (wanted, thinking) = match (chosen.model, self.chosen.load(Ordering::Acquire)) {
            (Some(model), true) => (Some(model), chosen.thinking_level),
            (None, true) => (self.begin.model.clone(), self.begin.thinking),
            (_, false) => {
                let wish = self.agent.get();
                let model = wish.model.as_ref().or(self.begin.model.as_ref());
                (
                    model.or(self.first.as_ref()).cloned(),
                    wish.thinking.unwrap_or(self.begin.thinking),
                )
            }
        };
        let model = choice::initial(&providers, wanted.as_ref());
        if wanted.is_none() {
            self.first.clone_from(&model);
        }
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
