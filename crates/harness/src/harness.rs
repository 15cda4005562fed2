//! The harness of one session: its lanes, its tools, its hooks and events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bezel_context::{CancelHandle, Context, Spawner};
use bezel_session_types::{
    BegunCall, LaneName, ModelRef, ModelSpec, OperationId, Provider, SessionId, ThinkingLevel,
};
use bezel_store::{ReadError, Store, UsageTotals};
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::config::HarnessConfig;
use crate::events::{HarnessEvents, Hub};
use crate::hooks::Hooks;
use crate::lane::{Lane, LaneCore};
use crate::requests::{Answers, Channels};
use crate::tools::ToolSet;
use crate::tree::Tree;

/// What a harness needs.
pub struct HarnessOptions {
    /// The session's database, owned.
    pub store: Store,
    /// Which session it is.
    pub session_id: SessionId,
    /// The directory that tools work in, absolute.
    pub directory: PathBuf,
    /// Where output that is too long to show is kept; made when first needed.
    pub output_directory: PathBuf,
    /// Starts the tasks of runs and tools.
    pub spawner: Spawner,
    /// How it behaves.
    pub config: HarnessConfig,
}

/// Chooses the model of a lane.
pub trait ModelSource: Send + Sync {
    /// The model that the lane's next request goes to.
    fn resolve(
        &self,
        cx: &Context,
        lane: &LaneName,
    ) -> BoxFuture<'static, Result<ResolvedModel, ModelSourceError>>;
}

/// A model that can be asked.
#[derive(Clone)]
pub struct ResolvedModel {
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// What is known of the model.
    pub spec: ModelSpec,
    /// How much to reason.
    pub thinking: ThinkingLevel,
}

/// There is no model to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelSourceError {
    /// Stable code: `model.none`, `model.unknown`, `model.unavailable`.
    pub code: &'static str,
    /// For people: what is missing and what to do.
    pub message: String,
}

/// Writes the system prompt.
pub trait SystemPrompt: Send + Sync {
    /// The prompt for a run of `lane` with this model and these tools. Asked for once per run, and
    /// again when model or tools changed.
    fn build(
        &self,
        cx: &Context,
        subject: SystemPromptSubject,
    ) -> BoxFuture<'static, Result<Arc<str>, SystemPromptError>>;
}

/// What a system prompt is for.
#[derive(Debug, Clone)]
pub struct SystemPromptSubject {
    /// Whose conversation.
    pub lane: LaneName,
    /// The model that reads it.
    pub model: ModelRef,
    /// The tools that the model is told of.
    pub tools: Arc<ToolSet>,
}

/// The system prompt could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the system prompt: {message}")]
pub struct SystemPromptError {
    /// For people.
    pub message: String,
}

/// A session that could not be taken up.
#[derive(Debug, thiserror::Error)]
#[error("cannot take up session {session_id}: {source}")]
pub struct OpenError {
    /// Which.
    pub session_id: SessionId,
    /// What could not be read.
    pub source: ReadError,
}

/// What was found in a lane when its session was taken up. [`Lane::resume`] goes on with it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLane {
    /// Which lane.
    pub lane: LaneName,
    /// The operation that its process did not end.
    pub operation_id: Option<OperationId>,
    /// Messages that wait, and whether somebody asked for one of them to run.
    pub queued: usize,
    /// Whether somebody asked for one of the messages to run.
    pub resume: bool,
    /// The operation's calls that had begun and are run again, where their tools are there and still say that this is
    /// safe.
    pub begun: Vec<BegunCall>,
}

/// One session, running. Clones share it.
#[derive(Clone)]
pub struct Harness {
    session: Arc<Session>,
    opened: Arc<[OpenLane]>,
}

/// What the lanes of a session share.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) directory: PathBuf,
    pub(crate) output_directory: PathBuf,
    pub(crate) store: Store,
    pub(crate) spawner: Spawner,
    pub(crate) config: HarnessConfig,
    pub(crate) hub: Hub,
    pub(crate) hooks: Hooks,
    pub(crate) channels: Channels,
    pub(crate) answers: Answers,
    /// Ends when the session is closed; every run's context is its child.
    pub(crate) root: Context,
    close: CancelHandle,
    tools: RwLock<Arc<ToolSet>>,
    model_source: RwLock<Option<Arc<dyn ModelSource>>>,
    system_prompt: RwLock<Option<Arc<dyn SystemPrompt>>>,
    // A plain mutex: held to look a lane up or make it.
    lanes: Mutex<BTreeMap<LaneName, Arc<LaneCore>>>,
}

