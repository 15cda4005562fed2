//! From the choice of a session to an admitted prompt, and back to a session that was lost.

use std::time::Duration;

use bezel_chat_contract::{ChatClient, PromptRequest};
use bezel_models_contract::{Configuration, ModelsClient};
use bezel_rpc::{AttachmentState, CallError, ConnectionState};
use bezel_session_types::{CommandId, OperationId, UserContent};
use bezel_sessions_contract::SessionManagementClient;
use bezel_transcript_contract::TranscriptClient;
use tokio::sync::mpsc::UnboundedReceiver;

use super::{MOST_REVIVALS, Run, Stop, call_message, is_loss};
use crate::events::RunEvent;
use crate::follow::Follower;
use crate::select::choose;

/// How long a lost server or worker may take to come back.
const REVIVAL: Duration = Duration::from_secs(60);

/// What to do where nothing is configured.
const NO_MODEL: &str = "no model is configured: set a provider's key (for example ANTHROPIC_API_KEY or OPENAI_API_KEY) \
     and `model = \"provider::model\"` in config.toml, or try `bezel tour`, which needs neither";

impl Run<'_, '_> {
    /// Chooses the session, selects it, and finds out whether it can answer.
    pub(super) async fn prepare(&mut self) -> Result<Follower, Stop> {
        let chosen = choose(
            self.cx,
            self.link,
            &self.options.choice,
            &self.options.directory,
            &self.options.environment,
        )
        .await;
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
        let (models, baseline) =
            tokio::join!(models_state.ready(self.cx), transcript_state.ready(self.cx));
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
    pub(super) async fn admit(
        &self,
        interrupts: &mut UnboundedReceiver<()>,
    ) -> Result<(OperationId, bool), Stop> {
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
    pub(super) async fn request_abort(&mut self, operation: &OperationId) -> Result<(), Stop> {
        self.printer
            .note("interrupting; once more leaves at once")?;
        let chat: ChatClient = self.link.attached().use_service();
        match chat.request_abort(self.cx, operation.clone()).await {
            Err(CallError::Rpc(error)) if !is_loss(error.code) => Err(Stop::Failed(error.message)),
            _ => Ok(()),
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
            .map_err(|error| match error {
                CallError::Rpc(error) if is_loss(error.code) => Stop::Lost(error.message),
                error => Stop::Failed(call_message(&error)),
            })?;
        let attachment = self.link.attached().attachment();
        let state = attachment
            .wait_for(self.cx, |state| {
                !matches!(state, AttachmentState::Attaching { .. })
            })
            .await?;
        match &*state {
            AttachmentState::Attached { .. } => Ok(()),
            other => Err(Stop::Failed(format!(
                "the session's worker is not there ({other:?}); `bezel server logs` may say why"
            ))),
        }
    }

    /// Selects the session again after the server or its worker was lost.
    pub(super) async fn revive(&self) -> Result<(), Stop> {
        let cx = self.cx.with_timeout(REVIVAL);
        loop {
            let settled = self.link.settled(&cx).await;
            let state = settled.unwrap_or_else(|_| self.link.connection().get());
            if let ConnectionState::Disconnected { reason, .. } = &*state {
                return Err(Stop::Failed(format!("the server is lost: {reason}")));
            }
            match self.select().await {
                // Lost once more, or not seen to be lost yet.
                Err(Stop::Lost(reason)) if cx.is_cancelled() => return Err(Stop::Failed(reason)),
                Err(Stop::Lost(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                selected => return selected,
            }
        }
    }

    /// Admits the prompt. The command id makes it safe to ask again when the answer was lost.
    pub(super) async fn prompt(&self) -> Result<OperationId, Stop> {
        let chat: ChatClient = self.link.attached().use_service();
        let request = PromptRequest {
            command_id: CommandId::generate(),
            content: vec![UserContent::Text {
                text: self.options.prompt.clone(),
            }],
            delivery: Default::default(),
        };
        let mut tries = 0;
        loop {
            match chat.prompt(self.cx, request.clone()).await {
                Ok(reply) => match (reply.accepted, reply.operation_id) {
                    (true, Some(operation)) => return Ok(operation),
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
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
    }
}
