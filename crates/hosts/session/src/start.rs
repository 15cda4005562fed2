//! Starting and ending a session host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_session::backend::AgentBackend;
use bezel_api_session::{
    PromptDraft, ProviderDraft, ProviderSet, SessionContext, SessionFacet, SessionIdentity,
    SessionParts, SystemPrompt, ToolDraft, ToolSet,
};
use bezel_context::{Context, Task, TaskScope};
use bezel_harness::{
    EventKind, Harness, HarnessConfig, HarnessOptions, OpenLane, Store, StoreError,
};
use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, FacetReport, Failure, Manifest, Problem,
    Registry, assemble,
};
use bezel_rpc::{Connect, ConnectionState, Hello, Link, ServiceTable, State};
use bezel_session_types::LaneName;
use tokio::sync::watch;

use crate::backend::HostAgent;
use crate::events::{self, Bus};
use crate::gate::Gated;
use crate::lane::HostLane;
use crate::sources::{self, Models, Prompt};

/// What a session host needs.
pub struct SessionHostOptions {
    /// Which plugins, in which order.
    pub manifest: Manifest,
    /// The session facets of this build.
    pub facets: Vec<SessionFacet>,
    /// One attempt to reach the server.
    pub connect: Arc<dyn Connect>,
    /// Who this worker is to the server.
    pub hello: Hello,
    /// Which session it runs.
    pub identity: SessionIdentity,
    /// Variables of the shell that started the session.
    pub environment: BTreeMap<String, String>,
    /// The session's database.
    pub database: PathBuf,
    /// How the harness behaves.
    pub harness: HarnessConfig,
    /// How long each step of the assembly may take.
    pub deadlines: Deadlines,
}

/// Why a session host did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session could not be taken up.
    #[error(transparent)]
    Harness(#[from] bezel_harness::OpenError),
    /// The facets could not be assembled.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
}

/// Starts session hosts.
pub struct SessionHost;

/// A session host that runs.
pub struct RunningSession {
    harness: Harness,
    assembled: Assembled,
    link: Link,
    registries: Registries,
    // Keeps the retirement signal alive: facets need not hold on to it.
    backend: Arc<HostAgent>,
    following_tools: Task<()>,
    tasks: TaskScope,
}

#[derive(Clone)]
struct Registries {
    tools: Registry<ToolDraft>,
    providers: Registry<ProviderDraft>,
    prompt: Registry<PromptDraft>,
}

impl SessionHost {
    /// Opens the session, assembles the facets, connects, and goes on with what was open.
    pub async fn start(options: SessionHostOptions) -> Result<RunningSession, StartError> {
        let SessionHostOptions {
            manifest,
            facets,
            connect,
            hello,
            identity,
            environment,
            ..
        } = options;
        let tasks = TaskScope::new();
        let harness = Harness::open(HarnessOptions {
            store: Store::open(&options.database)?,
            session_id: identity.session_id.clone(),
            directory: identity.directory.clone(),
            output_directory: identity.output_directory.clone(),
            spawner: tasks.spawner(),
            config: options.harness,
        })?;
        let registries = Registries {
            tools: Registry::new(ToolSet::default()),
            providers: Registry::new(ProviderSet::default()),
            prompt: Registry::new(SystemPrompt::default()),
        };
        let models = Arc::new(Models::new(registries.providers.clone()));
        harness.set_model_source(Arc::clone(&models) as Arc<dyn bezel_harness::ModelSource>);
        harness.set_system_prompt(Arc::new(Prompt(registries.prompt.clone())));

        let bus = Arc::new(Bus::default());
        tasks.spawn(
            "session events",
            events::pump(harness.subscribe(), Arc::clone(&bus)),
        );
        let main = Arc::new(HostLane {
            lane: harness.main(),
            models,
            queue: follow_queue(&harness, &tasks),
        });
        let backend = Arc::new(HostAgent {
            identity,
            environment: Arc::new(environment),
            harness: harness.clone(),
            bus,
            main,
            retired: watch::Sender::new(None),
        });

        let (connect, open) = Gated::new(connect);
        let table = ServiceTable::new();
        let link = Link::start(&tasks.spawner(), Arc::new(connect), hello, table.clone());
        let parts = SessionParts {
            backend: Arc::clone(&backend) as Arc<dyn AgentBackend>,
            server: link.server(),
            connection: link.connection(),
            table: table.clone(),
            tools: registries.tools.clone(),
            providers: registries.providers.clone(),
            prompt: registries.prompt.clone(),
        };
        let opened = registries.clone();
        let assembled = assemble(AssembleOptions {
            manifest,
            facets,
            table: table.clone(),
            context: Arc::new(move |scope| SessionContext::new(scope, &parts)),
            before_activation: Box::new(move || opened.open()),
            deadlines: options.deadlines,
        })
        .await?;
        harness.set_tools(Arc::new(sources::tools(&registries.tools.current())));
        let following_tools = tasks.spawn(
            "tool registry",
            follow_tools(harness.clone(), registries.tools.clone()),
        );
        table.activate();
        open.open();
        // What was recorded to wait, or held by an interrupt, waits on.
        let goes_on = |found: &&OpenLane| found.operation_id.is_some() || found.resume;
        for found in harness.opened().iter().filter(goes_on) {
            let lane = harness.lane(&found.lane);
            if let Err(error) = lane.resume(&Context::background()).await {
                tracing::error!(lane = %found.lane, %error, "the session could not go on with what was open");
            }
        }
        Ok(RunningSession {
            harness,
            assembled,
            link,
            registries,
            backend,
            following_tools,
            tasks,
        })
    }
}

