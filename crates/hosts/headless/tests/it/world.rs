//! A server and a worker with fake services, in one process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};

use bezel_chat_contract::{
    Activity, Chat, ChatClient, ChatError, ChatState, Failure, FailureKind, Outcome, OutcomeStatus,
    PromptReply, PromptRequest,
};
use bezel_context::{ClientId, Context, Principal, Scopes, TaskScope, WorkspaceId, Workspaces};
use bezel_models_contract::{Configuration, Models, ModelsClient, ModelsState, SelectError};
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Connect, ConnectError, Credential,
    EventSource, Events, Frame, FrameSource, Hello, Limits, Link, PeerIdentity, Refusal, Role,
    Router, ServiceClient as _, ServiceTable, State, StateCell, Transport, TransportError,
};
use bezel_session_types::{
    Entry, EntryId, HistoryPage, HistoryRange, JournalPage, Message, ModelRef, ModelView,
    OperationId, SessionId, ThinkingLevel, ToolResultMessage,
};
use bezel_sessions_contract::{
    CreateSession, DirectoryEvent, DirectoryState, LaunchEnvironment, ListSessions,
    SessionDirectory, SessionDirectoryClient, SessionError, SessionManagement,
    SessionManagementClient, SessionPage, SessionStatus, SessionSummary, WorkspaceSummary,
};
use bezel_transcript_contract::{
    Item, Transcript, TranscriptClient, TranscriptContinuation, TranscriptError, TranscriptPage,
    TranscriptState,
};
use bezel_usage_contract::{Usage, UsageClient, UsageState};
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::sync::watch;

/// The one session of the world.
pub const SESSION: &str = "0190aa";

/// What a test sees and steers.
pub struct World {
    pub link: Link,
    pub session: Session,
    scope: Arc<TaskScope>,
    local: Arc<dyn Connect>,
    router: Router,
    worker: Mutex<Link>,
}

/// The session's own state. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    pub transcript: StateCell<TranscriptState>,
    pub chat: StateCell<ChatState>,
    pub models: StateCell<ModelsState>,
    pub prompts: Arc<Mutex<Vec<PromptRequest>>>,
    pub aborts: watch::Sender<Vec<OperationId>>,
    /// Items that pages are read from; the state shows the newest of them.
    pub history: Arc<Mutex<Vec<Item>>>,
    /// What the server reads of the session, after the prompt.
    pub entries: Arc<Mutex<Vec<Entry>>>,
    pub outcome: watch::Sender<Option<Outcome>>,
    pub created: Arc<Mutex<Vec<CreateSession>>>,
    pub removed: Arc<Mutex<Vec<SessionId>>>,
    /// The model that the session's record has.
    pub recorded: Arc<Mutex<Option<ModelRef>>>,
    /// What `prompt` answers instead of accepting.
    pub refuse: Arc<Mutex<Option<String>>>,
    /// What the next prompt becomes a part of.
    pub operation: Arc<Mutex<OperationId>>,
    /// Messages that were to be taken back, and whether they still wait.
    pub withdrawn: Arc<Mutex<Vec<EntryId>>>,
    pub waits: Arc<AtomicBool>,
    /// How many selections find no worker.
    pub astray: Arc<AtomicUsize>,
    script: Arc<Mutex<VecDeque<Script>>>,
    tasks: bezel_context::Spawner,
    ends_on_abort: Arc<AtomicBool>,
}

type Script = Box<dyn FnOnce(Session) -> BoxFuture<'static, ()> + Send>;

