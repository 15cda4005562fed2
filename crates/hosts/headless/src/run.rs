//! One prompt, from the choice of its session to its end.

mod admission;
mod following;
mod permissions;

use std::collections::HashSet;
use std::io;

use bezel_blobs_contract::Picture;
use bezel_chat_contract::{ChatState, FailureKind, Outcome, OutcomeStatus, PromptPart};
use bezel_context::{Cancelled, Context, span};
use bezel_rpc::{CallError, ErrorCode, Link, State};
use bezel_session_types::{CommandId, EntryId, InvocationId, ModelRef, OperationId, SessionId};
use bezel_sessions_contract::LaunchEnvironment;
use bezel_transcript_contract::TranscriptClient;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::events::{EndStatus, RunEvent};
use crate::follow::Follower;
use crate::print::Printer;
use crate::select::Choice;

/// How often a run goes on after its session's worker or the server died.
const MOST_REVIVALS: u32 = 5;

/// What to run.
#[derive(Debug, Clone)]
pub struct HeadlessOptions {
    /// The prompt; not blank.
    pub prompt: String,
    /// Pictures that go with it, in order.
    pub pictures: Vec<Picture>,
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
    /// Whether nobody else can reach the session, so that a call that needs a person's permission never gets it.
    pub unreachable: bool,
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
    let (cx, span) = span!(
        cx,
        "ui.prompt",
        exit_status = tracing::field::Empty,
        "error.type" = tracing::field::Empty,
    );
    let mut run = Run {
        cx: &cx,
        link,
        options,
        printer,
        session: None,
        unused: false,
        new: SessionId::generate(),
        activity: None,
        content: Vec::new(),
        admitted: None,
        answer: None,
        asked: HashSet::new(),
        permissions_told: HashSet::new(),
    };
    let (status, error) = match run.play(interrupts).await {
        Ok(outcome) => Run::judged(outcome),
        Err(Stop::Output(error)) => {
            run.abort().await;
            return Err(error.into());
        }
        Err(Stop::Interrupted) => (EndStatus::Interrupted, None),
        Err(Stop::Usage(message)) => (EndStatus::Usage, Some(message)),
        Err(Stop::NoModel(message)) => (EndStatus::NoModel, Some(message)),
        Err(Stop::Failed(message) | Stop::Lost(message) | Stop::WorkerDied(message)) => {
            (EndStatus::Failed, Some(message))
        }
    };
    run.discard().await;
    span.record("exit_status", status.exit_status());
    if let EndStatus::Failed | EndStatus::Usage | EndStatus::NoModel = status {
        span.record("error.type", tracing::field::debug(status));
    }
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
    /// Whether the session was made for this run and nothing was said in it yet.
    unused: bool,
    /// The id of a session that is made for this run: the same at every try.
    new: SessionId,
    /// What the session does; held, so that it is followed.
    activity: Option<State<ChatState>>,
    /// The parts of the prompt, once its pictures are in the session.
    content: Vec<PromptPart>,
    admitted: Option<Admitted>,
    answer: Option<String>,
    /// The questions that were told.
    asked: HashSet<InvocationId>,
    /// The asks for permission that were told.
    permissions_told: HashSet<InvocationId>,
}

/// A prompt that the session has taken.
#[derive(Debug, Clone)]
struct Admitted {
    /// What answers it.
    operation: OperationId,
    /// The message, for taking it back while it waits.
    message: Option<EntryId>,
    /// Whether the operation is somebody else's turn, which the prompt joined.
    joined: bool,
}

/// Why a run stops before an outcome.
enum Stop {
    Output(io::Error),
    Interrupted,
    /// It was asked wrongly.
    Usage(String),
    NoModel(String),
    Failed(String),
    /// The server or the worker was lost meanwhile.
    Lost(String),
    /// The worker died before it was ready.
    WorkerDied(String),
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
            follower = self.opened() => follower?,
        };
        self.content = tokio::select! {
            biased;
            Some(()) = interrupts.recv() => return Err(Stop::Interrupted),
            content = self.uploaded() => content?,
        };
        self.unused = false;
        let mut presses = Presses {
            interrupts,
            interrupted: false,
        };
        let mut command = CommandId::generate();
        let mut admitted = self.admit(&command, None, &mut presses).await?;
        let transcript: TranscriptClient = self.link.attached().use_service();
        let mut revived = false;
        loop {
            let outcome = self
                .answered(
                    &admitted,
                    &transcript,
                    &mut follower,
                    &mut presses,
                    &mut revived,
                )
                .await?;
            if admitted.joined && !presses.interrupted {
                // Somebody else's turn has ended, and this prompt may not have been in it.
                if self.take_back(&admitted).await? {
                    command = CommandId::generate();
                }
                let ended = admitted.operation.clone();
                admitted = self.admit(&command, Some(&ended), &mut presses).await?;
                if admitted.operation != ended {
                    continue;
                }
            }
            self.settle(&admitted, &outcome, &transcript, &mut follower, revived)
                .await?;
            self.answer = follower.answer().map(str::to_owned);
            self.usage().await?;
            return Ok(outcome);
        }
    }

    /// Follows the operation to its outcome, over the deaths of its worker and of the server.
    async fn answered(
        &mut self,
        admitted: &Admitted,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        presses: &mut Presses<'_>,
        revived: &mut bool,
    ) -> Result<Outcome, Stop> {
        let mut revivals = 0;
        loop {
            match self.follow(admitted, transcript, follower, presses).await? {
                Stretch::Outcome(outcome) => return Ok(outcome),
                Stretch::Lost(reason) if revivals == MOST_REVIVALS => {
                    return Err(Stop::Failed(self.goes_on(&reason)));
                }
                Stretch::Lost(reason) => {
                    revivals += 1;
                    *revived = true;
                    self.printer.print(RunEvent::Warning {
                        message: format!("{reason}; taking the session up again"),
                        of_answer: false,
                    })?;
                    tokio::select! {
                        biased;
                        Some(()) = presses.interrupts.recv() => return Err(Stop::Interrupted),
                        revival = self.revive() => revival?,
                    }
                    if presses.interrupted {
                        // What asked for the end may have been lost as well.
                        self.interrupt(admitted).await?;
                    }
                }
            }
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
