//! From the choice of a session to an admitted prompt, and back to a session that was lost.

use std::sync::Arc;
use std::time::Duration;

use bezel_blobs_contract::{BlobsClient, TransferError};
use bezel_chat_contract::{Activity, ChatClient, PromptPart, PromptRequest};
use bezel_context::Context;
use bezel_models_contract::{Configuration, ModelsClient};
use bezel_rpc::{AttachmentState, CallError, ConnectionState, State, StateValue};
use bezel_session_types::{CommandId, ModelRef, OperationId};
use bezel_sessions_contract::{
    RenewRequest, Renewal, SessionError, SessionManagementClient, SessionProcessClient,
    SessionSummary,
};
use bezel_transcript_contract::TranscriptClient;

use super::{Admitted, MOST_REVIVALS, Presses, Run, Stop, call_message, is_loss};
use crate::events::RunEvent;
use crate::follow::Follower;
use crate::select::{Choice, SelectError, choose};

/// How long a lost server or worker may take to come back.
const REVIVAL: Duration = Duration::from_secs(60);

/// How long a session may take to be opened, however often the server or its worker is lost meanwhile.
const OPENING: Duration = Duration::from_secs(45);

/// How long a worker that said that it ends may take to be gone.
const ENDING: Duration = Duration::from_secs(10);

/// How long an unused session is tried to be removed.
const REMOVAL: Duration = Duration::from_secs(5);

/// How often a worker that dies before it is ready is started again.
const MOST_STARTS: u32 = 2;

/// Pause after a loss: the link may not have seen it yet.
const PAUSE: Duration = Duration::from_millis(20);

/// What to do where nothing is configured.
const NO_MODEL: &str = "no model is configured: export a provider's key, for example ANTHROPIC_API_KEY or OPENAI_API_KEY \
     (its first model serves then; `bezel models` lists them), or set `model = \"PROVIDER::MODEL\"` in config.toml; \
     `bezel tour` needs neither";

impl Run<'_, '_> {
    /// Opens the session. What is lost on the way is begun anew: nothing was sent yet.
    pub(super) async fn opened(&mut self) -> Result<Follower, Stop> {
        let cx = self.cx.with_timeout(OPENING);
        let mut deaths = 0;
        loop {
            let opened = match cx.run(self.prepare()).await {
                Ok(opened) => opened,
                Err(_) => Err(Stop::Lost(format!(
                    "the session could not be opened within {} seconds",
                    OPENING.as_secs()
                ))),
            };
            match opened {
                Err(Stop::Lost(reason)) if cx.is_cancelled() => {
                    return Err(Stop::Failed(format!(
                        "{reason}; nothing was sent: run it again, `bezel server logs` may say what is wrong"
                    )));
                }
                Err(Stop::Lost(reason)) => tracing::debug!(reason, "the session is opened again"),
                Err(Stop::WorkerDied(_)) if deaths < MOST_STARTS => deaths += 1,
                opened => return opened,
            }
            self.connected(&cx).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for a connection; one that cannot come is said.
    async fn connected(&self, cx: &Context) -> Result<(), Stop> {
        let settled = self.link.settled(cx).await;
        let state = settled.unwrap_or_else(|_| self.link.connection().get());
        match &*state {
            ConnectionState::Disconnected {
                reason,
                retry_at: None,
                ..
            } => Err(Stop::Failed(format!("the server is lost: {reason}"))),
            _ => Ok(()),
        }
    }

    /// The first value of a state of the session; lost where the attachment is lost before it comes.
    async fn first<T: StateValue>(&self, state: &State<T>) -> Result<Arc<T>, Stop> {
        let attachment = self.link.attached().attachment();
        let gone = |state: &AttachmentState| !state.is_attached();
        tokio::select! {
            biased;
            value = state.ready(self.cx) => Ok(value?),
            _ = attachment.wait_for(self.cx, gone) => {
                Err(Stop::Lost("the session's worker was lost before it showed the session".into()))
            }
        }
    }

    /// Chooses the session, selects it, and finds out whether it can answer. A session that was made for
    /// this run and cannot is removed again.
    async fn prepare(&mut self) -> Result<Follower, Stop> {
        if let Choice::New { .. } = self.options.choice {
            // Made or not: an answer may be lost.
            self.session = Some(self.new.clone());
            self.unused = true;
        }
        let chosen = choose(
            self.cx,
            self.link,
            &self.options.choice,
            &self.options.directory,
            &self.options.environment,
            &self.new,
        )
        .await;
        let (session, created) = chosen.map_err(|error| match error {
            SelectError::Call(error) => session_stop(error),
            _ => Stop::Usage(error.to_string()),
        })?;
        self.session = Some(session.session_id.clone());
        self.unused = created;
        let models: ModelsClient = self.link.attached().use_service();
        let transcript: TranscriptClient = self.link.attached().use_service();
        // Asked for before the session is selected, where no other worker can answer meanwhile.
        let early = created.then(|| (models.state(), transcript.state()));
        self.select().await?;
        if !created {
            self.renew().await?;
            if let Some(model) = self.options.switch_model.clone() {
                let selected = models.select(self.cx, model).await;
                selected.map_err(model_stop)?;
            }
        }
        let states = early.unwrap_or_else(|| (models.state(), transcript.state()));
        let activity = self.link.attached().use_service::<ChatClient>().state();
        let shown = async {
            match created {
                true => Ok(None),
                // What runs there already is somebody else's.
                false => self.first(&activity).await.map(Some),
            }
        };
        let (state, baseline, _) =
            tokio::try_join!(self.first(&states.0), self.first(&states.1), shown)?;
        self.activity = Some(activity.clone());
        let configuration: &Configuration = &state.configuration;
        let Some(model) = self.answering(configuration.model.as_ref(), &session) else {
            return Err(Stop::NoModel(NO_MODEL.to_owned()));
        };
        let available = &state.catalog.available_models;
        if !available.iter().any(|spec| spec.model == *model) {
            let usable = models.check(self.cx, model.clone()).await;
            usable.map_err(model_stop)?;
        }
        self.printer.print(RunEvent::Session {
            session_id: session.session_id,
            created,
            model: Some(model.to_string()),
            thinking: configuration.thinking_level,
        })?;
        Ok(Follower::new(&baseline, &self.options.prompt))
    }

    /// The session's model, unless it only stands in for a missing one. Who chose it by name meant it.
    fn answering<'m>(
        &self,
        model: Option<&'m ModelRef>,
        session: &SessionSummary,
    ) -> Option<&'m ModelRef> {
        let model = model?;
        let stands_in = self.options.stand_in.as_ref() == Some(&model.provider);
        (!stands_in || session.model.as_ref() == Some(model)).then_some(model)
    }

