//! Durable requests as clients see them: what a session waits for, and what became of an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InvocationId, SessionId};

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingRequest<Request> {
    /// What an answer names: the call that asks.
    pub id: InvocationId,
    /// What is asked.
    pub request: Request,
    /// The session that asks, where it is not the one in whose list this stands but one that it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker: Option<SessionId>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SubmitOutcome {
    /// It is the answer, and on the disk.
    Accepted,
    /// Nothing waits under this id: it was answered, interrupted, or never asked. Nothing was written.
    NotPending,
}
