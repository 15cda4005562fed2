//! The session's agent: identity, lanes, tree.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_context::{Cancelled, Context, WorkspaceId};
use bezel_session_types::{
    BegunCall, CommandId, Cost, Delivery, Entry, EntryId, LaneName, ModelRef, NextRequest,
    OperationId, QueuedMessage, RunOutcome, RunState, SessionId, ThinkingLevel, Usage, UserMessage,
};
use tokio::sync::watch;

use crate::backend::{AgentBackend, LaneBackend};
use crate::engine::{Capabilities, Unsupported};
use crate::events::AgentEvents;
use crate::hooks::Hooks;

/// Which session this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionIdentity {
    /// The session.
    pub session_id: SessionId,
    /// The session that began it, for a part of its own work; none for one that a person began.
    pub parent_id: Option<SessionId>,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// The directory of its location, absolute.
    pub directory: PathBuf,
    /// Where whole outputs and other files of the session lie, absolute. It exists.
    pub output_directory: PathBuf,
}

/// Scoped, direct access to the session that this process owns.
#[derive(Clone)]
pub struct Agent {
    pub(crate) backend: Arc<dyn AgentBackend>,
    pub(crate) hooks: Hooks,
    pub(crate) events: AgentEvents,
}

impl Agent {
    /// Which session this is.
    pub fn identity(&self) -> &SessionIdentity {
        self.backend.identity()
    }

    /// Variables of the shell that started the session. They hold secrets: pass on only what is asked for.
    pub fn environment(&self) -> &Arc<BTreeMap<String, String>> {
        self.backend.environment()
    }

    /// The lane that every session has.
    pub fn main(&self) -> Lane {
        Lane(self.backend.main())
    }

    /// A lane by name, where it exists.
    pub fn lane(&self, name: &LaneName) -> Option<Lane> {
        self.backend.lane(name).map(Lane)
    }

    /// How many durable requests of the session wait for an answer, of whichever plugin, now and from now on. Where
    /// the engine has none it is zero for good, and its sender is gone.
    pub fn open_requests(&self) -> watch::Receiver<usize> {
        self.backend.open_requests()
    }

    /// The calls of the main lane that an earlier process had begun when it ended, and that are run again as soon as
    /// the facets are active. Known from the setup on.
    pub fn begun_before(&self) -> Vec<BegunCall> {
        self.backend.begun_before()
    }

    /// What the engine that drives this session can do.
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// The tree of entries, to read and to label.
    pub fn tree(&self) -> SessionTree {
        SessionTree(Arc::clone(&self.backend))
    }

    /// Interception of live operations; registrations end with the facet.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// What happens in the session; subscriptions end with the facet.
    pub fn events(&self) -> &AgentEvents {
        &self.events
    }
}

/// A movable tip of the tree with at most one operation.
#[derive(Clone)]
pub struct Lane(pub(crate) Arc<dyn LaneBackend>);

/// A durable admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The operation that takes what was admitted.
    pub operation_id: OperationId,
    /// The id that the message's entry has, or will have once it is delivered; none for a compaction.
    pub message_id: Option<EntryId>,
}

/// Why a message or a compaction was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// There is nothing in it, or something in it is too large.
    #[error("{0}")]
    Refused(String),
    /// The command id was used with other input.
    #[error("command {0} was already used for another message; send this one under a new id")]
    Conflict(CommandId),
    /// Something else runs that excludes it.
    #[error("{0}")]
    Busy(String),
    /// The session could not be written.
    #[error("{0}")]
    Storage(String),
}

/// Why a lane command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The lane never had this operation, or no longer remembers it.
    #[error("operation {0} is not known in this session")]
    UnknownOperation(OperationId),
    /// The wait was cancelled; the operation goes on.
    #[error("the wait was cancelled")]
    Cancelled,
    /// It cannot be done as things are.
    #[error("{0}")]
    Refused(String),
    /// The engine of this session cannot do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The session could not be read or written.
    #[error("{0}")]
    Storage(String),
}

/// Where a lane is to go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Navigation {
    /// The entry that becomes the tip; none for the place before the first entry.
    pub target: Option<EntryId>,
    /// Asks for a summary of the branch that is left, with instructions for it, perhaps empty.
    pub summary: Option<String>,
    /// A label for the summary, or for the target where none is made.
    pub label: Option<String>,
}

