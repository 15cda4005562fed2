//! Which session this presentation has open, and keeping it open over lost connections and workers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bezel_api_tui::{Input, Launch, LaunchSession, Toast, Ui};
use bezel_chat_contract::{Activity, ChatState};
use bezel_context::Context;
use bezel_rpc::{AttachmentState, CallError, ConnectionState, ErrorCode, State};
use bezel_session_types::{ModelRef, SessionId};
use bezel_sessions_contract::{
    Archived, CreateSession, DirectoryState, ForkError, ForkRequest, LaunchEnvironment,
    ListSessions, PartError, PermissionMode, RenewError, RenewRequest, Renewal,
    SessionDirectoryClient, SessionError, SessionForkClient, SessionManagementClient,
    SessionProcessClient, SessionSummary, by_part, list_all,
};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A worker that died is started again by itself so often within [`CALM`]; then the person decides.
const REVIVALS: usize = 3;
const CALM: Duration = Duration::from_secs(60);
/// How long a selected session may take to be there, before it is asked whether it is still the right one.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a worker that said that it ends may take to be gone.
const ENDING: Duration = Duration::from_secs(10);
/// How many archived sessions are shown.
const MOST_ARCHIVED: u32 = 500;
/// How long to wait before an attempt that failed is made again.
const RETRY: Duration = Duration::from_secs(1);

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// The model that new sessions begin with, instead of the configured one.
    pub model: Option<ModelRef>,
    /// The agent that new sessions run, instead of the configured one.
    pub agent: Option<String>,
    /// What the agent may do unasked in new sessions.
    pub permission_mode: PermissionMode,
}

/// Why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The server refused, or could not be asked.
    #[error(transparent)]
    Call(CallError<SessionError>),
    /// What this client is paired for is less.
    #[error(
        "this client may look at the list and open nothing: pair it again with a code of `bezel access pair`"
    )]
    LooksOnly,
    /// The session was not copied.
    #[error(transparent)]
    Fork(CallError<ForkError>),
    /// The worker stays, or could not be asked.
    #[error(transparent)]
    Renew(CallError<RenewError>),
    /// No id begins or ends so.
    #[error("there is no session {0}; /sessions shows what there is")]
    Unknown(String),
    /// Several ids begin or end so.
    #[error(
        "several sessions begin with {0}, or end so; write more of the id, or choose with /sessions"
    )]
    Ambiguous(String),
    /// The wait was given up.
    #[error("the wait for the list of sessions ended: {0}")]
    Cancelled(#[from] bezel_context::Cancelled),
}

impl From<CallError<SessionError>> for OpenError {
    fn from(error: CallError<SessionError>) -> Self {
        match error {
            CallError::Rpc(error) if error.code == ErrorCode::NotAuthorized => OpenError::LooksOnly,
            error => OpenError::Call(error),
        }
    }
}

impl OpenError {
    /// Whether the same attempt may succeed once there is a connection again.
    fn is_transient(&self) -> bool {
        matches!(self, OpenError::Call(CallError::Rpc(error)) if matches!(error.code, ErrorCode::Disconnected | ErrorCode::NotActive))
    }
}

/// What is open and how to open something else. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

struct Inner {
    pub_parts: Parts,
    // A plain mutex: held to look or to set, never across an await.
    open: Mutex<Open>,
    changed: Notify,
    /// One attempt at a time.
    turn: tokio::sync::Mutex<()>,
}

/// What the desk works with.
pub(crate) struct Parts {
    pub(crate) ui: Ui,
    pub(crate) directory: SessionDirectoryClient,
    pub(crate) sessions: State<DirectoryState>,
    pub(crate) management: SessionManagementClient,
    /// Copies the open session.
    pub(crate) fork: SessionForkClient,
    /// The open session's own word on its process.
    pub(crate) process: SessionProcessClient,
    pub(crate) chat: State<ChatState>,
    pub(crate) attachment: State<AttachmentState>,
    pub(crate) connection: State<ConnectionState>,
    pub(crate) launch: Arc<Launch>,
    pub(crate) config: SessionsConfig,
}

