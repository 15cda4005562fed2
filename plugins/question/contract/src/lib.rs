//! Questions that a session asks a person: what waits, and how it is answered.
//!
//! A question belongs to the session and to no client. Every client sees the same list, one that comes
//! later finds it, and with nobody there it waits. The first answer is the answer.

use bezel_rpc::{Context, State, service};
use bezel_session_types::{InvocationId, PendingRequest, SubmitOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the tool.
pub const TOOL: &str = "question";

/// What one session asks.
#[service("questions", version = "1.0")]
pub trait Questions {
    /// The questions that wait for an answer, in the order of asking.
    fn pending(&self) -> State<Vec<PendingQuestion>>;

    /// Answers a question. The first answer is accepted, and on the disk when this returns; whether the tool
    /// that asks is running does not matter.
    #[scope(operate)]
    async fn submit_answer(
        &self,
        cx: &Context,
        id: InvocationId,
        response: QuestionResponse,
    ) -> Result<SubmitOutcome, AnswerError>;
}

/// A question that waits.
pub type PendingQuestion = PendingRequest<QuestionRequest>;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRequest {
    /// The question, Markdown.
    pub question: String,
    /// What can be chosen, in order. Something else can always be written.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
}

/// One thing that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    /// What it is called.
    pub label: String,
    /// What it means; none where the label says it.
    #[serde(default)]
    pub description: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum QuestionResponse {
    /// One of the options.
    Selected {
        /// Its place, from 0.
        index: u32,
    },
    /// Something else.
    Custom {
        /// What was written.
        answer: String,
    },
    /// The person does not answer; the agent goes on without.
    Cancelled,
}

/// What the tool's result says for renderers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDetails {
    /// What was asked.
    pub question: String,
    /// The labels of the options.
    pub options: Vec<String>,
    /// The label that was selected, or what was written; none where nobody answered.
    pub answer: Option<String>,
    /// Whether it was written.
    pub was_custom: bool,
}

/// Why an answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum AnswerError {
    /// There is no such option. The question still waits.
    #[error("there is no option {number}: the question has {count}")]
    NoSuchOption {
        /// What was answered, from 1.
        number: u32,
        /// How many options there are.
        count: u32,
    },
    /// It does not fit. The question still waits.
    #[error("the answer was not taken: {message}")]
    Invalid {
        /// What is wrong with it.
        message: String,
    },
    /// The session could not be written.
    #[error("the answer was not taken: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
