//! What the measured worker offers beside the product's own questions.

use bezel_question_contract::QuestionResponse;
use bezel_rpc::{Context, State, service};
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Begins turns that ask, and answers what was asked at once. The product's question tool asks one after another.
#[service("asking", version = "1.0")]
pub trait Asking {
    /// What was asked at once and waits.
    fn pending(&self) -> State<Vec<PendingRequest<String>>>;

    /// Gives back what it got, over the hops of an answer.
    #[scope(operate)]
    async fn echo(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> InvocationId;

    /// Begins a turn of so many calls: of the product's question, or of the tool that asks all at once.
    #[scope(operate)]
    async fn begin(&self, cx: &Context, calls: u32, at_once: bool) -> Result<(), AskingError>;

    /// Waits until the turn is over.
    #[scope(operate)]
    async fn settled(&self, cx: &Context) -> Result<(), AskingError>;

    /// Answers what was asked at once.
    #[scope(operate)]
    async fn answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AskingError>;
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct AskingError {
    /// In words.
    pub message: String,
}

impl AskingError {
    /// In the words of what failed.
    pub fn of(error: impl std::fmt::Display) -> Self {
        AskingError {
            message: error.to_string(),
        }
    }
}