impl World {
    pub async fn new() -> Self {
        let scope = Arc::new(TaskScope::new());
        let session = Session {
            transcript: StateCell::new(TranscriptState::default()),
            chat: StateCell::new(ChatState::default()),
            models: StateCell::new(ModelsState {
                configuration: Configuration {
                    model: Some(model("m")),
                    thinking_level: ThinkingLevel::Low,
                },
                ..ModelsState::default()
            }),
            prompts: Arc::default(),
            aborts: watch::Sender::default(),
            history: Arc::default(),
            entries: Arc::default(),
            outcome: watch::Sender::new(None),
            created: Arc::default(),
            removed: Arc::default(),
            recorded: Arc::default(),
            refuse: Arc::default(),
            operation: Arc::new(Mutex::new(OperationId::new("op"))),
            withdrawn: Arc::default(),
            waits: Arc::default(),
            astray: Arc::default(),
            script: Arc::default(),
            tasks: scope.spawner(),
            ends_on_abort: Arc::new(AtomicBool::new(true)),
        };
        let router = Router::new();
        let table = ServiceTable::new();
        let server = FakeServer {
            session: session.clone(),
            router: router.clone(),
            events: EventSource::new(),
        };
        table
            .provide(SessionDirectoryClient::new(server.clone()).exposed())
            .unwrap();
        table
            .provide(SessionManagementClient::new(server).exposed())
            .unwrap();
        table.activate();
        let acceptor = Acceptor::new(table, Arc::new(Open), router.clone(), Limits::default());
        let local = acceptor.local(PeerIdentity::local());
        // The acceptor lives as long as the world's tasks.
        scope.spawn("acceptor", async move {
            let _acceptor = acceptor;
            std::future::pending::<()>().await;
        });
        let worker = start_worker(&scope, &local, &session);
        let link = Link::start(
            &scope.spawner(),
            Arc::clone(&local),
            hello(Role::Presentation),
            ServiceTable::new(),
        );
        link.settled(&Context::background()).await.unwrap();
        World {
            link,
            session,
            scope,
            local,
            router,
            worker: Mutex::new(worker),
        }
    }

    /// The connection to the server breaks; the link makes another one.
    pub fn drop_connection(&self) {
        let client = self.link.client_id().expect("the link is connected");
        self.router.disconnect_client(&client);
    }

    /// The worker's process gives way to one that is connected and hears nothing before it is told to: what attaches
    /// to it is shown nothing.
    pub async fn restart_worker_deaf(&self) -> Deaf {
        let old = self.worker.lock().unwrap().clone();
        old.stop().await;
        let deaf = Deaf::default();
        let dial: Arc<dyn Connect> = Arc::new(DeafDial {
            inner: Arc::clone(&self.local),
            deaf: deaf.clone(),
        });
        let link = start_worker(&self.scope, &dial, &self.session);
        *self.worker.lock().unwrap() = link.clone();
        link.settled(&Context::background()).await.unwrap();
        deaf
    }

    /// The worker's process dies and another one takes its place.
    pub async fn restart_worker(&self) {
        let old = self.worker.lock().unwrap().clone();
        old.stop().await;
        *self.worker.lock().unwrap() = start_worker(&self.scope, &self.local, &self.session);
    }
}

fn start_worker(scope: &TaskScope, local: &Arc<dyn Connect>, session: &Session) -> Link {
    let table = ServiceTable::new();
    table
        .provide(ChatClient::new(session.clone()).exposed())
        .unwrap();
    table
        .provide(TranscriptClient::new(session.clone()).exposed())
        .unwrap();
    table
        .provide(ModelsClient::new(session.clone()).exposed())
        .unwrap();
    table
        .provide(UsageClient::new(session.clone()).exposed())
        .unwrap();
    table.activate();
    Link::start(
        &scope.spawner(),
        Arc::clone(local),
        hello(Role::Worker),
        table,
    )
}

/// What a worker hears nothing by, after it is let in.
#[derive(Clone, Default)]
pub struct Deaf(Arc<(AtomicBool, AtomicWaker)>);

impl Deaf {
    /// It hears from now on, what was said before too.
    pub fn hear(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.0.1.wake();
    }
}

struct DeafDial {
    inner: Arc<dyn Connect>,
    deaf: Deaf,
}

impl Connect for DeafDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let transport = self.inner.connect(cx).await?;
            let incoming = Box::new(DeafSource {
                inner: transport.incoming,
                deaf: self.deaf.clone(),
                is_let_in: false,
            });
            Ok(Transport {
                incoming,
                ..transport
            })
        })
    }
}

struct DeafSource {
    inner: Box<dyn FrameSource>,
    deaf: Deaf,
    is_let_in: bool,
}

impl FrameSource for DeafSource {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        let (hears, waker) = &*self.deaf.0;
        waker.register(poller.waker());
        if self.is_let_in && !hears.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        let received = self.inner.poll_recv(poller);
        self.is_let_in |= received.is_ready();
        received
    }
}

