//! What can go wrong between asking and answering.

use bezel_context::Cancelled;
use bezel_session_types::InvocationId;
use bezel_store::CommitError;

use super::ChannelId;

/// A channel whose schemas cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the requests `{channel}` cannot be opened: the schema of its {part} is not a JSON Schema ({reason})"
)]
pub struct ChannelError {
    /// Which channel.
    pub channel: ChannelId,
    /// `request` or `response`.
    pub part: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// A request that was not made, or whose answer was not waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It does not match the channel's schema.
    #[error(
        "the request of call {invocation_id} does not match the schema of `{channel}`: {found}"
    )]
    Invalid {
        /// Which call.
        invocation_id: InvocationId,
        /// Which channel.
        channel: ChannelId,
        /// Where and why.
        found: String,
    },
    /// The call is not one that runs, or it was interrupted.
    #[error("call {invocation_id} cannot ask: it settled, was interrupted, or never was")]
    NotCurrent {
        /// Which call.
        invocation_id: InvocationId,
    },
    /// The call runs and is not safe to replay.
    #[error(
        "call {invocation_id} cannot ask: its tool is not safe to replay, and an answer could not be given to it after a crash"
    )]
    NotReplaySafe {
        /// Which call.
        invocation_id: InvocationId,
    },
    /// The call has asked something else before.
    #[error(
        "call {invocation_id} asks something else in `{channel}` than before: one call asks one thing"
    )]
    OtherRequest {
        /// Which call.
        invocation_id: InvocationId,
        /// Which channel.
        channel: ChannelId,
    },
    /// Somebody waits already.
    #[error("call {invocation_id} waits for its answer already")]
    Waiting {
        /// Which call.
        invocation_id: InvocationId,
    },
    /// The caller stopped waiting. What was asked stays asked.
    #[error("the answer was not waited for: {0}")]
    Cancelled(Cancelled),
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The request could not be written.
    #[error("the request was not made: {0}")]
    Storage(#[from] CommitError),
}

/// An answer that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It does not match the channel's schema. Nothing was written.
    #[error("the answer to {invocation_id} does not match the schema of `{channel}`: {found}")]
    Invalid {
        /// What it answers.
        invocation_id: InvocationId,
        /// Which channel.
        channel: ChannelId,
        /// Where and why.
        found: String,
    },
    /// The caller stopped waiting.
    #[error(
        "nobody waited until the answer was written ({0}); it may be accepted: look whether the request still waits"
    )]
    Cancelled(Cancelled),
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The answer could not be written.
    #[error("the answer was not accepted: {0}")]
    Storage(#[from] CommitError),
}
