//! The object behind the example contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bezel_rpc::{Context, EventSource, Events, State, StateCell};

use crate::contract::{ModelRef, Models, ModelsEvent, ModelsState, SelectError};

#[derive(Clone)]
pub struct Catalogue {
    pub state: StateCell<ModelsState>,
    pub log: StateCell<Vec<String>>,
    pub events: EventSource<ModelsEvent>,
    pub hanging: Arc<AtomicUsize>,
    pub cancelled: Arc<AtomicUsize>,
    pub finished: StateCell<u64>,
}

impl Catalogue {
    pub fn new() -> Self {
        let available = vec![
            ModelRef::new("local", "small"),
            ModelRef::new("local", "large"),
        ];
        Catalogue {
            state: StateCell::new(ModelsState {
                selected: None,
                available,
                notes: String::new(),
            }),
            log: StateCell::new(Vec::new()),
            events: EventSource::new(),
            hanging: Arc::default(),
            cancelled: Arc::default(),
            finished: StateCell::new(0),
        }
    }
}

/// Counts how an invocation of `hang` ends.
struct Hanging<'c>(&'c Catalogue, Context);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.hanging.fetch_sub(1, Ordering::SeqCst);
        if self.1.is_cancelled() {
            self.0.cancelled.fetch_add(1, Ordering::SeqCst);
        }
        self.0
            .finished
            .update(&Context::background(), |count| *count += 1);
    }
}

impl Models for Catalogue {
    fn state(&self) -> State<ModelsState> {
        self.state.state()
    }

    fn log(&self) -> State<Vec<String>> {
        self.log.state()
    }

    fn events(&self) -> Events<ModelsEvent> {
        self.events.events()
    }

    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        if !self.state.get().available.contains(&model) {
            return Err(SelectError::UnknownModel {
                provider: model.provider,
                model_id: model.model_id,
            });
        }
        self.state
            .update(cx, |state| state.selected = Some(model.clone()));
        self.events.emit(cx, ModelsEvent::Selected { model });
        Ok(())
    }

    async fn page(&self, _cx: &Context, before: Option<u64>, size: u32) -> Vec<ModelRef> {
        let available = &self.state.get().available;
        let end = before.map_or(available.len(), |before| before as usize);
        available[..end]
            .iter()
            .take(size as usize)
            .cloned()
            .collect()
    }

    async fn clear(&self, cx: &Context) {
        self.state.update(cx, |state| state.selected = None);
    }

    async fn hang(&self, cx: &Context) -> Result<(), SelectError> {
        self.hanging.fetch_add(1, Ordering::SeqCst);
        let _ends = Hanging(self, cx.clone());
        self.finished.update(cx, |_| ());
        self.log.update(cx, |log| log.push("hanging".into()));
        std::future::pending().await
    }

    async fn explode(&self, _cx: &Context) -> Result<(), SelectError> {
        panic!("the secret recipe")
    }

    async fn whoami(&self, cx: &Context) -> (String, String, String) {
        let (client, owner) = cx.principal().map_or_else(Default::default, |who| {
            (who.client.to_string(), who.owner.clone())
        });
        (client, owner, format!("{:032x}", cx.trace().trace_id()))
    }

    async fn echo(&self, _cx: &Context, text: String) -> String {
        text
    }
}