    /// Lets a worker that another shell or another configuration started give way to one of now.
    async fn renew(&self) -> Result<(), Stop> {
        let Some(process) = self.link.attached().try_use::<SessionProcessClient>() else {
            return Ok(());
        };
        let request = RenewRequest {
            environment: Some(self.options.environment.clone()),
            always: false,
        };
        match process.renew(self.cx, request).await {
            Ok(Renewal::Ending) => {
                let attachment = self.link.attached().attachment();
                let gone = |state: &AttachmentState| !state.is_attached();
                let ending = self.cx.with_timeout(ENDING);
                if let Err(error) = attachment.wait_for(&ending, gone).await {
                    tracing::warn!(%error, "a worker that said that it ends is still there");
                }
                self.revive().await
            }
            Ok(Renewal::Current) => Ok(()),
            Err(CallError::Rpc(error)) if is_loss(error.code) => self.revive().await,
            // What it has serves, or the run says what is wrong with it.
            Err(error) => {
                tracing::debug!(%error, "the session's worker stays as it is");
                Ok(())
            }
        }
    }

    /// Removes a session that was made for this run and in which nothing was said.
    pub(super) async fn discard(&mut self) {
        let Some(session) = self.session.take_if(|_| self.unused) else {
            return;
        };
        let management: SessionManagementClient = self.link.server().use_service();
        let cx = Context::background().with_timeout(REMOVAL);
        if let Err(error) = self.link.settled(&cx).await {
            tracing::debug!(%error, "there is no server to remove a session from");
        }
        if let Err(error) = management.remove(&cx, session).await {
            tracing::warn!(%error, "a session in which nothing was said stays");
        }
    }

    /// The parts of the prompt. Large pictures are in the session then; over a loss the upload goes on where it
    /// stopped.
    pub(super) async fn uploaded(&self) -> Result<Vec<PromptPart>, Stop> {
        let mut tries = 0;
        loop {
            let error = match self.parts().await {
                Ok(parts) => return Ok(parts),
                Err(error) => error,
            };
            match error.code() {
                Some(code) if is_loss(code) && tries < MOST_REVIVALS => {
                    tries += 1;
                    self.revive().await?;
                }
                Some(code) if is_loss(code) => {
                    return Err(Stop::Failed(self.goes_on(&error.to_string())));
                }
                _ => return Err(Stop::Failed(format!("a picture was not sent: {error}"))),
            }
        }
    }