/// Where a lane's next run begins, instead of at its tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The entry that it goes on from; none for the place before the first entry.
    pub from: Option<EntryId>,
}

/// Why a lane was not moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NavigationError {
    /// Something runs, or was left open by a crash.
    #[error("{0}")]
    Busy(String),
    /// It is there already, there is no such entry, or the place takes no summary.
    #[error("{0}")]
    Refused(String),
    /// The engine of this session cannot do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The session could not be written.
    #[error("{0}")]
    Storage(String),
}

/// What a copy of a session takes, and where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPlan {
    /// The entry that the copy begins at; none for the main lane's tip.
    pub at: Option<EntryId>,
    /// The whole tree instead of the path to that entry.
    pub whole_tree: bool,
    /// The new database, absolute; nothing is there yet.
    pub into: PathBuf,
}

/// Why a session was not copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// There is nothing to copy, or no such entry.
    #[error("{0}")]
    Refused(String),
    /// The engine of this session cannot do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The copy could not be written.
    #[error("{0}")]
    Storage(String),
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Which.
    pub operation_id: OperationId,
    /// How.
    pub outcome: RunOutcome,
}

impl Lane {
    /// Admits a message durably, then starts or joins the run. The same id with the same input adds nothing.
    pub async fn prompt(
        &self,
        cx: &Context,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
    ) -> Result<Admission, PromptError> {
        self.0.prompt(cx, command_id, message, delivery, true).await
    }

    /// Admits a message durably and starts nothing for it: it enters with the next run, or when somebody
    /// resumes.
    pub async fn record(
        &self,
        cx: &Context,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
    ) -> Result<Admission, PromptError> {
        self.0
            .prompt(cx, command_id, message, delivery, false)
            .await
    }

    /// Ends what runs now, durably, and says which operation that was; none while idle. What waits stays
    /// until somebody resumes.
    pub async fn interrupt(&self, cx: &Context) -> Result<Option<OperationId>, LaneError> {
        let running = self.0.activity().borrow().operation_id().cloned();
        match running {
            Some(operation) => {
                let ended = self.0.request_abort(cx, &operation).await?;
                Ok(ended.then_some(operation))
            }
            None => Ok(None),
        }
    }

    /// Moves the lane to another place in the tree, with a summary of the branch that is left where that is
    /// asked for. Says which operation does it.
    pub async fn navigate(
        &self,
        cx: &Context,
        navigation: Navigation,
    ) -> Result<OperationId, NavigationError> {
        self.0.navigate(cx, navigation).await
    }

    /// Says where the next run begins, or that it begins at the tip again. The lane stays where it is until
    /// then: it moves in the commit that delivers the run's first message. Every navigation takes this back,
    /// and one to that very place does at once what the run would have done.
    pub async fn set_departure(
        &self,
        cx: &Context,
        departure: Option<Departure>,
    ) -> Result<(), NavigationError> {
        self.0.set_departure(cx, departure).await
    }

    /// Where the next run begins, where that is not the tip.
    pub fn departure(&self) -> Option<Departure> {
        self.0.departure()
    }

    /// Changes what a message says that was not delivered yet. False when it is too late.
    pub async fn edit(
        &self,
        cx: &Context,
        id: &EntryId,
        message: UserMessage,
    ) -> Result<bool, LaneError> {
        self.0.edit(cx, id, message).await
    }

    /// Lets a message that waits steer, and run where nothing runs. False when it is too late.
    pub async fn promote(&self, cx: &Context, id: &EntryId) -> Result<bool, LaneError> {
        self.0.promote(cx, id).await
    }

    /// Waits until nothing runs and nothing follows. Starts nothing.
    pub async fn wait_idle(&self, cx: &Context) -> Result<(), Cancelled> {
        let mut activity = self.0.activity();
        cx.run(async {
            // A lane that is gone runs nothing.
            activity.wait_for(RunState::is_idle).await.ok();
        })
        .await
    }

    /// Records durably that `operation` is to end, then ends it. False when it is not the one that runs.
    pub async fn request_abort(
        &self,
        cx: &Context,
        operation: &OperationId,
    ) -> Result<bool, LaneError> {
        self.0.request_abort(cx, operation).await
    }

