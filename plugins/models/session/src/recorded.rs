//! A choice that somebody recorded from outside: the session follows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bezel_api_session::{Lane, ProviderCatalogue};
use bezel_context::Context;
use bezel_models_contract::ModelsState;
use bezel_rpc::{State, StateCell};
use bezel_session_types::{ModelRef, ThinkingLevel};
use bezel_sessions_contract::WorkerRecord;

use crate::choice;

/// Carries changes of the record's choice into the state and the lane.
pub(crate) struct Recorded {
    pub(crate) catalogue: ProviderCatalogue,
    pub(crate) cell: StateCell<ModelsState>,
    pub(crate) lane: Lane,
    /// Counts the changes that were carried.
    pub(crate) followed: Arc<AtomicU64>,
    /// Whether somebody chose the model for this session.
    pub(crate) chosen: Arc<AtomicBool>,
    /// The choice that the record had when it was looked at last.
    pub(crate) seen: Option<(Option<ModelRef>, ThinkingLevel)>,
}

impl Recorded {
    /// Follows the record until the facet ends.
    pub(crate) async fn follow(mut self, record: State<WorkerRecord>) {
        let cx = Context::background();
        let mut changes = record.watch();
        loop {
            // Before the first answer of the server there is no record to follow.
            let latest = changes.changed_by_owner().await;
            self.take(&cx, &latest);
        }
    }

    fn take(&mut self, cx: &Context, record: &WorkerRecord) {
        let now = (record.model.clone(), record.thinking_level);
        let before = self.seen.replace(now.clone());
        let (Some(model), thinking) = now else {
            // Nothing was chosen: the configured model serves.
            return;
        };
        let current = self.cell.get().configuration.clone();
        let is_news = match before {
            // The session began with what was on record then. A level that nobody chose reads as none at all.
            None => current.model.as_ref() != Some(&model),
            Some(before) => before != (Some(model.clone()), thinking),
        };
        if !is_news {
            return;
        }
        self.followed.fetch_add(1, Ordering::AcqRel);
        self.chosen.store(true, Ordering::Release);
        let thinking = choice::thinking(&self.catalogue.current(), Some(&model), thinking);
        if current.model.as_ref() == Some(&model) && current.thinking_level == thinking {
            return;
        }
        self.lane.set_model(Some(model.clone()), thinking);
        self.cell.update(cx, |state| {
            state.configuration.model = Some(model);
            state.configuration.thinking_level = thinking;
        });
    }
}