#[derive(Default)]
struct Open {
    /// The session that is to be attached.
    wanted: Option<SessionId>,
    /// Where a person last wanted a new session, where the presentation names no place.
    place: String,
    /// Sessions that were created from here and may have stayed empty.
    created: Vec<SessionId>,
    /// Whether the first session is still being opened.
    opening: bool,
    /// When the worker was started again by itself.
    revivals: Vec<Instant>,
    /// Whether the worker stays stopped until the person asks.
    given_up: bool,
}

impl Desk {
    pub(crate) fn new(parts: Parts) -> Self {
        let open = Open {
            opening: true,
            ..Open::default()
        };
        Desk(Arc::new(Inner {
            pub_parts: parts,
            open: Mutex::new(open),
            changed: Notify::new(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0.pub_parts
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that is open, or is being opened.
    pub(crate) fn current(&self) -> Option<SessionId> {
        self.lock().wanted.clone()
    }

    /// The same as the directory tells of it.
    pub(crate) fn summary(&self) -> Option<SessionSummary> {
        let current = self.current()?;
        self.parts()
            .sessions
            .get()
            .sessions
            .iter()
            .find(|session| session.session_id == current)
            .cloned()
    }

    /// Whether the first session is still being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.lock().opening
    }

    /// Whether the worker stays stopped until the person asks.
    pub(crate) fn has_given_up(&self) -> bool {
        self.lock().given_up
    }

    fn environment(&self) -> LaunchEnvironment {
        LaunchEnvironment(self.parts().launch.environment.clone())
    }

    /// Selects a session, and starts its worker where it does not run or was started for another shell or
    /// with another configuration.
    pub(crate) async fn open(&self, cx: &Context, session: SessionId) -> Result<(), OpenError> {
        let _turn = self.0.turn.lock().await;
        self.attach(cx, session.clone()).await?;
        match self.renew(cx, session, false).await {
            // What it has serves, or its first answer says what is wrong with it.
            Err(OpenError::Renew(error)) => {
                tracing::debug!(%error, "the session's worker stays as it is");
                Ok(())
            }
            renewed => renewed,
        }
    }

    /// Lets the worker of the selected session give way to one that starts now.
    async fn renew(&self, cx: &Context, session: SessionId, always: bool) -> Result<(), OpenError> {
        let Parts {
            attachment,
            process,
            ..
        } = self.parts();
        let settling = cx.with_timeout(SETTLE);
        let settled = attachment.wait_for(&settling, AttachmentState::is_attached);
        if settled.await.is_err() {
            // The keeper takes care of a session that is not there.
            return Ok(());
        }
        let request = RenewRequest {
            environment: Some(self.environment()),
            always,
        };
        match process.renew(cx, request).await {
            Ok(Renewal::Current) => Ok(()),
            Ok(Renewal::Ending) => {
                let ending = cx.with_timeout(ENDING);
                let gone = |state: &AttachmentState| !state.is_attached();
                if let Err(error) = attachment.wait_for(&ending, gone).await {
                    tracing::warn!(%error, "a worker that said that it ends is still there");
                }
                self.attach(cx, session).await
            }
            Err(error) => Err(OpenError::Renew(error)),
        }
    }

    async fn attach(&self, cx: &Context, session: SessionId) -> Result<(), OpenError> {
        let before = {
            let mut open = self.lock();
            (open.given_up, open.opening) = (false, false);
            open.wanted.replace(session.clone())
        };
        self.parts().ui.redraw();
        let attached = self
            .parts()
            .management
            .attach(cx, session, Some(self.environment()))
            .await;
        if let Err(error) = attached {
            // What was open before stays open, unless the connection has gone: then the keeper goes on.
            let error = OpenError::from(error);
            if !error.is_transient() {
                self.lock().wanted = before;
            }
            return Err(error);
        }
        self.0.changed.notify_one();
        Ok(())
    }

    /// Creates a session where the presentation was started, and selects it. One that was started for another
    /// machine and names no place there asks the person, unless the server knows where its sessions are; who then
    /// names none gets no session.
    pub(crate) async fn create(&self, cx: &Context) -> Result<(), OpenError> {
        let Parts { launch, ui, .. } = self.parts();
        let mut directory = launch.directory.display().to_string();
        let unnamed = directory.is_empty();
        loop {
            let refused = match self.create_in(cx, &directory).await {
                Err(OpenError::Call(CallError::Service(
                    error @ SessionError::Directory { .. },
                ))) if unnamed => error,
                created => return created,
            };
            let prompt = match directory.is_empty() {
                true => "A directory of the server's machine, from the root on.".to_owned(),
                false => refused.to_string(),
            };
            let input = Input::new("Where does the new session work?")
                .prompt(prompt)
                .placeholder("/srv/project")
                .initial(self.lock().place.as_str())
                .check(|place| place.trim().is_empty().then(|| "name a directory".into()));
            let Some(place) = ui.input(cx, input).await else {
                return Ok(());
            };
            directory = place.trim().to_owned();
            self.lock().place.clone_from(&directory);
        }
    }

    async fn create_in(&self, cx: &Context, directory: &str) -> Result<(), OpenError> {
        let _turn = self.0.turn.lock().await;
        let Parts {
            config, management, ..
        } = self.parts();
        let options = CreateSession {
            directory: directory.to_owned(),
            environment: Some(self.environment()),
            model: config.model.clone(),
            agent: config.agent.clone(),
            permission_mode: config.permission_mode,
            ..CreateSession::default()
        };
        let session = management.create(cx, options).await?.session_id;
        self.lock().created.push(session.clone());
        self.attach(cx, session).await
    }

    /// Copies the open session and selects the copy.
    pub(crate) async fn fork(&self, cx: &Context, request: ForkRequest) -> Result<(), OpenError> {
        let _turn = self.0.turn.lock().await;
        let forked = self.parts().fork.fork(cx, request).await;
        let session = forked.map_err(OpenError::Fork)?.session_id;
        self.attach(cx, session).await
    }

    /// The sessions that people began and that were archived, the newest change first: as many as a page holds.
    pub(crate) async fn archived(
        &self,
        cx: &Context,
    ) -> Result<Vec<SessionSummary>, CallError<SessionError>> {
        let query = ListSessions {
            archived: Archived::Only,
            limit: Some(MOST_ARCHIVED),
            ..ListSessions::default()
        };
        Ok(self.parts().directory.list(cx, query).await?.sessions)
    }

    /// Deletes a session. The one that is open gives way to a new one.
    pub(crate) async fn delete(&self, cx: &Context, session: SessionId) -> Result<(), OpenError> {
        let current = self.current().as_ref() == Some(&session);
        if current {
            self.lock().wanted = None;
        }
        if let Err(error) = self.parts().management.remove(cx, session.clone()).await {
            if current {
                self.lock().wanted = Some(session);
            }
            return Err(error.into());
        }
        self.lock().created.retain(|created| *created != session);
        if current {
            self.create(cx).await
        } else {
            Ok(())
        }
    }

    /// Starts the worker of the open session again, whether it runs or not.
    pub(crate) async fn restart(&self, cx: &Context) -> Result<(), OpenError> {
        let Some(session) = self.current() else {
            return self.create(cx).await;
        };
        let _turn = self.0.turn.lock().await;
        if self.parts().attachment.get().is_attached() {
            self.renew(cx, session, true).await
        } else {
            self.attach(cx, session).await
        }
    }

    /// Opens what the person asked for at the start. `Ok(false)` when they are to choose.
    async fn open_first(&self, cx: &Context) -> Result<bool, OpenError> {
        let Parts {
            launch,
            directory,
            sessions,
            ..
        } = self.parts();
        match &launch.session {
            LaunchSession::New => self.create(cx).await?,
            LaunchSession::Last => match directory
                .newest_in(cx, launch.directory.display().to_string())
                .await?
            {
                Some(session) => self.open(cx, session.session_id).await?,
                None => {
                    self.parts()
                        .ui
                        .toast("there is no earlier session here; this is a new one");
                    self.create(cx).await?;
                }
            },
            LaunchSession::Id(part) => {
                let every = ListSessions {
                    archived: Archived::Include,
                    children: true,
                    ..ListSessions::default()
                };
                let known = list_all(cx, directory, every).await?;
                let found = by_part(&known, part).map_err(|error| match error {
                    PartError::Unknown => OpenError::Unknown(part.clone()),
                    PartError::Ambiguous(_) => OpenError::Ambiguous(part.clone()),
                })?;
                self.open(cx, found.session_id.clone()).await?;
            }
            LaunchSession::Pick => {
                sessions.ready(cx).await?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens the first session, then keeps it attached until `cx` ends. `choose` lets the person choose.
    pub(crate) async fn keep(&self, cx: &Context, choose: impl Fn()) {
        let (mut connection, mut attachment) = (
            self.parts().connection.watch(),
            self.parts().attachment.watch(),
        );
        loop {
            self.connected(cx).await;
            if self.current().is_some() {
                break;
            }
            match self.open_first(cx).await {
                Ok(true) => break,
                Ok(false) => {
                    choose();
                    break;
                }
                Err(error) if error.is_transient() && !cx.is_cancelled() => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => {
                    self.parts().ui.toast(Toast::error(error.to_string()));
                    if matches!(error, OpenError::Unknown(_) | OpenError::Ambiguous(_)) {
                        choose();
                    }
                    break;
                }
            }
        }
        self.lock().opening = false;
        self.parts().ui.redraw();
        while !cx.is_cancelled() {
            let again = self.hold(cx).await;
            tokio::select! {
                _ = connection.changed() => {}
                _ = attachment.changed() => {}
                () = self.0.changed.notified() => {}
                () = tokio::time::sleep(RETRY), if again => {}
            }
        }
    }

    async fn connected(&self, cx: &Context) {
        // An error means that the facet has ended.
        let connected = self
            .parts()
            .connection
            .wait_for(cx, ConnectionState::is_connected)
            .await;
        drop(connected);
    }

    /// Attaches the wanted session if it is not attached. True where that is to be tried again soon.
    async fn hold(&self, cx: &Context) -> bool {
        // Somebody opens another session: what is wanted is about to change.
        let Ok(_turn) = self.0.turn.try_lock() else {
            return true;
        };
        if !self.parts().connection.get().is_connected() {
            return false;
        }
        let Some(wanted) = self.current() else {
            return false;
        };
        match &*self.parts().attachment.get() {
            AttachmentState::Attached { .. } | AttachmentState::Attaching { .. } => return false,
            AttachmentState::Detached => {}
            AttachmentState::Degraded { .. } => {
                let mut open = self.lock();
                open.revivals.retain(|at| at.elapsed() < CALM);
                if open.revivals.len() >= REVIVALS || open.given_up {
                    let first = !std::mem::replace(&mut open.given_up, true);
                    drop(open);
                    if first {
                        self.parts().ui.redraw();
                    }
                    return false;
                }
                open.revivals.push(Instant::now());
            }
        }
        match self
            .parts()
            .management
            .attach(cx, wanted.clone(), Some(self.environment()))
            .await
        {
            Ok(()) => false,
            Err(CallError::Service(SessionError::NotAuthorized { .. })) => {
                let mut open = self.lock();
                if open.wanted.as_ref() == Some(&wanted) {
                    open.wanted = None;
                    drop(open);
                    self.parts().ui.toast(Toast::warning(
                        "the session was deleted; /new begins another, /sessions opens one",
                    ));
                }
                false
            }
            Err(error) => {
                tracing::debug!(%error, "the session could not be attached");
                true
            }
        }
    }

    /// Deletes the sessions that were created from here and in which nothing was said.
    pub(crate) async fn tidy(&self, cx: &Context) {
        let created = std::mem::take(&mut self.lock().created);
        let current = self.current();
        for session in created {
            if current.as_ref() == Some(&session) && !is_quiet(&self.parts().chat.get()) {
                continue;
            }
            let known = self.parts().sessions.get();
            let untitled = known
                .sessions
                .iter()
                .any(|known| known.session_id == session && known.title.is_empty());
            if !untitled {
                continue;
            }
            // The server has the last word on whether something was said.
            match self
                .parts()
                .directory
                .messages(cx, session.clone(), 1)
                .await
            {
                Ok(messages) if messages.is_empty() => {
                    if let Err(error) = self.parts().management.remove(cx, session).await {
                        tracing::debug!(%error, "an empty session stays");
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "an empty session may stay"),
            }
        }
    }
}

fn is_quiet(chat: &ChatState) -> bool {
    chat.activity == Activity::Idle && chat.queue.is_empty() && chat.last.is_none()
}