impl Registries {
    fn open(&self) {
        self.providers.open();
        self.tools.open();
        self.prompt.open();
    }
}

/// The main lane's waiting messages, now and from now on.
fn follow_queue(
    harness: &Harness,
    tasks: &TaskScope,
) -> watch::Receiver<Arc<[bezel_session_types::QueuedMessage]>> {
    let mut watched = harness.main().watch();
    let sender = watch::Sender::new(watched.snapshot.queued.clone());
    let receiver = sender.subscribe();
    tasks.spawn("message queue", async move {
        while let Some(event) = watched.events.next().await {
            if let EventKind::QueueUpdate { queued } = event.kind {
                sender.send_replace(queued);
            }
        }
    });
    receiver
}

async fn follow_tools(harness: Harness, registry: Registry<ToolDraft>) {
    let mut changes = registry.watch();
    changes.mark_unchanged();
    while changes.changed().await.is_ok() {
        let set = Arc::clone(&changes.borrow_and_update());
        harness.set_tools(Arc::new(sources::tools(&set)));
    }
}

impl RunningSession {
    /// Whether the server can be reached.
    pub fn connection(&self) -> State<ConnectionState> {
        self.link.connection()
    }

    /// What became of every plugin.
    pub fn report(&self) -> Vec<FacetReport> {
        self.assembled.report()
    }

    /// What the registries found: conflicts and failed contributions.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.registries.providers.problems();
        problems.extend(self.registries.tools.problems());
        problems.extend(self.registries.prompt.problems());
        problems
    }

    /// Resolves with the reason when a facet retires this worker.
    pub async fn retired(&self) -> String {
        let mut retired = self.backend.retired.subscribe();
        match retired.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the session ended".to_owned(),
        }
    }

    /// Whether the main lane runs nothing.
    pub fn is_idle(&self) -> bool {
        self.harness.lane(&LaneName::main()).state().is_idle()
    }

    /// Ends the facets in reverse, the connection and the harness. Nothing is lost: for the session it is
    /// like a crash. Returns every failed disposer.
    pub async fn stop(self) -> Vec<Failure> {
        let failures = self.assembled.dispose().await;
        self.following_tools.abort();
        self.link.stop().await;
        self.harness.close().await;
        let overran = self.tasks.shutdown(std::time::Duration::from_secs(5)).await;
        if !overran.is_empty() {
            tracing::warn!(?overran, "tasks of the session had to be aborted");
        }
        failures
    }
}
