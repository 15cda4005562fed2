//! What a host implements behind the handles. Facets never see it: no handle gives its backend out.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_context::{ClientId, Context, Principal};
use bezel_plugin::{FacetScope, Registry};
use bezel_session_types::{
    CheckSummary, Entry, EntryId, ExportFormat, HistoryPage, HistoryRange, ImportSummary,
    JournalPage, Message, ModelRef, ModelView, PermissionMode, SessionId, SessionSize,
    ThinkingLevel,
};
use futures::future::BoxFuture;

use crate::control::{ServerCounts, WorkerProcess};
use crate::policy::{AuthenticationDraft, AuthorizationDraft, WorkerPolicyDraft};
use crate::{
    ChildLaunch, ChildWish, Commit, CreateManaged, Fleet, FleetError, HostStatus, ImportManaged,
    LaunchEnvironment, ManagedSession, ServerContext, SessionChange, Upkeep, Workspace,
};

/// Called for each change.
pub type ChangeListener = Arc<dyn Fn(&SessionChange, &Context) + Send + Sync>;
/// Called for each session that has committed.
pub type CommitListener = Arc<dyn Fn(&SessionId) + Send + Sync>;
/// Called for each change of the counts.
pub type CountsListener = Arc<dyn Fn(ServerCounts) + Send + Sync>;
/// Ends a subscription when it is dropped.
pub type Subscription = Box<dyn Send>;
/// The outcome of a fleet operation.
pub type FleetResult<T> = BoxFuture<'static, Result<T, FleetError>>;

/// Records, workers and attachments.
pub trait FleetBackend: ReadingBackend {
    /// All sessions, the newest change first.
    fn snapshot(&self) -> Vec<ManagedSession>;
    /// Whether a principal may reach a session.
    fn is_reachable(&self, principal: &Principal, session_id: &SessionId) -> bool;
    /// Whether a principal may reach this session, or might have, where it is deleted.
    fn reaches(&self, principal: &Principal, session: &ManagedSession) -> bool;
    /// One session, where the principal of `cx` may reach it.
    fn authorized(
        &self,
        cx: &Context,
        session_id: &SessionId,
    ) -> Result<ManagedSession, FleetError>;
    /// The session whose worker is connected so.
    fn of_worker(&self, client: &ClientId) -> Option<ManagedSession>;
    /// Subscribes to changes.
    fn on_changed(&self, listener: ChangeListener) -> Subscription;
    /// Subscribes to commits.
    fn on_committed(&self, listener: CommitListener) -> Subscription;
    /// The registered workspace of a directory.
    fn workspace(&self, cx: &Context, directory: PathBuf) -> FleetResult<Option<Workspace>>;
    /// The workspace of a directory, registered where it is new.
    fn register(&self, cx: &Context, directory: PathBuf) -> FleetResult<Workspace>;
    /// The reachable sessions of a directory.
    fn in_directory(&self, cx: &Context, directory: PathBuf) -> FleetResult<Vec<ManagedSession>>;
    /// Creates and launches.
    fn create(&self, cx: &Context, options: CreateManaged) -> FleetResult<ManagedSession>;
    /// Stops and deletes.
    fn remove(&self, cx: &Context, session_id: SessionId) -> FleetResult<()>;
    /// Changes the title.
    fn rename(
        &self,
        cx: &Context,
        session_id: SessionId,
        title: String,
    ) -> FleetResult<ManagedSession>;
    /// Puts away or takes back.
    fn archive(
        &self,
        cx: &Context,
        session_id: SessionId,
        archived: bool,
    ) -> FleetResult<ManagedSession>;
    /// Changes the agent.
    fn switch_agent(
        &self,
        cx: &Context,
        session_id: SessionId,
        agent: Option<String>,
    ) -> FleetResult<ManagedSession>;
    /// Changes the model.
    fn switch_model(
        &self,
        cx: &Context,
        session_id: SessionId,
        model: ModelRef,
        thinking_level: ThinkingLevel,
    ) -> FleetResult<ManagedSession>;
    /// Changes what the agent may do unasked.
    fn switch_permission_mode(
        &self,
        cx: &Context,
        session_id: SessionId,
        mode: PermissionMode,
    ) -> FleetResult<ManagedSession>;
    /// Starts the worker where it does not run.
    fn start(
        &self,
        cx: &Context,
        session_id: SessionId,
        environment: Option<LaunchEnvironment>,
    ) -> FleetResult<()>;
    /// Ends the worker.
    fn stop(&self, cx: &Context, session_id: SessionId) -> FleetResult<()>;
    /// A place for a session made of another.
    fn begin_copy(&self, cx: &Context, of: SessionId) -> FleetResult<(SessionId, PathBuf)>;
    /// Makes a session of what is there.
    fn place_copy(
        &self,
        cx: &Context,
        of: SessionId,
        session_id: SessionId,
        title: Option<String>,
    ) -> FleetResult<ManagedSession>;
    /// Clears it away.
    fn abandon_copy(&self, cx: &Context, of: SessionId, session_id: SessionId) -> FleetResult<()>;
    /// Takes a commit report.
    fn report_commit(&self, cx: &Context, session_id: SessionId, commit: Commit)
    -> FleetResult<()>;
    /// The root of the tree whose worker the principal is.
    fn root_of(&self, principal: &Principal) -> Option<SessionId>;
    /// Records a child.
    fn create_child(
        &self,
        cx: &Context,
        of: SessionId,
        options: CreateManaged,
    ) -> FleetResult<ManagedSession>;
    /// All sessions of a tree.
    fn tree(&self, of: &SessionId) -> Vec<ManagedSession>;
    /// Takes a child up.
    fn claim_child(
        &self,
        cx: &Context,
        of: SessionId,
        session_id: SessionId,
    ) -> FleetResult<ChildLaunch>;
    /// A child is hosted no more.
    fn release_child(
        &self,
        of: &SessionId,
        session_id: &SessionId,
        orderly: bool,
        description: &str,
    ) -> Result<(), FleetError>;
    /// Which of the claimed children are hosted.
    fn hosted_children(&self, of: &SessionId, children: &[SessionId]);
    /// What is wanted of all trees.
    fn child_wishes(&self) -> Vec<ChildWish>;
    /// Subscribes to what is wanted.
    fn on_child_wishes(&self, listener: Arc<dyn Fn() + Send + Sync>) -> Subscription;
    /// Attaches a client.
    fn bind(&self, cx: &Context, client: ClientId, session_id: SessionId) -> FleetResult<()>;
    /// Detaches a client.
    fn unbind(&self, cx: &Context, client: ClientId) -> FleetResult<()>;
}

