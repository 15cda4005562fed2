//! Launches workers that are links of this process and provide one service that the server knows
//! nothing of.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bezel_context::{Context, TaskScope};
use bezel_host_server::{LaunchError, LaunchedWorker, WorkerExit, WorkerLauncher, WorkerStart};
use bezel_rpc::{
    Connect, Credential, Hello, Link, Role, ServiceClient, ServiceTable, State, StateCell, service,
};
use bezel_session_types::SessionId;
use bezel_sessions_contract::{ChildStart, SessionChildrenClient, SessionRecordClient};
use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// What only workers and presentations know.
#[service("probe", version = "1.0")]
pub trait Probe {
    fn state(&self) -> State<ProbeState>;
    async fn echo(&self, cx: &Context, text: String) -> String;
    /// Returns when the call is cancelled, and never otherwise.
    async fn hang(&self, cx: &Context);
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeState {
    pub session: String,
    pub launch: u32,
}

struct Provided {
    state: StateCell<ProbeState>,
    client_of_last_call: Arc<Mutex<Option<String>>>,
}

impl Probe for Provided {
    fn state(&self) -> State<ProbeState> {
        self.state.state()
    }

    async fn echo(&self, cx: &Context, text: String) -> String {
        let client = cx.principal().map(|principal| principal.client.to_string());
        *self.client_of_last_call.lock().unwrap() = client;
        format!("{}: {text}", self.state.get().session)
    }

    async fn hang(&self, cx: &Context) {
        cx.cancelled().await;
    }
}

/// How the next launch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Works,
    CannotLaunch,
    ExitsEarly,
    NeverConnects,
    /// It works, and only a kill ends it.
    IgnoresStop,
    /// It works, and an adopting server finds it.
    Survives,
}

pub struct FakeLauncher(Arc<Shared>);

struct Shared {
    /// Where workers run: not where the server does, so that they can outlive it.
    runtime: tokio::runtime::Handle,
    behaviours: Mutex<VecDeque<Behaviour>>,
    starts: Mutex<Vec<WorkerStart>>,
    workers: Mutex<HashMap<SessionId, Arc<FakeWorker>>>,
    /// Dialled instead of what the host gives, as a process would.
    address: Mutex<Option<Arc<dyn Connect>>>,
}

pub struct FakeWorker {
    exit: watch::Sender<Option<WorkerExit>>,
    tasks: Mutex<Option<TaskScope>>,
    link: Option<Link>,
    behaviour: Behaviour,
    identity: String,
    client_of_last_call: Arc<Mutex<Option<String>>>,
}

struct Handle(Arc<FakeWorker>);

impl Default for FakeLauncher {
    fn default() -> Self {
        FakeLauncher(Arc::new(Shared {
            runtime: tokio::runtime::Handle::current(),
            behaviours: Mutex::default(),
            starts: Mutex::default(),
            workers: Mutex::default(),
            address: Mutex::default(),
        }))
    }
}

impl FakeLauncher {
    pub fn dial(&self, address: Arc<dyn Connect>) {
        *self.0.address.lock().unwrap() = Some(address);
    }

    /// The launches to come behave so, those after them work.
    pub fn plan(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.0.behaviours.lock().unwrap().extend(behaviours);
    }

    pub fn starts(&self) -> Vec<WorkerStart> {
        self.0.starts.lock().unwrap().clone()
    }

    pub fn worker(&self, session_id: &SessionId) -> Arc<FakeWorker> {
        Arc::clone(&self.0.workers.lock().unwrap()[session_id])
    }
}

impl FakeWorker {
    /// As if killed by a signal.
    pub fn crash(&self) {
        self.end(false, "was killed by signal 9");
    }

    /// As if nobody needed it any more.
    pub fn exit(&self) {
        self.end(true, "exited with status 0");
    }

    pub fn has_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    pub fn client_of_last_call(&self) -> Option<String> {
        self.client_of_last_call.lock().unwrap().clone()
    }

    /// The server's services, with the worker's credential.
    pub fn server<C: ServiceClient>(&self) -> C {
        self.link.as_ref().unwrap().server().use_service()
    }

