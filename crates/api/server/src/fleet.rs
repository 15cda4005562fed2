//! The sessions that this server manages, and which client is attached to which.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::{Cancelled, ClientId, Context, Principal};
use bezel_plugin::FacetScope;
use bezel_session_types::{ModelRef, PermissionMode, SessionId, ThinkingLevel};

use crate::children::Children;
use crate::host::FleetBackend;
use crate::{Commit, CreateManaged, LaunchEnvironment, ManagedSession, SessionChange, Workspace};

/// The server's authority over sessions, as far as a facet has it.
#[derive(Clone)]
pub struct Fleet {
    /// The sessions.
    pub managed: ManagedSessions,
    /// Which client is attached to which.
    pub attachments: Attachments,
    /// Sessions that are parts of others.
    pub children: Children,
}

/// The sessions of this server. Copies of records come out of it, never the records or what stores them.
#[derive(Clone)]
pub struct ManagedSessions {
    pub(crate) backend: Arc<dyn FleetBackend>,
    scope: FacetScope,
}

/// Which client is attached to which session. The routing itself stays with the host.
#[derive(Clone)]
pub struct Attachments {
    backend: Arc<dyn FleetBackend>,
}

/// Why the fleet did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// No such session, or not one for this principal: the same answer for both.
    #[error("session {session_id} does not exist or is not yours")]
    NotAuthorized {
        /// Which.
        session_id: SessionId,
    },
    /// The directory cannot be worked in.
    #[error("cannot work in {directory}: {reason}")]
    Directory {
        /// As it was given.
        directory: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The worker did not start or did not end.
    #[error("the worker of session {session_id} {reason}")]
    Worker {
        /// Whose worker.
        session_id: SessionId,
        /// What happened, as the rest of the sentence, and what to do.
        reason: String,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Records or a session's database could not be read or written.
    #[error("{0}")]
    Storage(String),
    /// There is no such client, or it cannot be attached.
    #[error("client {client} cannot be attached: {reason}")]
    Client {
        /// Which.
        client: ClientId,
        /// Why.
        reason: String,
    },
    /// Whoever asked went away.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The server ends.
    #[error("the server is stopping; try again once it runs")]
    Stopping,
}

impl Fleet {
    pub(crate) fn new(backend: Arc<dyn FleetBackend>, scope: FacetScope) -> Self {
        Fleet {
            attachments: Attachments {
                backend: Arc::clone(&backend),
            },
            children: Children {
                backend: Arc::clone(&backend),
                scope: scope.clone(),
            },
            managed: ManagedSessions { backend, scope },
        }
    }
}

impl ManagedSessions {
    /// All sessions, the newest change first.
    pub fn snapshot(&self) -> Vec<ManagedSession> {
        self.backend.snapshot()
    }

    /// Whether a principal may reach a session; false for one that does not exist.
    pub fn is_reachable(&self, principal: &Principal, session_id: &SessionId) -> bool {
        self.backend.is_reachable(principal, session_id)
    }

    /// Whether a principal may reach this session. Unlike [`ManagedSessions::is_reachable`] it also
    /// judges one that was deleted, as the record of a change still shows it.
    pub fn reaches(&self, principal: &Principal, session: &ManagedSession) -> bool {
        self.backend.reaches(principal, session)
    }

    /// One session, where the principal of `cx` may reach it.
    pub fn authorized(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        self.backend.authorized(cx, session_id)
    }

    /// The session whose own worker makes this call; `None` for everybody else.
    pub fn of_worker(&self, cx: &Context) -> Option<ManagedSession> {
        self.of_client(&cx.principal()?.client)
    }

    /// The session whose own worker is connected as `client`; `None` for everybody else.
    pub fn of_client(&self, client: &ClientId) -> Option<ManagedSession> {
        self.backend.of_worker(client)
    }

    /// Calls `listener` for every change from now on, in order, until the facet ends. It must not wait.
    pub fn on_changed(&self, listener: impl Fn(&SessionChange, &Context) + Send + Sync + 'static) {
        let subscription = self.backend.on_changed(Arc::new(listener));
        self.scope.own(subscription);
    }

    /// Calls `listener` for each session of whose commits its worker tells, from now on until the facet ends. Several
    /// commits may be told of at once. It must not wait.
    pub fn on_committed(&self, listener: impl Fn(&SessionId) + Send + Sync + 'static) {
        let subscription = self.backend.on_committed(Arc::new(listener));
        self.scope.own(subscription);
    }

    /// The workspace that a directory lies in, if it is registered and within reach.
    pub async fn workspace(
        &self,
        cx: &Context,
        directory: &Path,
    ) -> Result<Option<Workspace>, FleetError> {
        self.backend.workspace(cx, directory.to_owned()).await
    }

    /// The workspace that a directory lies in, registered where it is new; it must be within reach.
    pub async fn register(&self, cx: &Context, directory: &Path) -> Result<Workspace, FleetError> {
        self.backend.register(cx, directory.to_owned()).await
    }

    /// The sessions of exactly this directory that the principal of `cx` may reach, the newest change
    /// first.
    pub async fn in_directory(
        &self,
        cx: &Context,
        directory: &Path,
    ) -> Result<Vec<ManagedSession>, FleetError> {
        self.backend.in_directory(cx, directory.to_owned()).await
    }

    /// Records a new session, registers its workspace where that is new, and launches its worker.
    /// Resolves once the launch has begun; [`ManagedSessions::start`] waits for the worker.
    pub async fn create(
        &self,
        cx: &Context,
        options: CreateManaged,
    ) -> Result<ManagedSession, FleetError> {
        self.backend.create(cx, options).await
    }

    /// Ends the worker, detaches its clients, deletes the session's files and its record.
    pub async fn remove(&self, cx: &Context, session_id: &SessionId) -> Result<(), FleetError> {
        self.backend.remove(cx, session_id.clone()).await
    }

    /// Gives the session another title.
    pub async fn rename(
        &self,
        cx: &Context,
        session_id: &SessionId,
        title: &str,
    ) -> Result<ManagedSession, FleetError> {
        self.backend
            .rename(cx, session_id.clone(), title.to_owned())
            .await
    }

    /// Puts the session and all that it began away, or takes them and what began it back: a child is never
    /// listed under a parent that is put away. One in which something runs is not put away.
    pub async fn archive(
        &self,
        cx: &Context,
        session_id: &SessionId,
        archived: bool,
    ) -> Result<ManagedSession, FleetError> {
        self.backend.archive(cx, session_id.clone(), archived).await
    }

    /// Records the agent that the session runs from now on; none for the configured one. Whether there is such
    /// an agent, its worker knows.
    pub async fn switch_agent(
        &self,
        cx: &Context,
        session_id: &SessionId,
        agent: Option<String>,
    ) -> Result<ManagedSession, FleetError> {
        self.backend
            .switch_agent(cx, session_id.clone(), agent)
            .await
    }

    /// Records the model and the thinking level that the session uses from now on. Whether there is such a
    /// model, its worker knows.
    pub async fn switch_model(
        &self,
        cx: &Context,
        session_id: &SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> Result<ManagedSession, FleetError> {
        self.backend
            .switch_model(cx, session_id.clone(), model, thinking_level)
            .await
    }

    /// Records what the agent may do unasked from now on.
    pub async fn switch_permission_mode(
        &self,
        cx: &Context,
        session_id: &SessionId,
        mode: PermissionMode,
    ) -> Result<ManagedSession, FleetError> {
        self.backend
            .switch_permission_mode(cx, session_id.clone(), mode)
            .await
    }

    /// Resolves once the session's worker is connected; launches it where it does not run. The
    /// environment serves a launch only, a worker that runs keeps its own.
    pub async fn start(
        &self,
        cx: &Context,
        session_id: &SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> Result<(), FleetError> {
        self.backend
            .start(cx, session_id.clone(), environment)
            .await
    }

    /// Asks the session's worker to end, and ends it after the policy's grace. Resolves once it is gone.
    pub async fn stop(&self, cx: &Context, session_id: &SessionId) -> Result<(), FleetError> {
        self.backend.stop(cx, session_id.clone()).await
    }

    /// A place for a session that the worker of `of` makes of its own: the id that it will have, and the
    /// absolute path of the database to write. What is not placed before that worker ends is cleared away.
    pub async fn begin_copy(
        &self,
        cx: &Context,
        of: &SessionId,
    ) -> Result<(SessionId, PathBuf), FleetError> {
        self.backend.begin_copy(cx, of.clone()).await
    }

    /// Makes a session of what was written at such a place, like the one that it was made of. Launches no
    /// worker.
    pub async fn place_copy(
        &self,
        cx: &Context,
        of: &SessionId,
        session_id: &SessionId,
        title: Option<String>,
    ) -> Result<ManagedSession, FleetError> {
        self.backend
            .place_copy(cx, of.clone(), session_id.clone(), title)
            .await
    }

    /// Clears such a place away.
    pub async fn abandon_copy(
        &self,
        cx: &Context,
        of: &SessionId,
        session_id: &SessionId,
    ) -> Result<(), FleetError> {
        self.backend
            .abandon_copy(cx, of.clone(), session_id.clone())
            .await
    }

    /// Takes a worker's report of a commit.
    pub async fn report_commit(
        &self,
        cx: &Context,
        session_id: &SessionId,
        commit: Commit,
    ) -> Result<(), FleetError> {
        self.backend
            .report_commit(cx, session_id.clone(), commit)
            .await
    }
}

impl Attachments {
    /// Selects a session for a client's connection. Its calls, subscriptions and references at the
    /// session before end; frames of that attachment are dropped from now on.
    pub async fn bind(
        &self,
        cx: &Context,
        client: &ClientId,
        session_id: &SessionId,
    ) -> Result<(), FleetError> {
        self.backend
            .bind(cx, client.clone(), session_id.clone())
            .await
    }

    /// Selects no session for a client's connection.
    pub async fn unbind(&self, cx: &Context, client: &ClientId) -> Result<(), FleetError> {
        self.backend.unbind(cx, client.clone()).await
    }
}