fn hello(role: Role) -> Hello {
    Hello {
        role,
        product_version: "0".into(),
        credential: Credential::none(),
    }
}

pub fn model(id: &str) -> ModelRef {
    ModelRef {
        provider: "p".into(),
        model_id: id.into(),
    }
}

pub fn ended(status: OutcomeStatus, error: Option<(FailureKind, &str)>) -> Outcome {
    let error = error.map(|(kind, message)| Failure {
        kind,
        message: message.into(),
    });
    Outcome {
        operation_id: OperationId::new("op"),
        status,
        error,
    }
}

impl Session {
    /// What happens once the next prompt is admitted.
    pub fn script<F>(&self, script: impl FnOnce(Session) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.script
            .lock()
            .unwrap()
            .push_back(Box::new(move |session| Box::pin(script(session))));
    }

    /// Shows the newest `window` of `items`; pages have all of them.
    pub fn show(&self, items: &[Item], window: usize) {
        *self.history.lock().unwrap() = items.to_vec();
        let newest = items[items.len().saturating_sub(window)..].to_vec();
        let has_older = newest.len() < items.len();
        let settled = self.transcript.get().settled.clone();
        self.transcript.set(
            &Context::background(),
            TranscriptState {
                items: newest,
                has_older,
                settled,
            },
        );
    }

    /// Ends the operation, all of whose items are shown.
    pub fn end(&self, outcome: Outcome) {
        self.settle(&outcome.operation_id);
        self.end_early(outcome);
    }

    /// Ends the operation before its last items are shown.
    pub fn end_early(&self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }

    /// Says that all items of the operation are shown.
    pub fn settle(&self, operation: &OperationId) {
        self.transcript.update(&Context::background(), |state| {
            state.settled = Some(operation.clone())
        });
    }

    pub fn ignore_aborts(&self) {
        self.ends_on_abort.store(false, Ordering::Relaxed);
    }

    fn summary(&self) -> SessionSummary {
        SessionSummary {
            session_id: SessionId::new(SESSION),
            title: "t".into(),
            workspace_id: WorkspaceId::new("w"),
            workspace_name: "w".into(),
            status: SessionStatus::Idle,
            parent_id: None,
            agent: None,
            model: self.recorded.lock().unwrap().clone(),
            created_at: String::new(),
            updated_at: String::new(),
            archived_at: None,
        }
    }
}

impl Chat for Session {
    fn state(&self) -> State<ChatState> {
        self.chat.state()
    }

    async fn prompt(&self, cx: &Context, request: PromptRequest) -> PromptReply {
        if let Some(error) = self.refuse.lock().unwrap().clone() {
            return PromptReply {
                accepted: false,
                operation_id: None,
                message_id: None,
                error: Some(error),
            };
        }
        self.prompts.lock().unwrap().push(request);
        self.outcome.send_replace(None);
        let operation_id = self.operation.lock().unwrap().clone();
        let (operation, since) = (operation_id.clone(), String::new());
        self.chat.update(cx, |state| {
            let phase = bezel_chat_contract::Phase::WaitingForModel;
            state.activity = Activity::Running {
                operation_id: operation,
                since,
                phase,
                cancelling: false,
            };
        });
        if let Some(script) = self.script.lock().unwrap().pop_front() {
            drop(self.tasks.spawn("script", script(self.clone())));
        }
        PromptReply {
            accepted: true,
            operation_id: Some(operation_id),
            message_id: Some(EntryId::new("message")),
            error: None,
        }
    }

    async fn request_abort(
        &self,
        _cx: &Context,
        operation_id: OperationId,
    ) -> Result<bool, ChatError> {
        self.aborts.send_modify(|aborts| aborts.push(operation_id));
        if self.ends_on_abort.load(Ordering::Relaxed) {
            self.end(ended(OutcomeStatus::Interrupted, None));
        }
        Ok(true)
    }

    async fn compact(&self, _cx: &Context, _instructions: Option<String>) -> PromptReply {
        PromptReply {
            accepted: false,
            operation_id: None,
            message_id: None,
            error: Some("not here".into()),
        }
    }