    pub fn children(&self) -> SessionChildrenClient {
        self.server()
    }

    /// Hosts a child beside the worker's own session: a link with the child's credential.
    pub fn host(&self, start: ChildStart, server: Arc<dyn Connect>) -> FakeWorker {
        let start: WorkerStart = serde_json::from_value(start.0).unwrap();
        run(&start, 0, server, Behaviour::Works)
    }

    pub fn record(&self) -> SessionRecordClient {
        self.server()
    }

    fn end(&self, orderly: bool, description: &str) {
        drop(self.tasks.lock().unwrap().take());
        self.exit.send_if_modified(|exit| {
            let first = exit.is_none();
            exit.get_or_insert(WorkerExit {
                orderly,
                description: description.into(),
            });
            first
        });
    }
}

impl LaunchedWorker for Handle {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn identity(&self) -> Option<String> {
        (self.0.behaviour == Behaviour::Survives).then(|| self.0.identity.clone())
    }

    fn exited(&self) -> BoxFuture<'static, WorkerExit> {
        let mut exit = self.0.exit.subscribe();
        async move {
            let ended = exit
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|exit| exit.clone());
            ended.expect("the worker outlives who waits for it")
        }
        .boxed()
    }

    fn request_stop(&self) {
        if self.0.behaviour != Behaviour::IgnoresStop {
            self.0.exit();
        }
    }

    fn kill(&self) {
        self.0.crash();
    }
}

impl WorkerLauncher for FakeLauncher {
    fn launch(
        &self,
        _cx: &Context,
        start: WorkerStart,
        server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, Result<Box<dyn LaunchedWorker>, LaunchError>> {
        let behaviour = self
            .0
            .behaviours
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Behaviour::Works);
        async move {
            let mut starts = self.0.starts.lock().unwrap();
            starts.push(start.clone());
            if behaviour == Behaviour::CannotLaunch {
                return Err(LaunchError("the program is gone; install it again".into()));
            }
            let address = self.0.address.lock().unwrap().clone();
            let _worker_runtime = self.0.runtime.enter();
            let worker = Arc::new(run(
                &start,
                starts.len(),
                address.unwrap_or(server),
                behaviour,
            ));
            if behaviour == Behaviour::ExitsEarly {
                worker.end(false, "exited with status 1");
            }
            self.0
                .workers
                .lock()
                .unwrap()
                .insert(start.session_id, Arc::clone(&worker));
            Ok(Box::new(Handle(worker)) as Box<dyn LaunchedWorker>)
        }
        .boxed()
    }

    fn adopt(&self, identity: &str) -> Option<Box<dyn LaunchedWorker>> {
        let workers = self.0.workers.lock().unwrap();
        let found = workers
            .values()
            .find(|worker| worker.identity == identity && !worker.has_ended())?;
        Some(Box::new(Handle(Arc::clone(found))))
    }
}

fn run(
    start: &WorkerStart,
    number: usize,
    server: Arc<dyn Connect>,
    behaviour: Behaviour,
) -> FakeWorker {
    let tasks = TaskScope::new();
    let client_of_last_call = Arc::new(Mutex::new(None));
    let table = ServiceTable::new();
    let session = start.session_id.to_string();
    let state = StateCell::new(ProbeState {
        session,
        launch: u32::try_from(number).unwrap(),
    });
    let provided = Provided {
        state,
        client_of_last_call: Arc::clone(&client_of_last_call),
    };
    table.provide(ProbeClient::new(provided).exposed()).unwrap();
    table.activate();
    let connects = !matches!(behaviour, Behaviour::NeverConnects | Behaviour::ExitsEarly);
    let link = connects.then(|| {
        let hello = Hello {
            role: Role::Worker,
            product_version: "0.1.0".into(),
            credential: Credential::token(start.credential.reveal()),
        };
        Link::start(&tasks.spawner(), server, hello, table)
    });
    let (exit, identity) = (watch::Sender::new(None), format!("worker-{number}"));
    let tasks = Mutex::new(Some(tasks));
    FakeWorker {
        exit,
        tasks,
        link,
        behaviour,
        identity,
        client_of_last_call,
    }
}
