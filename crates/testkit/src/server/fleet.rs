//! A fleet in memory: sessions that no process and no database stands behind.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_server::host::{
    ChangeListener, CommitListener, FleetBackend, FleetResult, Subscription,
};
use bezel_api_server::{
    ChildLaunch, ChildWish, Commit, CreateManaged, FleetError, LaunchEnvironment, ManagedSession,
    SessionChange, SessionStatus, Workspace,
};
use bezel_context::{ClientId, Context, Principal, WorkspaceId};
use bezel_session_types::{
    CheckSummary, Entry, ExportFormat, JournalFact, Message, ModelRef, PermissionMode, SessionId,
    ThinkingLevel,
};
use futures::FutureExt;

/// The sessions that facets under test see, and what they did to them.
#[derive(Default)]
pub struct FakeFleet(Mutex<Inner>, Mutex<FakeFiles>);

/// What is said of the sessions' files.
#[derive(Default)]
pub struct FakeFiles {
    /// Bytes of each session's database.
    pub sizes: BTreeMap<SessionId, u64>,
    /// What a check finds.
    pub checks: BTreeMap<SessionId, CheckSummary>,
    /// Sessions in which something waits for a worker.
    pub pending: Vec<SessionId>,
    /// What was packed, and into which file.
    pub exported: Vec<(SessionId, PathBuf, ExportFormat)>,
}

#[derive(Default)]
struct Inner {
    sessions: Vec<ManagedSession>,
    messages: BTreeMap<SessionId, Vec<Message>>,
    entries: BTreeMap<SessionId, Vec<Entry>>,
    facts: BTreeMap<SessionId, Vec<JournalFact>>,
    workers: BTreeMap<ClientId, SessionId>,
    bound: BTreeMap<ClientId, SessionId>,
    started: Vec<(SessionId, Option<LaunchEnvironment>)>,
    commits: Vec<(SessionId, Commit)>,
    copies: Vec<(SessionId, SessionId)>,
    failures: VecDeque<FleetError>,
    listeners: Vec<(u64, ChangeListener)>,
    commit_listeners: Vec<(u64, CommitListener)>,
    last: u64,
}

/// Ends a listener when it is dropped.
struct Listening {
    fleet: Arc<FakeFleet>,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let number = self.number;
        let mut inner = self.fleet.inner();
        inner.listeners.retain(|(own, _)| *own != number);
        inner.commit_listeners.retain(|(own, _)| *own != number);
    }
}

impl FakeFleet {
    /// What is said of the sessions' files, to look at and to change.
    pub fn files(&self) -> MutexGuard<'_, FakeFiles> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session of `owner` in `directory`, whose workspace is the directory itself. Listeners hear of it.
    pub fn add(&self, owner: &str, directory: &str) -> ManagedSession {
        let number = {
            let mut inner = self.inner();
            inner.last += 1;
            inner.last
        };
        let at = jiff::Timestamp::from_second(number.cast_signed()).expect("a small number");
        let session = ManagedSession {
            session_id: SessionId::new(format!("session-{number}")),
            title: String::new(),
            workspace_id: WorkspaceId::new(directory),
            workspace_name: directory.rsplit('/').next().unwrap_or_default().to_owned(),
            owner: owner.to_owned(),
            directory: directory.into(),
            parent_id: None,
            agent: None,
            model: None,
            thinking_level: None,
            permission_mode: Default::default(),
            status: SessionStatus::Closed,
            created_at: at,
            updated_at: at,
            archived_at: None,
        };
        self.inner().sessions.insert(0, session.clone());
        self.tell(&SessionChange::Created(session.clone()));
        session
    }

    /// Changes a session as its worker or its record would. Listeners hear of it.
    ///
    /// # Panics
    ///
    /// Where there is no such session.
    pub fn change(&self, id: &SessionId, edit: impl FnOnce(&mut ManagedSession)) -> ManagedSession {
        let session = self.edit(id, edit).expect("the session was added");
        self.tell(&SessionChange::Changed(session.clone()));
        session
    }

    /// What a session's database holds.
    pub fn set_messages(&self, id: &SessionId, messages: Vec<Message>) {
        self.inner().messages.insert(id.clone(), messages);
    }

    /// What a session's tree holds: one path, oldest first.
    pub fn set_entries(&self, id: &SessionId, entries: Vec<Entry>) {
        self.inner().entries.insert(id.clone(), entries);
    }

