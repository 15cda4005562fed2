//! Changing sessions, and selecting one for a connection.

use std::sync::Arc;

use bezel_api_server::{CreateManaged, Fleet, FleetError, LaunchEnvironment};
use bezel_context::Principal;
use bezel_rpc::Context;
use bezel_session_types::{ModelRef, SessionId, ThinkingLevel};
use bezel_sessions_contract as contract;
use bezel_sessions_contract::{CreateSession, SessionError, SessionManagement, SessionSummary};

use crate::words;

/// How often a worker is started anew that dies between its start and the selection.
const MOST_RESTARTS: u32 = 3;

pub(crate) struct Management {
    fleet: Fleet,
}

impl Management {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        Management {
            fleet: fleet.clone(),
        }
    }
}

fn principal(cx: &Context) -> Result<&Arc<Principal>, SessionError> {
    cx.principal().ok_or_else(|| SessionError::Invalid {
        message: "only a connection may ask for this: the call says for whom it acts through it"
            .into(),
    })
}

fn environment(environment: contract::LaunchEnvironment) -> LaunchEnvironment {
    LaunchEnvironment(environment.0)
}

impl SessionManagement for Management {
    async fn create(
        &self,
        cx: &Context,
        options: CreateSession,
    ) -> Result<SessionSummary, SessionError> {
        let options = CreateManaged {
            session_id: options.session_id,
            owner: principal(cx)?.owner.clone(),
            title: options.title,
            directory: options.directory.into(),
            parent_id: options.parent_id,
            agent: options.agent,
            model: options.model,
            permission_mode: Some(options.permission_mode),
            environment: options.environment.map(environment),
        };
        let session = self
            .fleet
            .managed
            .create(cx, options)
            .await
            .map_err(words::error)?;
        Ok(words::summary(&session))
    }

    async fn remove(&self, cx: &Context, session_id: SessionId) -> Result<(), SessionError> {
        let session = self
            .fleet
            .managed
            .authorized(cx, &session_id)
            .map_err(words::error)?;
        self.fleet
            .managed
            .remove(cx, &session.session_id)
            .await
            .map_err(words::error)
    }

    async fn rename(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> Result<SessionSummary, SessionError> {
        let session = self
            .fleet
            .managed
            .authorized(cx, &session_id)
            .map_err(words::error)?;
        let renamed = self
            .fleet
            .managed
            .rename(cx, &session.session_id, &title)
            .await;
        Ok(words::summary(&renamed.map_err(words::error)?))
    }

    async fn switch_agent(
        &self,
        cx: &Context,
        session_id: SessionId,
        agent: Option<String>,
    ) -> Result<SessionSummary, SessionError> {
        let managed = &self.fleet.managed;
        managed.authorized(cx, &session_id).map_err(words::error)?;
        let switched = managed.switch_agent(cx, &session_id, agent).await;
        Ok(words::summary(&switched.map_err(words::error)?))
    }

    async fn switch_model(
        &self,
        cx: &Context,
        session_id: SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<SessionSummary, SessionError> {
        let managed = &self.fleet.managed;
        managed.authorized(cx, &session_id).map_err(words::error)?;
        let switched = managed
            .switch_model(cx, &session_id, model, thinking_level)
            .await;
        Ok(words::summary(&switched.map_err(words::error)?))
    }

    async fn archive(
        &self,
        cx: &Context,
        session_id: SessionId,
        archived: bool,
    ) -> Result<SessionSummary, SessionError> {
        let managed = &self.fleet.managed;
        managed.authorized(cx, &session_id).map_err(words::error)?;
        let changed = managed.archive(cx, &session_id, archived).await;
        Ok(words::summary(&changed.map_err(words::error)?))
    }

    async fn attach(
        &self,
        cx: &Context,
        session_id: SessionId,
        launch_environment: Option<contract::LaunchEnvironment>,
    ) -> Result<(), SessionError> {
        let client = principal(cx)?.client.clone();
        let session = self
            .fleet
            .managed
            .authorized(cx, &session_id)
            .map_err(words::error)?;
        // The worker first: one that does not start leaves the connection where it was.
        let environment = launch_environment.map(environment);
        let Fleet {
            managed,
            attachments,
            ..
        } = &self.fleet;
        let mut tries = 0;
        loop {
            managed
                .start(cx, &session.session_id, environment.clone())
                .await
                .map_err(words::error)?;
            match attachments.bind(cx, &client, &session.session_id).await {
                // It died in between; the next start launches another one.
                Err(FleetError::Worker { .. }) if tries < MOST_RESTARTS => tries += 1,
                bound => break bound.map_err(words::error)?,
            }
        }
        if session.archived_at.is_some() {
            let taken_back = managed.archive(cx, &session.session_id, false).await;
            taken_back.map_err(words::error)?;
        }
        Ok(())
    }

    async fn detach(&self, cx: &Context) -> Result<(), SessionError> {
        let client = principal(cx)?.client.clone();
        self.fleet
            .attachments
            .unbind(cx, &client)
            .await
            .map_err(words::error)
    }
}
