//! One prompt, from the choice of its session to its end.

mod admission;
mod following;

use std::io;
use std::time::Duration;

use bezel_chat_contract::{ChatClient, FailureKind, Outcome, OutcomeStatus};
use bezel_context::{Cancelled, Context};
use bezel_rpc::{CallError, ErrorCode, Link};
use bezel_session_types::{ModelRef, OperationId, SessionId};
use bezel_sessions_contract::LaunchEnvironment;
use bezel_transcript_contract::TranscriptClient;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::events::{EndStatus, RunEvent};
use crate::print::Printer;
use crate::select::Choice;

/// How often a run goes on after its session's worker or the server died.
const MOST_REVIVALS: u32 = 5;

/// What to run.
#[derive(Debug, Clone)]
pub struct HeadlessOptions {
    /// The prompt; not blank.
    pub prompt: String,
    /// In which session.
    pub choice: Choice,
    /// Absolute path of the directory to work in.
    pub directory: String,
    /// Variables of the shell that asks.
    pub environment: LaunchEnvironment,
    /// The model that an existing session is switched to first.
    pub switch_model: Option<ModelRef>,
    /// A provider that stands in where none is configured, and must not answer a prompt that is meant.
    pub stand_in: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadlessOutcome {
    /// How.
    pub status: EndStatus,
    /// What went wrong and what to do; it was told already.
    pub error: Option<String>,
    /// The session, where there was one.
    pub session_id: Option<SessionId>,
}

/// Why a run's end could not be told.
#[derive(Debug, thiserror::Error)]
pub enum HeadlessError {
    /// Nobody reads, or the output's disk is full. The operation was asked to end.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Runs one prompt and tells what happens. Each message on `interrupts` is one press of Ctrl-C: the first
/// ends the operation durably, the second leaves at once.
pub async fn run(
    cx: &Context,
    link: &Link,
    options: HeadlessOptions,
    interrupts: &mut UnboundedReceiver<()>,
    printer: &mut Printer<'_>,
) -> Result<HeadlessOutcome, HeadlessError> {
    let mut run = Run {
        cx,
        link,
        options,
        printer,
        session: None,
        operation: None,
        answer: None,
    };
    let (status, error) = match run.play(interrupts).await {
        Ok(outcome) => Run::judged(outcome),
        Err(Stop::Output(error)) => {
            run.abort().await;
            return Err(error.into());
        }
        Err(Stop::Interrupted) => (EndStatus::Interrupted, None),
        Err(Stop::NoModel(message)) => (EndStatus::NoModel, Some(message)),
        Err(Stop::Failed(message) | Stop::Lost(message)) => (EndStatus::Failed, Some(message)),
    };
    let text = run.answer.take();
    let session_id = run.session.take();
    printer.print(RunEvent::End {
        status,
        exit_status: status.exit_status(),
        text,
        error: error.clone(),
    })?;
    Ok(HeadlessOutcome {
        status,
        error,
        session_id,
    })
}

struct Run<'a, 'p> {
    cx: &'a Context,
    link: &'a Link,
    options: HeadlessOptions,
    printer: &'a mut Printer<'p>,
    session: Option<SessionId>,
    operation: Option<OperationId>,
    answer: Option<String>,
}

/// Why a run stops before an outcome.
enum Stop {
    Output(io::Error),
    Interrupted,
    NoModel(String),
    Failed(String),
    /// The server or the worker was lost meanwhile.
    Lost(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Output(error)
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Self {
        Stop::Interrupted
    }
}

/// Presses of Ctrl-C, and whether the first one was heard.
struct Presses<'i> {
    interrupts: &'i mut UnboundedReceiver<()>,
    interrupted: bool,
}

/// What ended a stretch of following.
enum Stretch {
    Outcome(Outcome),
    /// The session's worker or the server is gone.
    Lost(String),
}

impl Run<'_, '_> {
    fn judged(outcome: Outcome) -> (EndStatus, Option<String>) {
        let failure = outcome.error;
        let status = match outcome.status {
            OutcomeStatus::Done => EndStatus::Done,
            OutcomeStatus::Interrupted => EndStatus::Interrupted,
            OutcomeStatus::Failed => match failure.as_ref().map(|failure| failure.kind) {
                Some(FailureKind::NoModel | FailureKind::Authentication) => EndStatus::NoModel,
                _ => EndStatus::Failed,
            },
        };
        (status, failure.map(|failure| failure.message))
    }

    async fn play(&mut self, interrupts: &mut UnboundedReceiver<()>) -> Result<Outcome, Stop> {
        // Before the prompt is sent, an interrupt has nothing to end durably: it just leaves.
        let mut follower = tokio::select! {
            biased;
            Some(()) = interrupts.recv() => return Err(Stop::Interrupted),
            follower = self.prepare() => follower?,
        };
        let (operation, interrupted) = self.admit(interrupts).await?;
        self.operation = Some(operation.clone());
        self.printer.print(RunEvent::Prompt {
            operation_id: operation.clone(),
        })?;
        if interrupted {
            self.request_abort(&operation).await?;
        }
        let transcript: TranscriptClient = self.link.attached().use_service();
        let mut revivals = 0;
        let mut presses = Presses {
            interrupts,
            interrupted,
        };
        loop {
            match self
                .follow(&operation, &transcript, &mut follower, &mut presses)
                .await?
            {
                Stretch::Outcome(outcome) => {
                    self.settle(&operation, &transcript, &mut follower, revivals > 0)
                        .await?;
                    self.answer = follower.answer().map(str::to_owned);
                    self.usage().await?;
                    return Ok(outcome);
                }
                Stretch::Lost(reason) if revivals == MOST_REVIVALS => {
                    return Err(Stop::Failed(reason));
                }
                Stretch::Lost(reason) => {
                    revivals += 1;
                    self.printer.print(RunEvent::Warning {
                        message: format!("{reason}; taking the session up again"),
                    })?;
                    tokio::select! {
                        biased;
                        Some(()) = presses.interrupts.recv() => return Err(Stop::Interrupted),
                        revived = self.revive() => revived?,
                    }
                }
            }
        }
    }

    /// Ends the operation, where it began, and waits a moment for the acknowledgement.
    async fn abort(&self) {
        let Some(operation) = self.operation.clone() else {
            return;
        };
        let chat: ChatClient = self.link.attached().use_service();
        let cx = self.cx.with_timeout(Duration::from_secs(2));
        if let Err(error) = chat.request_abort(&cx, operation).await {
            tracing::warn!(%error, "the operation of a run without a reader could not be ended");
        }
    }
}

fn is_loss(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Disconnected | ErrorCode::SessionUnavailable | ErrorCode::NotAttached
    )
}

fn call_message<E: std::fmt::Display>(error: &CallError<E>) -> String {
    match error {
        CallError::Service(error) => error.to_string(),
        CallError::Rpc(error) => error.message.clone(),
    }
}
