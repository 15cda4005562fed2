//! An example contract, complete: what a feature's `contract` crate looks like.

use bezel_rpc::{Context, Events, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one model of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRef {
    pub provider: String,
    pub model_id: String,
}

impl ModelRef {
    pub fn new(provider: &str, model_id: &str) -> Self {
        ModelRef {
            provider: provider.into(),
            model_id: model_id.into(),
        }
    }
}

/// What every presentation shows of the choice. `Default` is what it shows before it is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelsState {
    pub selected: Option<ModelRef>,
    pub available: Vec<ModelRef>,
    pub notes: String,
}

/// Tagged with `type`, so that `on("selected", …)` can pick one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ModelsEvent {
    Selected { model: ModelRef },
    Refreshed { count: u64 },
}

/// Tagged with `code`; the text is what a person reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum SelectError {
    #[error("there is no model {model_id} of {provider}; pick one of the list")]
    UnknownModel { provider: String, model_id: String },
    #[error("the choice is locked")]
    Locked,
}

/// The model choice of one session.
#[service("models", version = "1.2")]
pub trait Models {
    /// The choice and what there is to choose from.
    fn state(&self) -> State<ModelsState>;
    /// A second cell, so that big changes of one do not resend the other.
    fn log(&self) -> State<Vec<String>>;
    fn events(&self) -> Events<ModelsEvent>;
    /// Selects a model for the next request.
    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError>;
    /// Never fails by itself.
    #[scope(read)]
    async fn page(&self, cx: &Context, before: Option<u64>, size: u32) -> Vec<ModelRef>;
    #[scope(admin)]
    async fn clear(&self, cx: &Context);
    /// Runs until it is cancelled.
    async fn hang(&self, cx: &Context) -> Result<(), SelectError>;
    async fn explode(&self, cx: &Context) -> Result<(), SelectError>;
    /// Says on whose behalf it was called: client, owner, trace id.
    async fn whoami(&self, cx: &Context) -> (String, String, String);
    async fn echo(&self, cx: &Context, text: String) -> String;
}