    /// What a session's journal holds, in order.
    pub fn set_journal(&self, id: &SessionId, facts: Vec<JournalFact>) {
        self.inner().facts.insert(id.clone(), facts);
    }

    pub(super) fn messages_of(&self, id: &SessionId) -> Vec<Message> {
        self.inner().messages.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn entries_of(&self, id: &SessionId) -> Vec<Entry> {
        self.inner().entries.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn journal_of(&self, id: &SessionId) -> Vec<JournalFact> {
        self.inner().facts.get(id).cloned().unwrap_or_default()
    }

    /// From now on calls of this client are those of the session's worker.
    pub fn set_worker(&self, client: &ClientId, id: &SessionId) {
        self.inner().workers.insert(client.clone(), id.clone());
    }

    /// The next operation that could fail does, with this error.
    pub fn fail_next(&self, error: FleetError) {
        self.inner().failures.push_back(error);
    }

    /// What a client is attached to.
    pub fn bound(&self, client: &ClientId) -> Option<SessionId> {
        self.inner().bound.get(client).cloned()
    }

    /// Whose workers were asked for, with what environment, in order.
    pub fn started(&self) -> Vec<(SessionId, Option<LaunchEnvironment>)> {
        self.inner().started.clone()
    }

    /// Commit reports, in order.
    pub fn commits(&self) -> Vec<(SessionId, Commit)> {
        self.inner().commits.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: &SessionChange) {
        let listeners: Vec<_> = self
            .inner()
            .listeners
            .iter()
            .map(|(_, own)| Arc::clone(own))
            .collect();
        for listener in listeners {
            listener(change, &Context::background());
        }
    }

    fn tell_commit(&self, id: &SessionId) {
        let listeners: Vec<_> = self
            .inner()
            .commit_listeners
            .iter()
            .map(|(_, own)| Arc::clone(own))
            .collect();
        for listener in listeners {
            listener(id);
        }
    }

    fn edit(
        &self,
        id: &SessionId,
        edit: impl FnOnce(&mut ManagedSession),
    ) -> Result<ManagedSession, FleetError> {
        let mut inner = self.inner();
        let session = inner
            .sessions
            .iter_mut()
            .find(|session| session.session_id == *id);
        let session = session.ok_or_else(|| FleetError::NotAuthorized {
            session_id: id.clone(),
        })?;
        edit(session);
        Ok(session.clone())
    }

    pub(super) fn may_fail(&self) -> Result<(), FleetError> {
        self.inner().failures.pop_front().map_or(Ok(()), Err)
    }
}

/// The fleet as the bindings see it.
pub(super) struct Backend(pub(super) Arc<FakeFleet>);

pub(super) fn now<T: Send + 'static>(outcome: Result<T, FleetError>) -> FleetResult<T> {
    std::future::ready(outcome).boxed()
}

fn reaches(principal: &Principal, session: &ManagedSession) -> bool {
    principal.owner == session.owner && principal.workspaces.reaches(&session.workspace_id)
}

impl Backend {
    fn take_copy(&self, of: &SessionId, session_id: &SessionId) -> bool {
        let mut inner = self.0.inner();
        let place = inner
            .copies
            .iter()
            .position(|(source, copy)| (source, copy) == (of, session_id));
        place.map(|place| inner.copies.remove(place)).is_some()
    }

    fn changed(
        &self,
        id: &SessionId,
        edit: impl FnOnce(&mut ManagedSession),
    ) -> FleetResult<ManagedSession> {
        let outcome = self.0.may_fail().and_then(|()| self.0.edit(id, edit));
        if let Ok(session) = &outcome {
            self.0.tell(&SessionChange::Changed(session.clone()));
        }
        now(outcome)
    }
}

impl FleetBackend for Backend {
    fn snapshot(&self) -> Vec<ManagedSession> {
        self.0.inner().sessions.clone()
    }

    fn is_reachable(&self, principal: &Principal, session_id: &SessionId) -> bool {
        let inner = self.0.inner();
        let mut found = inner
            .sessions
            .iter()
            .filter(|session| session.session_id == *session_id);
        found.any(|session| reaches(principal, session))
    }

    fn reaches(&self, principal: &Principal, session: &ManagedSession) -> bool {
        reaches(principal, session)
    }

