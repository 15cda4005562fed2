//! The model that a session's agent works with, for the facet of this process that knows it.

use std::sync::Arc;

use bezel_rpc::{Context, LocalService, State, StateCell};
use bezel_session_types::{ModelRef, ThinkingLevel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The model that an agent works with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelWish {
    /// Which; none where the configured one serves.
    pub model: Option<ModelRef>,
    /// How much it reasons; none where the configured level serves.
    pub thinking: Option<ThinkingLevel>,
}

/// Where the wish of a session's agent is set. It goes before the configured model, and a model that somebody chose
/// for the session goes before it.
#[derive(Clone)]
pub struct AgentModel(StateCell<ModelWish>);

impl Default for AgentModel {
    fn default() -> Self {
        AgentModel(StateCell::new(ModelWish::default()))
    }
}

impl LocalService for AgentModel {
    const ID: &'static str = "agent-model";
}

impl AgentModel {
    /// Sets the wish.
    pub fn set(&self, wish: ModelWish) {
        self.0.set(&Context::background(), wish);
    }

    /// The wish now.
    pub fn get(&self) -> Arc<ModelWish> {
        self.0.get()
    }

    /// The wish, to follow.
    pub fn state(&self) -> State<ModelWish> {
        self.0.state()
    }
}
