//! Sessions that come, and what they have of those that they are parts of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_server::{CreateManaged, FleetError, LaunchEnvironment, ManagedSession};
use bezel_context::{Context, Principal, WorkspaceId};
use bezel_session_types::SessionId;

use super::HostFleet;
use crate::records::Recorded;

impl HostFleet {
    /// Records a session and launches its worker. One that was there already is returned as it is: somebody has
    /// been told of it, and no launch that fails takes it back.
    pub(super) async fn created(
        self,
        cx: Context,
        options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        let environment = local_environment(&cx, options.environment.clone());
        // Whoever asks for the same one meanwhile hears of it once it is certain that it stays.
        let turn = options
            .session_id
            .clone()
            .map(|asked| self.creating.turn(asked));
        let _turn = match &turn {
            Some(turn) => Some(turn.wait().await),
            None => None,
        };
        let Recorded { session, is_new } = self.recorded(&cx, options).await?;
        if !is_new {
            return Ok(session);
        }
        let launched = self
            .workers
            .launch(&Context::background(), &session, environment)
            .await;
        if let Err(error) = launched {
            // Nobody has been told of the session: it was not created.
            if let Err(left) = self.records.delete(&cx, &session.session_id).await {
                tracing::warn!(session = %session.session_id, error = %left, "a session that was not created remains on record");
            }
            return Err(error);
        }
        self.known(&session.session_id)
    }

    /// Records a child of a session in the tree of `of`, and launches nothing.
    pub(super) async fn child_begun(
        self,
        cx: Context,
        of: SessionId,
        options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        let parent = options.parent_id.clone().unwrap_or_else(|| of.clone());
        let parent = self.in_tree(&of, &parent)?;
        let options = CreateManaged {
            parent_id: Some(parent.session_id),
            owner: parent.owner,
            environment: None,
            ..options
        };
        Ok(self.recorded(&cx, options).await?.session)
    }

    /// Records a new session, or finds the one that was asked for before.
    async fn recorded(
        &self,
        cx: &Context,
        mut options: CreateManaged,
    ) -> Result<Recorded, FleetError> {
        if let Some(parent) = options.parent_id.clone() {
            self.inherit(cx, &parent, &mut options)?;
        }
        let shown = options.directory.display().to_string();
        let location = self
            .locate_for(cx.principal().map(AsRef::as_ref), options.directory.clone())
            .await?;
        let owner = options.owner.clone();
        if let Some(asked) = &options.session_id
            && let Some(session) = self.records.get(asked)
        {
            // Asked for again: what came of it the first time.
            let principal = cx.principal();
            let own = session.owner == owner
                && principal.is_none_or(|principal| self.within_reach(principal, asked).is_ok());
            return match own {
                true => Ok(Recorded {
                    session,
                    is_new: false,
                }),
                false => Err(FleetError::NotAuthorized {
                    session_id: asked.clone(),
                }),
            };
        }
        let may_use = |workspace: &WorkspaceId| match cx.principal() {
            Some(principal) => self.may_reach(principal, &owner, workspace, None),
            None => true,
        };
        let recorded = self.records.create(cx, options, location, may_use).await;
        // As it was given: what it leads to on this machine is not told.
        let recorded = recorded.map_err(|error| match error {
            FleetError::Directory { reason, .. } => FleetError::Directory {
                directory: shown,
                reason,
            },
            other => other,
        })?;
        let session = &recorded.session;
        if let Some(parent) = &session.parent_id
            && self.records.is_archived(parent)
        {
            // Nobody lists a child under a parent that is put away.
            self.records.unarchive(cx, &session.session_id).await?;
        }
        Ok(recorded)
    }

    /// What nobody said of a child is as it is of its parent.
    fn inherit(
        &self,
        cx: &Context,
        parent: &SessionId,
        options: &mut CreateManaged,
    ) -> Result<(), FleetError> {
        let parent = match cx.principal() {
            Some(principal) => self.within_reach(principal, parent)?,
            None => self.known(parent)?,
        };
        if parent.owner != options.owner {
            return Err(FleetError::NotAuthorized {
                session_id: parent.session_id,
            });
        }
        if options.directory.as_os_str().is_empty() {
            options.directory = parent.directory;
        }
        let within = parent.permission_mode;
        let asked = options.permission_mode.unwrap_or(within);
        options.permission_mode = Some(asked.min(within));
        options.agent = options.agent.take().or(parent.agent);
        options.model = options.model.take().or(parent.model);
        Ok(())
    }
}

/// Variables of the owner's own clients alone: those of another machine mean nothing here, or harm.
pub(super) fn local_environment(
    cx: &Context,
    environment: Option<LaunchEnvironment>,
) -> Option<LaunchEnvironment> {
    let paired = |principal: &Arc<Principal>| principal.credential.is_some();
    environment.filter(|_| !cx.principal().is_some_and(paired))
}

/// Sessions that are being created under ids that were asked for: each by one at a time.
#[derive(Clone, Default)]
pub(crate) struct Creating(
    // A plain mutex: held to look up or change, never across an await.
    Arc<Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>>,
);

/// A place in the line for one id.
struct Turn {
    creating: Creating,
    session_id: SessionId,
    line: Arc<tokio::sync::Mutex<()>>,
}

impl Creating {
    fn turn(&self, session_id: SessionId) -> Turn {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Arc::clone(lines.entry(session_id.clone()).or_default());
        Turn {
            creating: self.clone(),
            session_id,
            line,
        }
    }
}

impl Turn {
    async fn wait(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.line.lock().await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let lines = self.creating.0.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        // That of the map and this one: nobody else waits.
        if Arc::strong_count(&self.line) == 2 {
            lines.remove(&self.session_id);
        }
    }
}
