//! Starting and ending a session host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bezel_api_session::backend::AgentBackend;
use bezel_api_session::{
    Engine, EngineError, EngineSession, EngineStart, EventBody, Lifecycle, Opening, PromptDraft,
    ProviderDraft, ProviderSet, SessionContext, SessionFacet, SessionIdentity, SessionParts,
    SystemPrompt, ToolDraft, ToolSet,
};
use bezel_context::{Context, TaskScope};
use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, FacetReport, Failure, Following,
    Manifest, Phase, Problem, Registry, assemble,
};
use bezel_rpc::{Connect, ConnectionState, Hello, Link, ServiceTable, State};
use tokio::sync::watch;

use crate::tree::{Place, WorkerTree};

/// How long a session is shown to nobody while children are taken up that an earlier process had begun.
const TAKING_UP: Duration = Duration::from_secs(5);

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
    /// The sessions of this process: a new one for a root, its root's for a child.
    pub tree: WorkerTree,
    /// What drives it.
    pub engine: Arc<dyn Engine>,
    /// How long each step of the assembly may take.
    pub deadlines: Deadlines,
}

/// Why a session host did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine could not take the session up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The facets could not be assembled.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
}

/// Starts session hosts.
pub struct SessionHost;

/// A session host that runs.
pub struct RunningSession {
    // First: the session is found no more before anything of it ends.
    place: Place,
    tree: WorkerTree,
    is_root: bool,
    session: Arc<dyn EngineSession>,
    assembled: Assembled,
    link: Link,
    table: ServiceTable,
    registries: Registries,
    /// Tells the session's subscribers of what is not in place.
    _problems: FollowingProblems,
    lifecycle: Lifecycle,
    deadlines: Deadlines,
    // Keeps the retirement signal alive: facets need not hold on to it.
    retired: watch::Sender<Option<String>>,
    tasks: TaskScope,
}

#[derive(Clone)]
struct Registries {
    tools: Registry<ToolDraft>,
    providers: Registry<ProviderDraft>,
    prompt: Registry<PromptDraft>,
}

impl SessionHost {
    /// Opens the session, connects, assembles the facets, and goes on with what was open.
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
        let registries = Registries {
            tools: Registry::new(ToolSet::default()),
            providers: Registry::new(ProviderSet::default()),
            prompt: Registry::new(SystemPrompt::default()),
        };
        let tree = options.tree;
        let (session_id, parent_id) = (identity.session_id.clone(), identity.parent_id.clone());
        let retired = watch::Sender::new(None);
        let session = options.engine.open(EngineStart {
            identity,
            environment: Arc::new(environment),
            database: options.database,
            spawner: tasks.spawner(),
            tools: registries.tools.clone(),
            providers: registries.providers.clone(),
            prompt: registries.prompt.clone(),
            retired: retired.clone(),
        });
        let session = session.await?;

        let problems = registries.tell_problems(&session);
        let table = ServiceTable::new();
        // Before the facets: a setup may ask the server. Nobody is attached before the table is active.
        let link = Link::start(&tasks.spawner(), connect, hello, table.clone());
        let backend = Arc::clone(&session) as Arc<dyn AgentBackend>;
        let is_root = parent_id.is_none();
        let place = tree.enter(session_id, parent_id, Arc::clone(&backend), table.clone());
        let lifecycle = Lifecycle::default();
        let opening = Opening::default();
        let parts = SessionParts {
            backend,
            lifecycle: lifecycle.clone(),
            opening: opening.clone(),
            tree: Arc::new(tree.clone()),
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
        let cx = Context::background();
        // What fails is told, and the session starts without it.
        let start_failures = lifecycle
            .start(&cx, session.found(), options.deadlines.activation)
            .await;
        for failure in &start_failures {
            session.tell(EventBody::HandlerFailed {
                plugin: failure.plugin.to_string(),
                hook: failure.hook.to_owned(),
                message: failure.message.clone(),
            });
        }
        if is_root {
            tree.follow(tasks.spawner(), &link.server(), link.connection());
        }
        place.goes_on();
        session.go_on(&cx).await;
        let bounded = cx.with_timeout(TAKING_UP);
        if opening.done(&bounded).await.is_err() {
            tracing::warn!(
                "the session is shown before all that it had begun is there again: what that asks comes later"
            );
        }
        table.activate();
        place.activated();
        Ok(RunningSession {
            place,
            tree,
            is_root,
            session,
            assembled,
            link,
            table,
            registries,
            _problems: problems,
            lifecycle,
            deadlines: options.deadlines,
            retired,
            tasks,
        })
    }
}

type FollowingProblems = (
    Following<ProviderDraft>,
    Following<ToolDraft>,
    Following<PromptDraft>,
);

impl Registries {
    /// Tells the session's subscribers of each problem as it comes.
    fn tell_problems(&self, session: &Arc<dyn EngineSession>) -> FollowingProblems {
        let session = Arc::downgrade(session);
        let tell = move |problem: &Problem| {
            if let Some(session) = session.upgrade() {
                session.tell(EventBody::ContributionRefused {
                    plugin: problem.plugin().to_string(),
                    message: problem.to_string(),
                });
            }
        };
        (
            self.providers.follow_problems(tell.clone()),
            self.tools.follow_problems(tell.clone()),
            self.prompt.follow_problems(tell),
        )
    }

    fn open(&self) {
        self.providers.open();
        self.tools.open();
        self.prompt.open();
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

    /// Ends one plugin's facet and those that cannot do without it; everything else goes on. A call of its
    /// tools that runs keeps running. Returns every failed disposer.
    pub async fn remove(&mut self, plugin: &str) -> Vec<Failure> {
        self.assembled.remove(plugin).await
    }

    /// Resolves with the reason when a facet retires this worker.
    pub fn retired(&self) -> impl Future<Output = String> + Send + use<> {
        let mut retired = self.retired.subscribe();
        async move {
            match retired.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or_default(),
                Err(_) => "the session ended".to_owned(),
            }
        }
    }

    /// What drives the session, as the others of its process see it.
    pub(crate) fn agent(&self) -> Arc<dyn AgentBackend> {
        Arc::clone(&self.session) as Arc<dyn AgentBackend>
    }

    /// Whether the main lane runs nothing.
    pub fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    /// Calls the hooks at the end, then ends the engine, the facets in reverse, and the connection. Nothing is
    /// lost: for the session it is like a crash. Returns every failed hook and disposer, and what had to be
    /// aborted.
    pub async fn stop(self) -> Vec<Failure> {
        let ended = self
            .lifecycle
            .end(&Context::background(), self.deadlines.disposal)
            .await;
        let mut failures: Vec<Failure> = ended
            .into_iter()
            .map(|failure| Failure {
                unit: failure.plugin.as_str().into(),
                phase: Phase::Disposal,
                cause: failure.into(),
            })
            .collect();
        // Who wants something of the session from now on waits for its next host.
        drop(self.place);
        self.table.end();
        // Before the facets: a run that still went on would find its model or its tool gone, and end for it.
        self.session.close().await;
        failures.extend(self.assembled.dispose().await);
        self.link.stop().await;
        if self.is_root {
            // After the root's own end: what waits for a child there does not see it go.
            failures.extend(self.tree.close().await);
        }
        let overran = self.tasks.shutdown(Duration::from_secs(5)).await;
        failures.extend(overran.into_iter().map(|task| Failure {
            unit: task.into(),
            phase: Phase::Disposal,
            cause: "it had to be aborted".into(),
        }));
        failures
    }
}
