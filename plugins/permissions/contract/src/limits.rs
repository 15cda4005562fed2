//! What the agents of a session may do at most, for the facet of this process that knows them.

use std::sync::Arc;

use bezel_rpc::{Context, LocalService, State, StateCell};
use bezel_session_types::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Rule;

/// What the agents of a session may do at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The widest mode; none where the session's own serves.
    pub mode: Option<PermissionMode>,
    /// Rules of each agent that binds the session, the root's first. Each list is read as if it stood after the
    /// configured rules, and the strictest of what the lists say counts: a rule that denies is final in all of
    /// them, and something runs unasked by a rule only where every list says so.
    pub layers: Vec<Vec<Rule>>,
}

/// Where a session's limits are set. What is judged afterwards is judged by them.
#[derive(Clone)]
pub struct AgentLimits(StateCell<Limits>);

impl Default for AgentLimits {
    fn default() -> Self {
        AgentLimits(StateCell::new(Limits::default()))
    }
}

impl LocalService for AgentLimits {
    const ID: &'static str = "agent-limits";
}

impl AgentLimits {
    /// Sets the limits.
    pub fn set(&self, limits: Limits) {
        self.0.set(&Context::background(), limits);
    }

    /// The limits now.
    pub fn get(&self) -> Arc<Limits> {
        self.0.get()
    }

    /// The limits, to follow.
    pub fn state(&self) -> State<Limits> {
        self.0.state()
    }
}
