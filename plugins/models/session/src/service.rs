//! The models service.

use std::collections::BTreeMap;

use bezel_api_session::{Lane, ProviderCatalogue};
use bezel_models_contract::{Models, ModelsState, RefreshStatus, SelectError};
use bezel_rpc::{Context, State, StateCell};
use bezel_session_types::{ModelRef, ThinkingLevel};
use bezel_sessions_contract::SessionRecordClient;
use futures::future::join_all;

use crate::choice;

pub(crate) struct ModelsService {
    pub(crate) catalogue: ProviderCatalogue,
    pub(crate) cell: StateCell<ModelsState>,
    pub(crate) lane: Lane,
    pub(crate) record: SessionRecordClient,
}

impl Models for ModelsService {
    fn state(&self) -> State<ModelsState> {
        self.cell.state()
    }

    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        let providers = self.catalogue.current();
        if !providers.available_models().any(|spec| spec.model == model) {
            let suggestion = choice::suggestion(&providers, &model);
            return Err(SelectError::UnknownModel { model, suggestion });
        }
        let wanted = self.cell.get().configuration.thinking_level;
        let thinking = choice::thinking(&providers, Some(&model), wanted);
        self.choose(cx, model, thinking).await
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
        let listings = providers.iter().filter_map(|(name, entry)| {
            let listing = entry.listing.clone()?;
            Some(async move { (name.to_owned(), listing.list(cx).await) })
        });
        let answers = join_all(listings).await;
        let errors: BTreeMap<String, String> = answers
            .into_iter()
            .filter_map(|(name, answer)| Some((name, answer.err()?.to_string())))
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
        let recorded = self.record.switch_model(cx, model.clone(), thinking).await;
        recorded.map_err(|error| SelectError::NotRecorded {
            message: error.to_string(),
        })?;
        self.lane.set_model(Some(model.clone()), thinking);
        self.cell.update(cx, |state| {
            state.configuration.model = Some(model);
            state.configuration.thinking_level = thinking;
        });
        Ok(())
    }
}
