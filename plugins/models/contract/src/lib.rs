//! The models service: catalogue, configuration, refresh.

mod agent;

use std::collections::BTreeMap;

use bezel_rpc::{Context, State, service};
use bezel_session_types::{ModelRef, ModelSpec, ThinkingLevel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use agent::{AgentModel, ModelWish};

/// The model choice of one session.
#[service("models", version = "1.0")]
pub trait Models {
    /// Catalogue, configuration and how a refresh goes.
    fn state(&self) -> State<ModelsState>;

    /// Chooses a model that passes [`Models::check`]. Thinking goes off where the model cannot reason.
    #[scope(operate)]
    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError>;

    /// Whether a model can be used as things are. A name that is not in the catalogue is looked for in its
    /// provider's own list; where neither the catalogue nor the provider lists any model of it, every
    /// name is taken.
    #[scope(operate)]
    async fn check(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError>;

    /// Goes to the next thinking level; stays off where the model cannot reason.
    #[scope(operate)]
    async fn cycle_thinking(&self, cx: &Context) -> Result<ThinkingLevel, SelectError>;

    /// Asks every provider for its models. Ends when all have answered; errors are in the state.
    #[scope(operate)]
    async fn refresh(&self, cx: &Context);
}

/// Catalogue, configuration and how a refresh goes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelsState {
    /// What can be chosen.
    pub catalog: Catalog,
    /// What is chosen.
    pub configuration: Configuration,
    /// How the last refresh went.
    pub refresh: RefreshStatus,
}

/// What can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Catalog {
    /// Grows with every change.
    pub revision: u64,
    /// Models of configured providers, in provider order.
    pub available_models: Vec<ModelSpec>,
}

/// What is chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// The model, or none when nothing is configured.
    pub model: Option<ModelRef>,
    /// How much it reasons.
    pub thinking_level: ThinkingLevel,
}

/// How the last refresh went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RefreshStatus {
    /// None was asked for.
    #[default]
    Idle,
    /// It runs.
    Refreshing,
    /// All providers answered.
    Done,
    /// Some did not.
    Warning {
        /// What went wrong, per provider.
        errors: BTreeMap<String, String>,
    },
}

/// Why a choice was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum SelectError {
    /// Its provider has no such model.
    #[error("unknown model {model}{}; `bezel models` lists what there is, and [[providers.{}.models]] in config.toml adds to it", suggest(.suggestion), .model.provider)]
    UnknownModel {
        /// What was asked for.
        model: ModelRef,
        /// A name that is near.
        suggestion: Option<ModelRef>,
    },
    /// No provider is called so.
    #[error("unknown provider {}{}; `bezel models` lists what there is, and [providers.{}] in config.toml adds one", .model.provider, suggest(.suggestion), .model.provider)]
    UnknownProvider {
        /// What was asked for.
        model: ModelRef,
        /// A name that is near.
        suggestion: Option<ModelRef>,
    },
    /// Its provider cannot be used.
    #[error("{reason}")]
    Unavailable {
        /// What was asked for.
        model: ModelRef,
        /// What is missing and what to do.
        reason: String,
    },
    /// The server could not record the choice.
    #[error("the choice could not be recorded: {message}")]
    NotRecorded {
        /// What happened and what to do.
        message: String,
    },
}

fn suggest(suggestion: &Option<ModelRef>) -> String {
    suggestion
        .as_ref()
        .map(|model| format!(" (did you mean {model}?)"))
        .unwrap_or_default()
}
