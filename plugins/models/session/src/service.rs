//! The models service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bezel_api_session::{Availability, Lane, ProviderCatalogue, ProviderEntry};
use bezel_models_contract::{Models, ModelsState, RefreshStatus, SelectError};
use bezel_rpc::{Context, State, StateCell};
use bezel_session_types::{ModelRef, ModelSpec, ThinkingLevel};
use bezel_sessions_contract::SessionRecordClient;
use futures::future::join_all;

use crate::choice;

/// How long a provider may take to say whether it has a model.
const LISTING: Duration = Duration::from_secs(10);

pub(crate) struct ModelsService {
    pub(crate) catalogue: ProviderCatalogue,
    pub(crate) cell: StateCell<ModelsState>,
    pub(crate) lane: Lane,
    pub(crate) record: SessionRecordClient,
    /// Counts the changes of the record's choice that the lane has followed.
    pub(crate) followed: Arc<AtomicU64>,
    /// Whether somebody chose the model for this session.
    pub(crate) chosen: Arc<AtomicBool>,
    /// Providers that a person configured.
    pub(crate) configured: BTreeSet<String>,
}

impl Models for ModelsService {
    fn state(&self) -> State<ModelsState> {
        self.cell.state()
    }

    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        self.check(cx, model.clone()).await?;
        let wanted = self.cell.get().configuration.thinking_level;
        let thinking = choice::thinking(&self.catalogue.current(), Some(&model), wanted);
        self.choose(cx, model, thinking).await
    }

    async fn check(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        let providers = self.catalogue.current();
        let Some(entry) = providers.get(&model.provider) else {
            let suggestion = choice::suggestion(&providers, &model);
            return Err(SelectError::UnknownProvider { model, suggestion });
        };
        if let Availability::Missing(reason) = &entry.availability {
            let reason = reason.clone();
            return Err(SelectError::Unavailable { model, reason });
        }
        let lists = |models: &[ModelSpec]| models.iter().any(|spec| spec.model == model);
        // A catalogue ages and a person lists what they use: the provider itself knows best.
        if entry.models.is_empty() || lists(&entry.models) {
            return Ok(());
        }
        if let Some(listing) = &entry.listing
            && let Ok(Ok(listed)) = cx.with_timeout(LISTING).run(listing.list(cx)).await
            && lists(&listed)
        {
            return Ok(());
        }
        let suggestion = choice::suggestion(&self.catalogue.current(), &model);
        Err(SelectError::UnknownModel { model, suggestion })
    }

    async fn cycle_thinking(&self, cx: &Context) -> Result<ThinkingLevel, SelectError> {
        let configuration = self.cell.get().configuration.clone();
        let Some(model) = configuration.model else {
            return Ok(ThinkingLevel::Off);
        };
        let wanted = choice::next(configuration.thinking_level);
        let thinking = choice::thinking(&self.catalogue.current(), Some(&model), wanted);
        self.choose(cx, model, thinking).await?;
        Ok(thinking)
    }

    async fn refresh(&self, cx: &Context) {
        self.cell
            .update(cx, |state| state.refresh = RefreshStatus::Refreshing);
        let providers = self.catalogue.current();
        // One without a key has nothing to say; that is no failure of the refresh.
        let usable = |entry: &ProviderEntry| entry.availability == Availability::Available;
        // Nor is it one that an Ollama that nobody asked for is not there.
        let missed = |name: &str| {
            self.configured.contains(name)
                || providers
                    .get(name)
                    .is_some_and(|entry| entry.key_origin.is_some())
        };
        let listings = providers.iter().filter_map(|(name, entry)| {
            let listing = entry.listing.clone().filter(|_| usable(entry))?;
            Some(async move { (name.to_owned(), listing.list(cx).await) })
        });
        let answers = join_all(listings).await;
        let errors: BTreeMap<String, String> = answers
            .into_iter()
            .filter_map(|(name, answer)| Some((name, answer.err()?.to_string())))
            .filter(|(name, _)| missed(name))
            .collect();
        self.cell.update(cx, |state| {
            state.refresh = match errors.is_empty() {
                true => RefreshStatus::Done,
                false => RefreshStatus::Warning { errors },
            };
        });
    }
}

impl ModelsService {
    async fn choose(
        &self,
        cx: &Context,
        model: ModelRef,
        thinking: ThinkingLevel,
    ) -> Result<(), SelectError> {
        let followed = self.followed.load(Ordering::Acquire);
        let recorded = self.record.switch_model(cx, model.clone(), thinking).await;
        recorded.map_err(|error| SelectError::NotRecorded {
            message: error.to_string(),
        })?;
        if self.followed.load(Ordering::Acquire) != followed {
            // The record told of a choice meanwhile: this one or a later one. The last it tells of is the one.
            return Ok(());
        }
        self.chosen.store(true, Ordering::Release);
        self.lane.set_model(Some(model.clone()), thinking);
        self.cell.update(cx, |state| {
            state.configuration.model = Some(model);
            state.configuration.thinking_level = thinking;
        });
        Ok(())
    }
}