impl Harness {
    /// Takes a session up. What its last process left open is listed, and nothing is started.
    pub fn open(options: HarnessOptions) -> Result<Self, OpenError> {
        let HarnessOptions {
            store,
            session_id,
            directory,
            output_directory,
            spawner,
            config,
        } = options;
        let (root, close) = Context::background().with_cancel();
        let failed = |source| OpenError {
            session_id: session_id.clone(),
            source,
        };
        let names = store
            .read(|queries| {
                let mut names = queries.lanes()?;
                names.extend(queries.inbox_lanes()?);
                let operations = queries.keys("operation/")?;
                names.extend(
                    operations
                        .iter()
                        .map(|key| LaneName::new(&key["operation/".len()..])),
                );
                names.push(LaneName::main());
                Ok(names)
            })
            .map_err(failed)?;
        let mut lanes = BTreeMap::new();
        let mut opened = Vec::new();
        for name in names {
            if lanes.contains_key(&name) {
                continue;
            }
            let core = LaneCore::load(&store, &name).map_err(failed)?;
            opened.extend(core.found());
            lanes.insert(name, Arc::new(core));
        }
        let channels = Channels::default();
        channels.restore(lanes.values());
        let session = Session {
            id: session_id,
            directory,
            output_directory,
            store,
            spawner,
            config,
            hub: Hub::default(),
            hooks: Hooks::new(),
            channels,
            answers: Answers::default(),
            root,
            close,
            tools: RwLock::default(),
            model_source: RwLock::default(),
            system_prompt: RwLock::default(),
            lanes: Mutex::new(lanes),
        };
        Ok(Harness {
            session: Arc::new(session),
            opened: opened.into(),
        })
    }

    /// What was found open or waiting when the session was taken up.
    pub fn opened(&self) -> &[OpenLane] {
        &self.opened
    }

    /// Which session it is.
    pub fn session_id(&self) -> &SessionId {
        &self.session.id
    }

    /// Puts other tools in place. Requests that are out keep theirs.
    pub fn set_tools(&self, tools: Arc<ToolSet>) {
        let mut current = self
            .session
            .tools
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        tools.adopt(&current);
        *current = tools;
    }

    /// The tools now.
    pub fn tools(&self) -> Arc<ToolSet> {
        self.session.tools()
    }

    /// Says who chooses models.
    pub fn set_model_source(&self, source: Arc<dyn ModelSource>) {
        *self
            .session
            .model_source
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// Says who writes the system prompt. Without one it is empty.
    pub fn set_system_prompt(&self, prompt: Arc<dyn SystemPrompt>) {
        *self
            .session
            .system_prompt
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(prompt);
    }

    /// The lane that every session has.
    pub fn main(&self) -> Lane {
        self.lane(&LaneName::main())
    }

    /// A lane by name; a new one is empty.
    pub fn lane(&self, name: &LaneName) -> Lane {
        let mut lanes = self.session.lanes();
        let core = lanes
            .entry(name.clone())
            .or_insert_with(|| Arc::new(LaneCore::empty(name)));
        Lane::new(Arc::clone(&self.session), Arc::clone(core))
    }

    /// The lanes that were used or asked for.
    pub fn lanes(&self) -> Vec<LaneName> {
        self.session.lanes().keys().cloned().collect()
    }

    /// Where others take part.
    pub fn hooks(&self) -> &Hooks {
        &self.session.hooks
    }

    /// What happens from now on, in all lanes.
    pub fn subscribe(&self) -> HarnessEvents {
        self.session.hub.subscribe(None)
    }

    /// The tree.
    pub fn tree(&self) -> Tree {
        Tree::new(self.clone())
    }

    /// The ledger, added up.
    pub fn usage(&self) -> Result<UsageTotals, ReadError> {
        self.session.store.read(|queries| queries.usage())
    }

    /// Follows the greatest committed sequence number.
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.session.store.committed()
    }

    /// Ends everything that runs and writes nothing: for the session it is like a crash. Waits
    /// until all lanes have stopped.
    pub async fn close(&self) {
        self.session.close.cancel();
        let lanes: Vec<Arc<LaneCore>> = self.session.lanes().values().cloned().collect();
        for core in lanes {
            core.stopped().await;
        }
        self.session.hub.close();
        // Whoever still holds something of the session: its next owner may open it now.
        self.session.store.close();
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Session {
    pub(crate) fn tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn model_source(&self) -> Option<Arc<dyn ModelSource>> {
        self.model_source
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn system_prompt(&self) -> Option<Arc<dyn SystemPrompt>> {
        self.system_prompt
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn closed(&self) -> bool {
        self.root.is_cancelled()
    }

    /// Every lane that was used or asked for.
    pub(crate) fn all_lanes(self: &Arc<Self>) -> Vec<Lane> {
        let lanes = self.lanes();
        let lane = |core: &Arc<LaneCore>| Lane::new(Arc::clone(self), Arc::clone(core));
        lanes.values().map(lane).collect()
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<LaneName, Arc<LaneCore>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Harness")
            .field("session", &self.session.id)
            .finish_non_exhaustive()
    }
}
