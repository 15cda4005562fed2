//! The chat service: prompt, steer, abort, compact, and what is running.
//!
//! Admission is durable: what `prompt` accepted survives the worker. Aborting through
//! [`Chat::request_abort`] is durable too; dropping the call of `wait` ends only that wait.

use bezel_rpc::{Context, State, service};
use bezel_session_types::{CommandId, EntryId, NextRequest, OperationId};

pub use bezel_session_types::{Delivery, PromptPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One session's conversation, as a presentation drives it.
#[service("chat", version = "1.3")]
pub trait Chat {
    /// What runs and what waits.
    fn state(&self) -> State<ChatState>;

    /// Admits a message and starts or joins the run. The same command id with the same input has one effect.
    #[scope(operate)]
    async fn prompt(&self, cx: &Context, request: PromptRequest) -> PromptReply;

    /// Records durably that the operation is to end, then ends it. False when it is not the one that runs.
    #[scope(operate)]
    async fn request_abort(
        &self,
        cx: &Context,
        operation_id: OperationId,
    ) -> Result<bool, ChatError>;

    /// Summarises the conversation so far for the model; the tree keeps everything.
    #[scope(operate)]
    async fn compact(&self, cx: &Context, instructions: Option<String>) -> PromptReply;

    /// Goes on with what waits or was left open; false when there is nothing. What runs looks once more when
    /// it is done.
    #[scope(operate)]
    async fn resume(&self, cx: &Context) -> Result<bool, ChatError>;

    /// Ends what runs now, durably, and says which operation that was; none while idle. What waits stays
    /// until somebody resumes.
    #[scope(operate)]
    async fn interrupt(&self, cx: &Context) -> Result<Option<OperationId>, ChatError>;

    /// Changes the text of a message that was not delivered yet; its pictures stay. False when it is too
    /// late.
    #[scope(operate)]
    async fn edit(&self, cx: &Context, id: EntryId, text: String) -> Result<bool, ChatError>;

    /// Lets a message that waits steer: it enters at the next step, and runs where nothing runs. False when
    /// it is too late.
    #[scope(operate)]
    async fn promote(&self, cx: &Context, id: EntryId) -> Result<bool, ChatError>;

    /// Takes back a message that was not delivered yet. False when it is too late.
    #[scope(operate)]
    async fn withdraw(&self, cx: &Context, id: EntryId) -> Result<bool, ChatError>;

    /// Waits until the operation has ended. Starts nothing.
    #[scope(read)]
    async fn wait(&self, cx: &Context, operation_id: OperationId) -> Result<Outcome, ChatError>;

    /// Waits until nothing runs and nothing follows. Starts nothing.
    #[scope(read)]
    async fn wait_idle(&self, cx: &Context) -> Result<(), ChatError>;

    /// What the model would be sent if it were asked now: system prompt, tools, conversation, options, as the
    /// session's plugins make them. Sends nothing, writes nothing, and holds no key and no header. What of the
    /// conversation it takes up, `session-directory` says without the session's process.
    #[scope(read)]
    async fn next_request(&self, cx: &Context) -> Result<NextRequest, ChatError>;
}

/// A message for the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptRequest {
    /// The sender's id for this command.
    pub command_id: CommandId,
    /// Parts in order; at least one that is not blank. A picture that is named as a blob must be in the session
    /// whole; its bytes become a part of the message when it is admitted.
    pub content: Vec<PromptPart>,
    /// When it enters a conversation that is running.
    #[serde(default)]
    pub delivery: Delivery,
    /// Whether a run starts for it where none goes on. Otherwise it only waits: for the next run, or for
    /// [`Chat::resume`].
    #[serde(default = "yes")]
    pub resume: bool,
}

fn yes() -> bool {
    true
}

/// Whether a command was admitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptReply {
    /// True when it is on disk.
    pub accepted: bool,
    /// The operation that takes it, where accepted.
    pub operation_id: Option<OperationId>,
    /// The id that the message has, or will have once it is delivered; none for a compaction. What
    /// [`withdraw`](Chat::withdraw) takes.
    #[serde(default)]
    pub message_id: Option<EntryId>,
    /// Why not, where refused: what was wrong and what to do.
    pub error: Option<String>,
}

/// What runs and what waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatState {
    /// What the session does now.
    pub activity: Activity,
    /// Admitted messages that were not delivered yet, oldest first.
    pub queue: Vec<QueuedMessage>,
    /// How the last operation ended.
    pub last: Option<Outcome>,
    /// The engine of the session and what it can do.
    #[serde(default)]
    pub engine: Engine,
}

/// The engine of a session and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// `steer`, `navigate`, `fork`, `compact`, `hooks`, `durable-requests`, `revert`, `show-request`: those that it
    /// has.
    pub capabilities: Vec<String>,
}

/// What a session does now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle,
    /// An operation runs.
    Running {
        /// Which.
        operation_id: OperationId,
        /// Since when, RFC 3339.
        since: String,
        /// What it is at.
        phase: Phase,
        /// Whether an abort was requested.
        cancelling: bool,
    },
}

/// What a running operation is at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Phase {
    /// Preparing the request.
    Starting,
    /// The request is sent; nothing came yet.
    WaitingForModel,
    /// The model reasons.
    Thinking,
    /// The model answers.
    Answering,
    /// Tools run.
    Tools {
        /// Their names, in order.
        names: Vec<String>,
    },
    /// A request failed and is tried again.
    Retrying {
        /// Which try comes next, from 2.
        attempt: u32,
        /// When, RFC 3339.
        at: String,
        /// What went wrong.
        reason: String,
    },
    /// The conversation is being summarised.
    Compacting,
    /// The conversation moves to another place in its tree; what is left may be summarised first.
    Navigating,
}

/// An admitted message that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedMessage {
    /// The id that its entry will have.
    pub id: EntryId,
    /// Its text.
    pub text: String,
    /// When it will enter.
    pub delivery: Delivery,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Which.
    pub operation_id: OperationId,
    /// How.
    pub status: OutcomeStatus,
    /// What went wrong, for `failed`.
    pub error: Option<Failure>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// It did all it had to.
    Done,
    /// It could not go on.
    Failed,
    /// Somebody aborted it.
    Interrupted,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// What was attempted and what the person can do.
    pub message: String,
}

/// Kinds of failed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No model is configured, or it does not exist.
    NoModel,
    /// No key, or a wrong one.
    Authentication,
    /// The provider refused, or failed after all retries.
    Provider,
    /// It was not let begin: by a plugin that the message names, for a reason that a person can do something about. It
    /// stays open, and resuming it asks again.
    Refused,
    /// Bezel itself failed; the log has more.
    Internal,
}

/// Why a chat command failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ChatError {
    /// The session never had this operation, or no longer remembers it.
    #[error("operation {operation_id} is not known in this session")]
    UnknownOperation {
        /// Which.
        operation_id: OperationId,
    },
    /// It cannot be done as things are, or the message not be changed so.
    #[error("{message}")]
    Refused {
        /// What is wrong and what to do.
        message: String,
    },
    /// The engine of this session cannot do it.
    #[error("{message}")]
    Unsupported {
        /// Which engine, and what it lacks.
        message: String,
    },
    /// The session's database could not be read or written.
    #[error("the session could not be read or written: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