    fn authorized(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError> {
        let reachable = |session: &&ManagedSession| {
            session.session_id == *session_id
                && cx
                    .principal()
                    .is_some_and(|principal| reaches(principal, session))
        };
        let inner = self.0.inner();
        let found = inner.sessions.iter().find(reachable).cloned();
        found.ok_or_else(|| FleetError::NotAuthorized {
            session_id: session_id.clone(),
        })
    }

    fn of_worker(&self, client: &ClientId) -> Option<ManagedSession> {
        let inner = self.0.inner();
        let id = inner.workers.get(client)?;
        inner
            .sessions
            .iter()
            .find(|session| session.session_id == *id)
            .cloned()
    }

    fn on_changed(&self, listener: ChangeListener) -> Subscription {
        let mut inner = self.0.inner();
        inner.last += 1;
        let number = inner.last;
        inner.listeners.push((number, listener));
        Box::new(Listening {
            fleet: Arc::clone(&self.0),
            number,
        })
    }

    fn on_committed(&self, listener: CommitListener) -> Subscription {
        let mut inner = self.0.inner();
        inner.last += 1;
        let number = inner.last;
        inner.commit_listeners.push((number, listener));
        Box::new(Listening {
            fleet: Arc::clone(&self.0),
            number,
        })
    }

    fn workspace(&self, _cx: &Context, directory: PathBuf) -> FleetResult<Option<Workspace>> {
        let inner = self.0.inner();
        let found = inner
            .sessions
            .iter()
            .find(|session| session.directory == directory);
        now(Ok(found.map(|session| Workspace {
            workspace_id: session.workspace_id.clone(),
            name: session.workspace_name.clone(),
        })))
    }

    fn register(&self, cx: &Context, directory: PathBuf) -> FleetResult<Workspace> {
        let shown = directory.display().to_string();
        let found = self.workspace(cx, directory);
        async move {
            found.await?.ok_or_else(|| FleetError::Directory {
                directory: shown,
                reason: "no session of this fake works there".into(),
            })
        }
        .boxed()
    }

    fn in_directory(&self, cx: &Context, directory: PathBuf) -> FleetResult<Vec<ManagedSession>> {
        let mut sessions = self.0.inner().sessions.clone();
        sessions.retain(|session| {
            session.directory == directory
                && cx
                    .principal()
                    .is_some_and(|principal| reaches(principal, session))
        });
        now(Ok(sessions))
    }

    fn create(&self, _cx: &Context, options: CreateManaged) -> FleetResult<ManagedSession> {
        if let Err(error) = self.0.may_fail() {
            return now(Err(error));
        }
        let session = self
            .0
            .add(&options.owner, &options.directory.to_string_lossy());
        now(self.0.edit(&session.session_id, |session| {
            session.title = options.title.unwrap_or_default();
            session.model = options.model;
            session.parent_id = options.parent_id;
            session.agent = options.agent;
            session.permission_mode = options.permission_mode.unwrap_or_default();
            session.status = SessionStatus::Starting;
        }))
    }

    fn remove(&self, _cx: &Context, session_id: SessionId) -> FleetResult<()> {
        let outcome = self
            .0
            .may_fail()
            .and_then(|()| self.0.edit(&session_id, |_| ()));
        if let Ok(session) = &outcome {
            self.0
                .inner()
                .sessions
                .retain(|other| other.session_id != session_id);
            self.0.tell(&SessionChange::Deleted(session.clone()));
        }
        now(outcome.map(drop))
    }

    fn rename(
        &self,
        _cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> FleetResult<ManagedSession> {
        self.changed(&session_id, |session| session.title = title)
    }

    fn archive(
        &self,
        _cx: &Context,
        session_id: SessionId,
        archived: bool,
    ) -> FleetResult<ManagedSession> {
        self.changed(&session_id, |session| {
            session.archived_at = archived.then_some(session.updated_at);
        })
    }

    fn switch_agent(
        &self,
        _cx: &Context,
        session_id: SessionId,
        agent: Option<String>,
    ) -> FleetResult<ManagedSession> {
        self.changed(&session_id, |session| session.agent = agent)
    }

    fn switch_model(
        &self,
        _cx: &Context,
        session_id: SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> FleetResult<ManagedSession> {
        self.changed(&session_id, |session| {
            session.model = Some(model);
            session.thinking_level = Some(thinking_level);
        })
    }

    fn switch_permission_mode(
        &self,
        _cx: &Context,
        session_id: SessionId,
        mode: PermissionMode,
    ) -> FleetResult<ManagedSession> {
        self.changed(&session_id, |session| session.permission_mode = mode)
    }

    fn start(
        &self,
        _cx: &Context,
        session_id: SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> FleetResult<()> {
        let outcome = self.0.may_fail();
        if outcome.is_ok() {
            self.0.inner().started.push((session_id, environment));
        }
        now(outcome)
    }

    fn stop(&self, _cx: &Context, session_id: SessionId) -> FleetResult<()> {
        self.changed(&session_id, |session| {
            session.status = SessionStatus::Closed
        })
        .map(|stopped| stopped.map(drop))
        .boxed()
    }

    fn begin_copy(&self, _cx: &Context, of: SessionId) -> FleetResult<(SessionId, PathBuf)> {
        let id = SessionId::generate();
        let begun = self.0.may_fail().map(|()| {
            self.0.inner().copies.push((of, id.clone()));
            (
                id.clone(),
                PathBuf::from(format!("/copies/{id}/session.db")),
            )
        });
        now(begun)
    }

    fn place_copy(
        &self,
        _cx: &Context,
        of: SessionId,
        session_id: SessionId,
        title: Option<String>,
    ) -> FleetResult<ManagedSession> {
        let known = self.take_copy(&of, &session_id);
        let source = self
            .0
            .inner()
            .sessions
            .iter()
            .find(|one| one.session_id == of)
            .cloned();
        let placed = match (known, source) {
            (true, Some(source)) => {
                let title = title.unwrap_or_else(|| format!("{} (fork)", source.title));
                let placed = ManagedSession {
                    session_id,
                    title,
                    parent_id: None,
                    archived_at: None,
                    ..source
                };
                self.0.inner().sessions.push(placed.clone());
                self.0.tell(&SessionChange::Created(placed.clone()));
                Ok(placed)
            }
            _ => Err(FleetError::NotAuthorized { session_id }),
        };
        now(placed)
    }

    fn abandon_copy(&self, _cx: &Context, of: SessionId, session_id: SessionId) -> FleetResult<()> {
        match self.take_copy(&of, &session_id) {
            true => now(Ok(())),
            false => now(Err(FleetError::NotAuthorized { session_id })),
        }
    }

    fn report_commit(
        &self,
        _cx: &Context,
        session_id: SessionId,
        commit: Commit,
    ) -> FleetResult<()> {
        let outcome = self.0.may_fail();
        if outcome.is_ok() {
            self.0.inner().commits.push((session_id.clone(), commit));
            self.0.tell_commit(&session_id);
        }
        now(outcome)
    }

    fn root_of(&self, principal: &Principal) -> Option<SessionId> {
        self.0.inner().workers.get(&principal.client).cloned()
    }

    fn create_child(
        &self,
        cx: &Context,
        _of: SessionId,
        options: CreateManaged,
    ) -> FleetResult<ManagedSession> {
        self.create(cx, options)
    }

    fn tree(&self, of: &SessionId) -> Vec<ManagedSession> {
        let inner = self.0.inner();
        let mut tree: Vec<ManagedSession> = Vec::new();
        for session in &inner.sessions {
            if session.session_id == *of || session.parent_id.as_ref() == Some(of) {
                tree.push(session.clone());
            }
        }
        tree.sort_by_key(|session| session.session_id != *of);
        tree
    }

    fn claim_child(
        &self,
        _cx: &Context,
        _of: SessionId,
        session_id: SessionId,
    ) -> FleetResult<ChildLaunch> {
        // No process stands behind these sessions, so none can host another.
        now(Err(FleetError::NotAuthorized { session_id }))
    }

    fn release_child(
        &self,
        _of: &SessionId,
        session_id: &SessionId,
        _orderly: bool,
        _description: &str,
    ) -> Result<(), FleetError> {
        Err(FleetError::NotAuthorized {
            session_id: session_id.clone(),
        })
    }

    fn hosted_children(&self, _of: &SessionId, _children: &[SessionId]) {}

    fn child_wishes(&self) -> Vec<ChildWish> {
        Vec::new()
    }

    fn on_child_wishes(&self, _listener: Arc<dyn Fn() + Send + Sync>) -> Subscription {
        Box::new(())
    }

    fn bind(&self, _cx: &Context, client: ClientId, session_id: SessionId) -> FleetResult<()> {
        let outcome = self.0.may_fail();
        if outcome.is_ok() {
            self.0.inner().bound.insert(client, session_id);
        }
        now(outcome)
    }

    fn unbind(&self, _cx: &Context, client: ClientId) -> FleetResult<()> {
        let outcome = self.0.may_fail();
        if outcome.is_ok() {
            self.0.inner().bound.remove(&client);
        }
        now(outcome)
    }
}
