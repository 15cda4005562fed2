//! One prompt, from the choice of its session to its end.

use std::io;
use std::time::Duration;

use bezel_chat_contract::{Activity, ChatClient, FailureKind, Outcome, OutcomeStatus, Phase, PromptRequest};
use bezel_context::{Cancelled, Context};
use bezel_models_contract::{Configuration, ModelsClient};
use bezel_rpc::{AttachmentState, CallError, ErrorCode, Link, State};
use bezel_session_types::{CommandId, ModelRef, OperationId, SessionId, UserContent};
use bezel_sessions_contract::{LaunchEnvironment, SessionManagementClient};
use bezel_transcript_contract::{TranscriptClient, TranscriptState};
use bezel_usage_contract::UsageClient;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::events::{EndStatus, RunEvent};
use crate::follow::Follower;
use crate::print::Printer;
use crate::select::{Choice, choose};

/// How often a run goes on after its session's worker or the server died.
const MOST_REVIVALS: u32 = 5;
/// How long the last items may come after the outcome.
const SETTLE: Duration = Duration::from_secs(5);
/// The same after the session was taken up again.
const SETTLE_REVIVED: Duration = Duration::from_secs(1);
/// How many items are fetched at once where states skipped some.
const PAGE: u32 = 200;

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
    let mut run = Run { cx, link, options, printer, session: None, operation: None, answer: None };
    let (status, error) = match run.play(interrupts).await {
        Ok(outcome) => Run::judged(outcome),
        Err(Stop::Output(error)) => {
            run.abort().await;
            return Err(error.into());
        }
        Err(Stop::Interrupted) => (EndStatus::Interrupted, None),
        Err(Stop::NoModel(message)) => (EndStatus::NoModel, Some(message)),
        Err(Stop::Failed(message)) => (EndStatus::Failed, Some(message)),
    };
    let text = run.answer.take();
    let session_id = run.session.take();
    printer.print(RunEvent::End { status, exit_status: status.exit_status(), text, error: error.clone() })?;
    Ok(HeadlessOutcome { status, error, session_id })
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
        self.printer.print(RunEvent::Prompt { operation_id: operation.clone() })?;
        if interrupted {
            self.request_abort(&operation).await?;
        }
        let transcript: TranscriptClient = self.link.attached().use_service();
        let mut revivals = 0;
        let mut presses = Presses { interrupts, interrupted };
        loop {
            match self.follow(&operation, &transcript, &mut follower, &mut presses).await? {
                Stretch::Outcome(outcome) => {
                    self.settle(&operation, &transcript, &mut follower, revivals > 0).await?;
                    self.answer = follower.answer().map(str::to_owned);
                    self.usage().await?;
                    return Ok(outcome);
                }
                Stretch::Lost(reason) if revivals == MOST_REVIVALS => return Err(Stop::Failed(reason)),
                Stretch::Lost(reason) => {
                    revivals += 1;
                    self.printer.print(RunEvent::Warning { message: format!("{reason}; taking the session up again") })?;
                    tokio::select! {
                        biased;
                        Some(()) = presses.interrupts.recv() => return Err(Stop::Interrupted),
                        selected = self.select() => selected?,
                    }
                }
            }
        }
    }

    /// Chooses the session, selects it, and finds out whether it can answer.
    async fn prepare(&mut self) -> Result<Follower, Stop> {
        let chosen =
            choose(self.cx, self.link, &self.options.choice, &self.options.directory, &self.options.environment).await;
        let (session, created) = chosen.map_err(|error| Stop::Failed(error.to_string()))?;
        self.session = Some(session.clone());
        let models: ModelsClient = self.link.attached().use_service();
        let transcript: TranscriptClient = self.link.attached().use_service();
        let (models_state, transcript_state) = (models.state(), transcript.state());
        self.select().await?;
        if let (false, Some(model)) = (created, self.options.switch_model.clone()) {
            let selected = models.select(self.cx, model).await;
            selected.map_err(|error| Stop::NoModel(call_message(&error)))?;
        }
        let (models, baseline) = tokio::join!(models_state.ready(self.cx), transcript_state.ready(self.cx));
        let (models, baseline) = (models?, baseline?);
        let configuration: &Configuration = &models.configuration;
        self.printer.print(RunEvent::Session {
            session_id: session,
            created,
            model: configuration.model.as_ref().map(ToString::to_string),
            thinking: configuration.thinking_level,
        })?;
        let model = configuration.model.as_ref();
        if model.is_none_or(|model| self.options.stand_in.as_ref() == Some(&model.provider)) {
            return Err(Stop::NoModel(NO_MODEL.to_owned()));
        }
        Ok(Follower::new(&baseline, &self.options.prompt))
    }

    /// Sends the prompt, and whether Ctrl-C was pressed meanwhile: what is sent may be admitted already, so
    /// one press waits for the operation's id, in order to end it.
    async fn admit(&self, interrupts: &mut UnboundedReceiver<()>) -> Result<(OperationId, bool), Stop> {
        let mut interrupted = false;
        let prompt = self.prompt();
        tokio::pin!(prompt);
        loop {
            tokio::select! {
                biased;
                Some(()) = interrupts.recv() => {
                    if interrupted {
                        return Err(Stop::Interrupted);
                    }
                    interrupted = true;
                }
                operation = &mut prompt => return Ok((operation?, interrupted)),
            }
        }
    }

    /// Asks for the operation's end. A lost connection is seen by whoever follows.
    async fn request_abort(&mut self, operation: &OperationId) -> Result<(), Stop> {
        self.printer.note("interrupting; once more leaves at once")?;
        let chat: ChatClient = self.link.attached().use_service();
        match chat.request_abort(self.cx, operation.clone()).await {
            Err(CallError::Rpc(error)) if !is_loss(error.code) => Err(Stop::Failed(error.message)),
            _ => Ok(()),
        }
    }

    /// Selects the session for this connection and waits until its worker is there.
    async fn select(&self) -> Result<(), Stop> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        let management: SessionManagementClient = self.link.server().use_service();
        let environment = Some(self.options.environment.clone());
        let attached = management.attach(self.cx, session, environment).await;
        attached.map_err(|error| Stop::Failed(call_message(&error)))?;
        let attachment = self.link.attached().attachment();
        let state = attachment
            .wait_for(self.cx, |state| !matches!(state, AttachmentState::Attaching { .. }))
            .await?;
        match &*state {
            AttachmentState::Attached { .. } => Ok(()),
            other => Err(Stop::Failed(format!(
                "the session's worker is not there ({other:?}); `bezel server logs` may say why"
            ))),
        }
    }

    /// Admits the prompt. The command id makes it safe to ask again when the answer was lost.
    async fn prompt(&self) -> Result<OperationId, Stop> {
        let chat: ChatClient = self.link.attached().use_service();
        let request = PromptRequest {
            command_id: CommandId::generate(),
            content: vec![UserContent::Text { text: self.options.prompt.clone() }],
            delivery: Default::default(),
        };
        let mut tries = 0;
        loop {
            match chat.prompt(self.cx, request.clone()).await {
                Ok(reply) => match (reply.accepted, reply.operation_id) {
                    (true, Some(operation)) => return Ok(operation),
                    _ => {
                        let reason = reply.error.unwrap_or_else(|| "it gave no reason".to_owned());
                        return Err(Stop::Failed(format!("the session did not take the prompt: {reason}")));
                    }
                },
                Err(CallError::Rpc(error)) if is_loss(error.code) && tries < MOST_REVIVALS => {
                    tries += 1;
                    self.select().await?;
                }
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
    }

    /// Tells what is new until the operation ends or the connection to its worker is lost.
    async fn follow(
        &mut self,
        operation: &OperationId,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        presses: &mut Presses<'_>,
    ) -> Result<Stretch, Stop> {
        let chat: ChatClient = self.link.attached().use_service();
        let mut items = transcript.state().watch();
        let mut activity = chat.state().watch();
        let mut retry = 0;
        let wait = chat.wait(self.cx, operation.clone());
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                Some(()) = presses.interrupts.recv() => {
                    if presses.interrupted {
                        return Err(Stop::Interrupted);
                    }
                    presses.interrupted = true;
                    self.request_abort(operation).await?;
                }
                state = items.changed() => self.tell(transcript, follower, &state).await?,
                state = activity.changed() => {
                    if let Activity::Running { phase: Phase::Retrying { attempt, at, reason }, .. } = &state.activity
                        && *attempt != retry
                    {
                        retry = *attempt;
                        let (at, reason) = (at.clone(), reason.clone());
                        self.printer.print(RunEvent::Retry { attempt: retry, at, reason })?;
                    }
                }
                ended = &mut wait => return match ended {
                    Ok(outcome) => Ok(Stretch::Outcome(outcome)),
                    Err(CallError::Rpc(error)) if is_loss(error.code) => Ok(Stretch::Lost(error.message)),
                    Err(error) => Err(Stop::Failed(call_message(&error))),
                },
                reason = self.cx.cancelled() => return Err(reason.into()),
            }
        }
    }

    /// Tells what a state adds; fetches items that states skipped.
    async fn tell(
        &mut self,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        state: &TranscriptState,
    ) -> Result<(), Stop> {
        let mut older = Vec::new();
        let mut has_older = state.has_older;
        loop {
            let oldest = older.first().or(state.items.first());
            let Some(oldest) = oldest.map(|item: &bezel_transcript_contract::Item| item.id.clone()) else { break };
            if !follower.misses(older.iter().chain(&state.items), has_older) {
                break;
            }
            match transcript.page(self.cx, oldest, PAGE).await {
                Ok(page) => {
                    has_older = page.has_older && !page.items.is_empty();
                    older.splice(0..0, page.items);
                }
                // The next state finds the gap again.
                Err(CallError::Rpc(error)) if is_loss(error.code) => return Ok(()),
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
        for event in follower.tell(older.iter().chain(&state.items)) {
            self.printer.print(event)?;
        }
        Ok(())
    }

    /// Waits for the items that the outcome overtook: the transcript says when it has all of an operation.
    /// A worker that took a session up again after the operation had ended shows all from the start and
    /// says nothing.
    async fn settle(
        &mut self,
        operation: &OperationId,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        revived: bool,
    ) -> Result<(), Stop> {
        let state: State<TranscriptState> = transcript.state();
        let cx = self.cx.with_timeout(if revived { SETTLE_REVIVED } else { SETTLE });
        let mut items = state.watch();
        loop {
            match cx.run(items.changed()).await {
                Ok(now) => {
                    self.tell(transcript, follower, &now).await?;
                    if now.settled.as_ref() == Some(operation) {
                        return Ok(());
                    }
                }
                Err(_) if revived && follower.is_settled() && !state.is_stale() => return Ok(()),
                Err(_) => {
                    let message = "some of the run's last events did not arrive; `bezel session show` has them".to_owned();
                    return Ok(self.printer.print(RunEvent::Warning { message })?);
                }
            }
        }
    }

    /// Tells what the session has used; where no plugin counts it, nothing.
    async fn usage(&mut self) -> Result<(), Stop> {
        let Some(usage) = self.link.attached().try_use::<UsageClient>() else { return Ok(()) };
        let Ok(used) = usage.state().ready(&self.cx.with_timeout(SETTLE)).await else { return Ok(()) };
        self.printer.print(RunEvent::Usage {
            input: used.total.input,
            output: used.total.output,
            cache_read: used.total.cache_read,
            cache_write: used.total.cache_write,
            reasoning: used.total.reasoning,
            cost: used.cost,
            context_tokens: used.context_tokens,
            context_window: used.context_window,
            requests: used.requests,
        })?;
        Ok(())
    }

    /// Ends the operation, where it began, and waits a moment for the acknowledgement.
    async fn abort(&self) {
        let Some(operation) = self.operation.clone() else { return };
        let chat: ChatClient = self.link.attached().use_service();
        let cx = self.cx.with_timeout(Duration::from_secs(2));
        if let Err(error) = chat.request_abort(&cx, operation).await {
            tracing::warn!(%error, "the operation of a run without a reader could not be ended");
        }
    }
}

/// What to do where nothing is configured.
const NO_MODEL: &str = "no model is configured: set a provider's key (for example ANTHROPIC_API_KEY or OPENAI_API_KEY) \
     and `model = \"provider::model\"` in config.toml, or try `bezel tour`, which needs neither";

fn is_loss(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Disconnected | ErrorCode::SessionUnavailable | ErrorCode::NotAttached)
}

fn call_message<E: std::fmt::Display>(error: &CallError<E>) -> String {
    match error {
        CallError::Service(error) => error.to_string(),
        CallError::Rpc(error) => error.message.clone(),
    }
}
