//! Tokens, context and cost of one session.

use bezel_rpc::{State, service};
use bezel_session_types::Usage as Tokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one session has used.
#[service("usage", version = "1.0")]
pub trait Usage {
    /// Tokens, context and cost so far.
    fn state(&self) -> State<UsageState>;
}

/// Tokens, context and cost so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageState {
    /// All requests together.
    pub total: Tokens,
    /// US dollars of the requests whose price is known; none where no price is.
    pub cost: Option<f64>,
    /// Tokens that the last request took of the model's window.
    pub context_tokens: u64,
    /// The model's window in tokens; 0 when unknown.
    pub context_window: u64,
    /// How many model requests were made.
    pub requests: u64,
}