    /// Summarises the conversation so far for the model; the tree keeps everything.
    pub async fn compact(
        &self,
        cx: &Context,
        instructions: Option<String>,
    ) -> Result<Admission, PromptError> {
        self.0.compact(cx, instructions).await
    }

    /// Goes on with what a crash left open. False when there is nothing.
    pub async fn resume(&self, cx: &Context) -> Result<bool, LaneError> {
        self.0.resume(cx).await
    }

    /// Takes back a message that was not delivered yet. False when it is too late.
    pub async fn withdraw(&self, cx: &Context, id: &EntryId) -> Result<bool, LaneError> {
        self.0.withdraw(cx, id).await
    }

    /// Waits until the operation has ended. Starts nothing.
    pub async fn wait(&self, cx: &Context, operation: &OperationId) -> Result<Outcome, LaneError> {
        self.0.wait(cx, operation).await
    }

    /// What the model would be sent if it were asked now: system prompt, tools, conversation, options. Nothing is
    /// sent and nothing written; the hooks before a request are called with [`RequestDraft::preview`] set.
    ///
    /// [`RequestDraft::preview`]: crate::RequestDraft::preview
    pub async fn next_request(&self, cx: &Context) -> Result<NextRequest, LaneError> {
        self.0.next_request(cx).await
    }

    /// What the lane does, now and from now on.
    pub fn activity(&self) -> watch::Receiver<RunState> {
        self.0.activity()
    }

    /// What waits, now and from now on.
    pub fn queue(&self) -> watch::Receiver<Arc<[QueuedMessage]>> {
        self.0.queue()
    }

    /// The model that the next request goes to.
    pub fn set_model(&self, model: Option<ModelRef>, thinking: ThinkingLevel) {
        self.0.set_model(model, thinking);
    }
}

/// A session's ledger, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LedgerTotals {
    /// Tokens.
    pub usage: Usage,
    /// Price of the requests whose price is known.
    pub cost: Cost,
    /// Model requests.
    pub requests: u64,
}

/// The session's tree, to read and to label.
#[derive(Clone)]
pub struct SessionTree(Arc<dyn AgentBackend>);

impl SessionTree {
    /// Up to `limit` entries of the main lane's path that come before `before` (or the newest), oldest first.
    /// The flag says whether there are older ones.
    pub async fn recent(
        &self,
        before: Option<&EntryId>,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), LaneError> {
        self.0.recent(before.cloned(), limit).await
    }

    /// The first `limit` entries that follow `after` on the main lane's path, oldest first, with whether more follow;
    /// none where the path does not go through it. However far back that is, it costs what the page costs.
    pub async fn following(
        &self,
        after: &EntryId,
        limit: usize,
    ) -> Result<Option<(Vec<Entry>, bool)>, LaneError> {
        self.0.following(after.clone(), limit).await
    }

    /// One entry, wherever in the tree.
    pub async fn entry(&self, id: &EntryId) -> Result<Option<Entry>, LaneError> {
        self.0.entry(id.clone()).await
    }

    /// The main lane's tip; none while it is empty.
    pub fn tip(&self) -> Option<EntryId> {
        self.0.tip()
    }

    /// Up to `limit` entries of all branches that were written before the one with sequence number
    /// `before` (or the newest), in the order of their being written.
    pub async fn all(&self, before: Option<u64>, limit: usize) -> Result<Vec<Entry>, LaneError> {
        self.0.all(before, limit).await
    }

    /// All labels, by entry.
    pub async fn labels(&self) -> Result<BTreeMap<EntryId, String>, LaneError> {
        self.0.labels().await
    }

    /// Labels an entry, or takes its label away. False where there is no such entry.
    pub async fn set_label(
        &self,
        cx: &Context,
        entry: &EntryId,
        label: Option<&str>,
    ) -> Result<bool, LaneError> {
        self.0
            .set_label(cx, entry.clone(), label.map(str::to_owned))
            .await
    }

    /// Writes a copy of the tree, or of one path, as another session's database, and says how many entries
    /// it has. What runs here goes on.
    pub async fn fork(&self, plan: ForkPlan) -> Result<u64, ForkError> {
        self.0.fork(plan).await
    }

    /// The session's ledger, added up.
    pub async fn usage(&self) -> Result<LedgerTotals, LaneError> {
        self.0.usage().await
    }
}