    async fn parts(&self) -> Result<Vec<PromptPart>, TransferError> {
        let blobs: BlobsClient = self.link.attached().use_service();
        let text = self.options.prompt.clone();
        let mut parts = vec![PromptPart::Text { text }];
        for picture in &self.options.pictures {
            parts.push(picture.part(self.cx, &blobs, |_| ()).await?);
        }
        Ok(parts)
    }

    /// Sends the prompt, or asks what became of it where it was sent under this id before. What is sent may
    /// be admitted already, so one press of Ctrl-C waits for the operation's id, in order to end it.
    /// `ended` is the operation that the prompt was to be a part of.
    pub(super) async fn admit(
        &mut self,
        command: &CommandId,
        ended: Option<&OperationId>,
        presses: &mut Presses<'_>,
    ) -> Result<Admitted, Stop> {
        let before = presses.interrupted;
        let admitted = {
            let prompt = self.prompt(command);
            tokio::pin!(prompt);
            loop {
                tokio::select! {
                    biased;
                    Some(()) = presses.interrupts.recv() => {
                        if presses.interrupted {
                            return Err(Stop::Interrupted);
                        }
                        presses.interrupted = true;
                    }
                    admitted = &mut prompt => break admitted?,
                }
            }
        };
        // Known before anything is printed: whoever reads may have left, and then it has to be ended.
        self.admitted = Some(admitted.clone());
        if ended != Some(&admitted.operation) {
            self.printer.print(RunEvent::Prompt {
                operation_id: admitted.operation.clone(),
            })?;
        }
        if presses.interrupted && !before {
            self.interrupt(&admitted).await?;
        }
        Ok(admitted)
    }

    /// What runs in the session, as far as it is known here.
    fn running(&self) -> Option<OperationId> {
        match &self.activity.as_ref()?.get().activity {
            Activity::Running { operation_id, .. } => Some(operation_id.clone()),
            Activity::Idle => None,
        }
    }

    /// Ends what this run has asked for and nothing else: a prompt that waits is taken back, an own turn
    /// is ended, somebody else's goes on. A lost connection is seen by whoever follows.
    pub(super) async fn interrupt(&mut self, admitted: &Admitted) -> Result<(), Stop> {
        let waits = admitted.joined || self.running().as_ref() != Some(&admitted.operation);
        if waits && self.take_back(admitted).await? {
            return Err(Stop::Interrupted);
        }
        if admitted.joined {
            self.printer
                .note("the turn that the prompt joined is somebody else's and goes on")?;
            return Err(Stop::Interrupted);
        }
        self.printer
            .note("interrupting; once more leaves at once")?;
        let chat: ChatClient = self.link.attached().use_service();
        match chat
            .request_abort(self.cx, admitted.operation.clone())
            .await
        {
            Err(CallError::Rpc(error)) if !is_loss(error.code) => Err(Stop::Failed(error.message)),
            _ => Ok(()),
        }
    }