    async fn resume(&self, _cx: &Context) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn interrupt(&self, _cx: &Context) -> Result<Option<OperationId>, ChatError> {
        Ok(None)
    }

    async fn edit(&self, _cx: &Context, _id: EntryId, _text: String) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn promote(&self, _cx: &Context, _id: EntryId) -> Result<bool, ChatError> {
        Ok(false)
    }

    async fn wait_idle(&self, _cx: &Context) -> Result<(), ChatError> {
        Ok(())
    }

    async fn next_request(
        &self,
        _cx: &Context,
    ) -> Result<bezel_session_types::NextRequest, ChatError> {
        unreachable!("nobody asks what the model would be sent")
    }

    async fn withdraw(&self, _cx: &Context, id: EntryId) -> Result<bool, ChatError> {
        self.withdrawn.lock().unwrap().push(id);
        Ok(self.waits.load(Ordering::Relaxed))
    }

    async fn wait(&self, _cx: &Context, operation_id: OperationId) -> Result<Outcome, ChatError> {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|outcome| outcome.clone());
        ended.ok_or(ChatError::UnknownOperation { operation_id })
    }
}

impl Transcript for Session {
    fn state(&self) -> State<TranscriptState> {
        self.transcript.state()
    }

    async fn page_after(
        &self,
        _cx: &Context,
        after: String,
        _limit: u32,
    ) -> Result<TranscriptContinuation, TranscriptError> {
        // What is played here is only paged back.
        Err(TranscriptError::UnknownItem { item: after })
    }

    async fn page(
        &self,
        _cx: &Context,
        before: String,
        limit: u32,
    ) -> Result<TranscriptPage, TranscriptError> {
        let history = self.history.lock().unwrap();
        let end = history
            .iter()
            .position(|item| item.id == before)
            .ok_or(TranscriptError::UnknownItem { item: before })?;
        let begin = end.saturating_sub(limit as usize);
        Ok(TranscriptPage {
            items: history[begin..end].to_vec(),
            has_older: begin > 0,
        })
    }

    async fn result(
        &self,
        _cx: &Context,
        item: String,
    ) -> Result<ToolResultMessage, TranscriptError> {
        Err(TranscriptError::UnknownItem { item })
    }
}

impl Models for Session {
    fn state(&self) -> State<ModelsState> {
        self.models.state()
    }

    async fn select(&self, cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        self.check(cx, model.clone()).await?;
        self.models
            .update(cx, |state| state.configuration.model = Some(model));
        Ok(())
    }

    async fn check(&self, _cx: &Context, model: ModelRef) -> Result<(), SelectError> {
        let suggestion = None;
        match model.model_id.as_str() {
            "unknown" => Err(SelectError::UnknownModel { model, suggestion }),
            "keyless" => {
                let reason = "`p` has no key; export P_KEY".into();
                Err(SelectError::Unavailable { model, reason })
            }
            _ => Ok(()),
        }
    }

    async fn cycle_thinking(&self, _cx: &Context) -> Result<ThinkingLevel, SelectError> {
        Ok(ThinkingLevel::Off)
    }

    async fn refresh(&self, _cx: &Context) {}
}

impl Usage for Session {
    fn state(&self) -> State<UsageState> {
        let total = bezel_session_types::Usage {
            input: 10,
            output: 5,
            ..Default::default()
        };
        State::constant(UsageState {
            total,
            cost: Some(0.5),
            context_tokens: 15,
            context_window: 100,
            requests: 1,
        })
    }
}

#[derive(Clone)]
struct FakeServer {
    session: Session,
    router: Router,
    events: EventSource<DirectoryEvent>,
}

impl SessionDirectory for FakeServer {
    fn state(&self) -> State<DirectoryState> {
        State::constant(DirectoryState {
            revision: 1,
            sessions: vec![self.session.summary()],
        })
    }

    fn events(&self) -> Events<DirectoryEvent> {
        self.events.events()
    }

    async fn messages(
        &self,
        _cx: &Context,
        _session: SessionId,
        _limit: u32,
    ) -> Result<Vec<Message>, SessionError> {
        Ok(Vec::new())
    }