/// Sessions' databases, read beside their workers.
pub trait ReadingBackend: Send + Sync + 'static {
    /// The newest messages.
    fn messages(
        &self,
        cx: &Context,
        session_id: SessionId,
        limit: usize,
    ) -> FleetResult<Vec<Message>>;
    /// One entry.
    fn entry(
        &self,
        cx: &Context,
        session_id: SessionId,
        entry_id: EntryId,
    ) -> FleetResult<Option<Entry>>;
    /// What the model would be given.
    fn model_view(&self, cx: &Context, session_id: SessionId) -> FleetResult<ModelView>;
    /// A stretch of the path.
    fn history(
        &self,
        cx: &Context,
        session_id: SessionId,
        range: HistoryRange,
        limit: usize,
    ) -> FleetResult<HistoryPage>;
    /// A stretch of the journal.
    fn journal(
        &self,
        cx: &Context,
        session_id: SessionId,
        after: u64,
        limit: usize,
    ) -> FleetResult<JournalPage>;
}

/// Sessions' files.
pub trait UpkeepBackend: Send + Sync + 'static {
    /// Takes one in.
    fn import(
        &self,
        cx: &Context,
        options: ImportManaged,
    ) -> FleetResult<(ManagedSession, ImportSummary)>;
    /// Packs one.
    fn export(
        &self,
        cx: &Context,
        session_id: SessionId,
        file: PathBuf,
        format: ExportFormat,
    ) -> FleetResult<()>;
    /// Checks one.
    fn check(&self, cx: &Context, session_id: SessionId) -> FleetResult<CheckSummary>;
    /// Folders without a record.
    fn strays(&self, cx: &Context) -> FleetResult<Vec<SessionId>>;
    /// Measures some.
    fn sizes(&self, cx: &Context, sessions: Vec<SessionId>) -> FleetResult<Vec<SessionSize>>;
    /// Whether something of one waits for a worker.
    fn is_pending(&self, cx: &Context, session_id: SessionId) -> FleetResult<bool>;
}

/// What the server is doing.
pub trait StatusBackend: Send + Sync + 'static {
    /// The product's version.
    fn version(&self) -> String;
    /// When the server started.
    fn started_at(&self) -> jiff::Timestamp;
    /// The time.
    fn now(&self) -> jiff::Timestamp;
    /// How many it serves.
    fn counts(&self) -> ServerCounts;
    /// Subscribes to the counts.
    fn on_changed(&self, listener: CountsListener) -> Subscription;
}

/// Ends the server.
pub trait ControlBackend: Send + Sync + 'static {
    /// Asks for the end.
    fn request_stop(&self);
}

/// The connected presentations.
pub trait ConnectionBackend: Send + Sync + 'static {
    /// For whom each acts.
    fn principals(&self) -> Vec<Principal>;
    /// Ends one at once.
    fn end(&self, client: &ClientId, reason: &str) -> bool;
}

/// The worker processes.
pub trait ProcessBackend: Send + Sync + 'static {
    /// Those that start or run.
    fn processes(&self) -> Vec<WorkerProcess>;
    /// Ends one at once.
    fn kill(&self, session_id: &SessionId) -> bool;
}

/// Everything behind the contexts of one host.
#[derive(Clone)]
pub struct Bindings {
    /// Records, workers and attachments.
    pub fleet: Arc<dyn FleetBackend>,
    /// Sessions' files.
    pub upkeep: Arc<dyn UpkeepBackend>,
    /// Status.
    pub status: Arc<dyn StatusBackend>,
    /// The end of the server.
    pub control: Arc<dyn ControlBackend>,
    /// Worker processes.
    pub processes: Arc<dyn ProcessBackend>,
    /// Connected presentations.
    pub connections: Arc<dyn ConnectionBackend>,
    /// Authentication methods.
    pub authentication: Registry<AuthenticationDraft>,
    /// Authorisation rules.
    pub authorization: Registry<AuthorizationDraft>,
    /// The worker policy.
    pub workers: Registry<WorkerPolicyDraft>,
}

impl Bindings {
    /// A facet's context over these bindings.
    pub fn context(&self, scope: FacetScope) -> ServerContext {
        ServerContext {
            fleet: Fleet::new(Arc::clone(&self.fleet), scope.clone()),
            upkeep: Upkeep::new(Arc::clone(&self.upkeep)),
            status: HostStatus::new(Arc::clone(&self.status), scope.clone()),
            authentication: self.authentication.contributions(&scope),
            authorization: self.authorization.contributions(&scope),
            workers: self.workers.contributions(&scope),
            control: Arc::clone(&self.control),
            processes: Arc::clone(&self.processes),
            connections: Arc::clone(&self.connections),
            scope,
        }
    }
}