    /// Ends what this run has asked for where nobody reads any more, and waits a moment for that.
    pub(super) async fn abort(&self) {
        let Some(admitted) = &self.admitted else {
            return;
        };
        let chat: ChatClient = self.link.attached().use_service();
        let cx = self.cx.with_timeout(Duration::from_secs(2));
        let waits = admitted.joined || self.running().as_ref() != Some(&admitted.operation);
        let ended = match &admitted.message {
            Some(message) if waits => chat.withdraw(&cx, message.clone()).await,
            _ => Ok(false),
        };
        let ended = match ended {
            Ok(false) if !admitted.joined => {
                chat.request_abort(&cx, admitted.operation.clone()).await
            }
            ended => ended,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "the operation of a run without a reader could not be ended");
        }
    }

    /// Takes the prompt back. False where it has been delivered.
    pub(super) async fn take_back(&self, admitted: &Admitted) -> Result<bool, Stop> {
        let Some(message) = &admitted.message else {
            return Ok(false);
        };
        let chat: ChatClient = self.link.attached().use_service();
        let mut tries = 0;
        loop {
            match chat.withdraw(self.cx, message.clone()).await {
                Ok(taken) => return Ok(taken),
                Err(CallError::Rpc(error)) if is_loss(error.code) && tries < MOST_REVIVALS => {
                    tries += 1;
                    self.revive().await?;
                }
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
    }

    /// Selects the session for this connection and waits until its worker is there.
    pub(super) async fn select(&self) -> Result<(), Stop> {
        let Some(session) = self.session.clone() else {
            return Ok(());
        };
        let management: SessionManagementClient = self.link.server().use_service();
        let environment = Some(self.options.environment.clone());
        management
            .attach(self.cx, session, environment)
            .await
            .map_err(session_stop)?;
        let attachment = self.link.attached().attachment();
        let settled = |state: &AttachmentState| !matches!(state, AttachmentState::Attaching { .. });
        match attachment
            .wait_for(&self.cx.with_timeout(ENDING), settled)
            .await
        {
            Ok(state) if state.is_attached() => Ok(()),
            Ok(_) | Err(_) => Err(Stop::Lost(
                "the session's worker was lost while the session was opened".to_owned(),
            )),
        }
    }

    /// Selects the session again after the server or its worker was lost.
    pub(super) async fn revive(&self) -> Result<(), Stop> {
        let cx = self.cx.with_timeout(REVIVAL);
        let mut deaths = 0;
        loop {
            self.connected(&cx).await?;
            let selected = match cx.run(self.select()).await {
                Ok(selected) => selected,
                Err(_) => Err(Stop::Lost(format!(
                    "the session could not be taken up again within {} seconds",
                    REVIVAL.as_secs()
                ))),
            };
            match selected {
                // Lost once more, or not seen to be lost yet.
                Err(Stop::Lost(reason)) if cx.is_cancelled() => {
                    return Err(Stop::Failed(self.goes_on(&reason)));
                }
                Err(Stop::Lost(_)) => tokio::time::sleep(PAUSE).await,
                Err(Stop::WorkerDied(_)) if deaths < MOST_STARTS => deaths += 1,
                Err(Stop::WorkerDied(reason)) => return Err(Stop::Failed(self.goes_on(&reason))),
                selected => return selected,
            }
        }
    }

    /// A reason, and what to do where the session may go on without this run.
    pub(super) fn goes_on(&self, reason: &str) -> String {
        match (&self.session, self.unused) {
            (Some(session), false) => format!(
                "{reason}; what the session took is on disk: `bezel session show {session}` shows it, \
                 `bezel run --session {session}` goes on"
            ),
            _ => format!("{reason}; nothing was sent: run it again"),
        }
    }

    /// Admits the prompt. The command id makes it safe to ask again when the answer was lost.
    async fn prompt(&self, command: &CommandId) -> Result<Admitted, Stop> {
        let chat: ChatClient = self.link.attached().use_service();
        let request = PromptRequest {
            command_id: command.clone(),
            content: self.content.clone(),
            delivery: Default::default(),
            resume: true,
        };
        let running = self.running();
        let mut tries = 0;
        loop {
            match chat.prompt(self.cx, request.clone()).await {
                Ok(reply) => match (reply.accepted, reply.operation_id) {
                    (true, Some(operation)) => {
                        return Ok(Admitted {
                            joined: running.as_ref() == Some(&operation),
                            message: reply.message_id,
                            operation,
                        });
                    }
                    _ => {
                        let reason = reply
                            .error
                            .unwrap_or_else(|| "it gave no reason".to_owned());
                        return Err(Stop::Failed(format!(
                            "the session did not take the prompt: {reason}"
                        )));
                    }
                },
                Err(CallError::Rpc(error)) if is_loss(error.code) && tries < MOST_REVIVALS => {
                    tries += 1;
                    self.revive().await?;
                }
                Err(CallError::Rpc(error)) if is_loss(error.code) => {
                    return Err(Stop::Failed(self.goes_on(&error.message)));
                }
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
    }
}

fn session_stop(error: CallError<SessionError>) -> Stop {
    match error {
        CallError::Rpc(error) if is_loss(error.code) => Stop::Lost(error.message),
        CallError::Service(SessionError::Worker { .. }) => Stop::WorkerDied(call_message(&error)),
        error => Stop::Failed(call_message(&error)),
    }
}

fn model_stop(error: CallError<bezel_models_contract::SelectError>) -> Stop {
    match error {
        CallError::Rpc(error) if is_loss(error.code) => Stop::Lost(error.message),
        error => Stop::NoModel(call_message(&error)),
    }
}