    async fn get(
        &self,
        _cx: &Context,
        session_id: SessionId,
    ) -> Result<SessionSummary, SessionError> {
        let session = self.session.summary();
        match session.session_id == session_id {
            true => Ok(session),
            false => Err(SessionError::NotAuthorized { session_id }),
        }
    }

    async fn list(&self, _cx: &Context, _query: ListSessions) -> Result<SessionPage, SessionError> {
        Ok(SessionPage {
            sessions: vec![self.session.summary()],
            next: None,
        })
    }

    async fn message(
        &self,
        _cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> Result<Entry, SessionError> {
        Err(SessionError::UnknownEntry {
            session_id,
            entry_id,
        })
    }

    async fn context(
        &self,
        _cx: &Context,
        _session_id: SessionId,
    ) -> Result<ModelView, SessionError> {
        Ok(ModelView::default())
    }

    async fn history(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        range: HistoryRange,
        _limit: u32,
    ) -> Result<HistoryPage, SessionError> {
        let after = range.after.expect("a run reads on from its prompt");
        let entries = self.session.entries.lock().unwrap();
        // One at a time, so that pages are put together.
        let place = entries.iter().position(|entry| entry.id == after);
        let next = match (place, after.as_str()) {
            (Some(place), _) => place + 1,
            (None, "message") => 0,
            (None, _) => unreachable!("nobody knows this entry"),
        };
        Ok(HistoryPage {
            entries: entries.get(next).cloned().into_iter().collect(),
            more: next + 1 < entries.len(),
        })
    }

    async fn journal(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _after: u64,
        _limit: u32,
    ) -> Result<JournalPage, SessionError> {
        Ok(JournalPage::default())
    }

    async fn follow(
        &self,
        _cx: &Context,
        _session_id: SessionId,
        _after: Option<String>,
        _limit: u32,
    ) -> Result<bezel_sessions_contract::SessionNews, SessionError> {
        unreachable!("nobody follows a session")
    }

    async fn workspace(
        &self,
        _cx: &Context,
        _directory: String,
    ) -> Result<Option<WorkspaceSummary>, SessionError> {
        Ok(None)
    }

    async fn newest_in(
        &self,
        _cx: &Context,
        directory: String,
    ) -> Result<Option<SessionSummary>, SessionError> {
        Ok((directory == "/srv").then(|| self.session.summary()))
    }
}

impl SessionManagement for FakeServer {
    async fn create(
        &self,
        _cx: &Context,
        options: CreateSession,
    ) -> Result<SessionSummary, SessionError> {
        self.session.created.lock().unwrap().push(options);
        Ok(self.session.summary())
    }

    async fn remove(&self, _cx: &Context, session_id: SessionId) -> Result<(), SessionError> {
        self.session.removed.lock().unwrap().push(session_id);
        Ok(())
    }

    async fn rename(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _title: String,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn switch_agent(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _agent: Option<String>,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn switch_model(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _model: ModelRef,
        _thinking_level: ThinkingLevel,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn archive(
        &self,
        _cx: &Context,
        session_id: SessionId,
        _archived: bool,
    ) -> Result<SessionSummary, SessionError> {
        Err(SessionError::NotAuthorized { session_id })
    }

    async fn attach(
        &self,
        cx: &Context,
        session_id: SessionId,
        _environment: Option<LaunchEnvironment>,
    ) -> Result<(), SessionError> {
        let principal = cx.principal().expect("the acceptor names the caller");
        let lost = self
            .session
            .astray
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        let target = if lost { "nobody" } else { session_id.as_str() };
        let bound = self.router.bind(&principal.client, target);
        bound.map(drop).map_err(|error| SessionError::Worker {
            session_id,
            reason: error.to_string(),
        })
    }

    async fn detach(&self, _cx: &Context) -> Result<(), SessionError> {
        Ok(())
    }
}

/// Lets everybody in, as what they say they are.
struct Open;

impl Authenticate for Open {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let role = match hello.role {
            Role::Worker => AcceptedRole::Worker {
                target: SESSION.to_owned(),
            },
            _ => AcceptedRole::Presentation,
        };
        let principal = Principal {
            client: ClientId::new(""),
            owner: "me".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        let issued = None;
        Box::pin(async move {
            Ok(Authenticated {
                principal,
                role,
                issued,
            })
        })
    }
}
