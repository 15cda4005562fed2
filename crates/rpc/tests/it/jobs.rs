//! A contract with references: jobs, what they show, and objects that never complete.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bezel_context::{Spawner, TaskScope};
use bezel_rpc::{
    Completion, Context, EventSource, Events, Job, JobError, Reference, ReferenceClient, State,
    StateCell, reference, service,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub done: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ScanEvent {
    Found { name: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum StartError {
    #[error("there is no folder {root}")]
    NoFolder { root: String },
}

#[service("scanner", version = "1.0")]
pub trait Scanner {
    /// A new job.
    async fn start(&self, cx: &Context, root: String) -> Result<Reference<ScanClient>, StartError>;
    /// The newest job.
    #[scope(read)]
    async fn current(&self, cx: &Context) -> Option<Reference<ScanClient>>;
    /// An object of its own for each caller.
    #[scope(read)]
    async fn pen(&self, cx: &Context) -> Reference<PenClient>;
    /// What another host gave this one.
    async fn passed_on(&self, cx: &Context) -> Option<Reference<PenClient>>;
}

#[reference]
pub trait Scan {
    fn progress(&self) -> State<Progress>;
    fn events(&self) -> Events<ScanEvent>;
    #[scope(read)]
    async fn wait(&self, cx: &Context) -> Result<u32, JobError>;
    async fn cancel(&self, cx: &Context);
}

#[reference]
pub trait Pen {
    fn ink(&self) -> State<u32>;
    #[scope(read)]
    async fn write(&self, cx: &Context, text: String) -> usize;
    #[scope(admin)]
    async fn melt(&self, cx: &Context);
    /// A pen of the same kind.
    #[scope(read)]
    async fn copy(&self, cx: &Context) -> Reference<PenClient>;
    /// Runs until it is cancelled.
    #[scope(read)]
    async fn hang(&self, cx: &Context);
}

/// The service's object. Clones are the same.
#[derive(Clone)]
pub struct Depot(Arc<Inner>);

struct Inner {
    spawner: Spawner,
    _scope: Mutex<Option<TaskScope>>,
    jobs: Mutex<Vec<Running>>,
    pens: Arc<AtomicUsize>,
    elsewhere: Mutex<Option<PenClient>>,
}

#[derive(Clone)]
pub struct Running {
    pub job: Job<Progress, u32>,
    pub events: EventSource<ScanEvent>,
    step: Arc<Notify>,
}

impl Running {
    /// Lets the work do one step; after three it is done.
    pub fn step(&self) {
        self.step.notify_one();
    }
}

impl Depot {
    pub fn new() -> Self {
        let scope = TaskScope::new();
        Depot(Arc::new(Inner {
            spawner: scope.spawner(),
            _scope: Mutex::new(Some(scope)),
            jobs: Mutex::default(),
            pens: Arc::default(),
            elsewhere: Mutex::default(),
        }))
    }

    /// How many jobs were started.
    pub fn started(&self) -> usize {
        self.0.jobs.lock().expect("lock").len()
    }

    /// The newest job as its owner has it.
    pub fn newest(&self) -> Running {
        let jobs = self.0.jobs.lock().expect("lock");
        jobs.last().expect("one was started").clone()
    }

    /// How many pens somebody holds.
    pub fn pens(&self) -> usize {
        self.0.pens.load(Ordering::SeqCst)
    }

    /// Makes `pen` the answer of `passed_on`.
    pub fn keep(&self, pen: PenClient) {
        *self.0.elsewhere.lock().expect("lock") = Some(pen);
    }

    /// Ends the owner of the jobs.
    pub fn close(&self) {
        drop(self.0._scope.lock().expect("lock").take());
    }
}

impl Scanner for Depot {
    async fn start(&self, _cx: &Context, root: String) -> Result<ScanClient, StartError> {
        if root == "nowhere" {
            return Err(StartError::NoFolder { root });
        }
        let step = Arc::new(Notify::new());
        let steps = Arc::clone(&step);
        let work = |cx: Context, progress: StateCell<Progress>| async move {
            for _ in 0..3 {
                steps.notified().await;
                if root == "broken" {
                    return Err(JobError::failed("a file cannot be read"));
                }
                progress.update(&cx, |progress| progress.done += 1);
            }
            Ok(progress.get().done)
        };
        let job = Job::start(&self.0.spawner, "scan", Progress::default(), work);
        let running = Running {
            job,
            events: EventSource::new(),
            step,
        };
        self.0.jobs.lock().expect("lock").push(running.clone());
        Ok(ScanClient::new(running))
    }

    async fn current(&self, _cx: &Context) -> Option<ScanClient> {
        let jobs = self.0.jobs.lock().expect("lock");
        jobs.last().map(|running| ScanClient::new(running.clone()))
    }

    async fn pen(&self, _cx: &Context) -> PenClient {
        PenClient::new(Biro::new(&self.0.pens))
    }

    async fn passed_on(&self, _cx: &Context) -> Option<PenClient> {
        self.0.elsewhere.lock().expect("lock").clone()
    }
}

impl Scan for Running {
    fn progress(&self) -> State<Progress> {
        self.job.progress()
    }

    fn events(&self) -> Events<ScanEvent> {
        self.events.events()
    }

    async fn wait(&self, _cx: &Context) -> Result<u32, JobError> {
        self.job.wait().await
    }

    async fn cancel(&self, _cx: &Context) {
        self.job.cancel();
    }

    fn completion(&self) -> Option<Completion> {
        Some(self.job.completion())
    }
}

struct Biro {
    ink: StateCell<u32>,
    pens: Arc<AtomicUsize>,
}

impl Biro {
    fn new(pens: &Arc<AtomicUsize>) -> Self {
        pens.fetch_add(1, Ordering::SeqCst);
        Biro {
            ink: StateCell::new(100),
            pens: Arc::clone(pens),
        }
    }
}

impl Drop for Biro {
    fn drop(&mut self) {
        self.pens.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pen for Biro {
    fn ink(&self) -> State<u32> {
        self.ink.state()
    }

    async fn write(&self, cx: &Context, text: String) -> usize {
        self.ink.update(cx, |ink| *ink -= 1);
        text.len()
    }

    async fn melt(&self, cx: &Context) {
        self.ink.set(cx, 0);
    }

    async fn copy(&self, _cx: &Context) -> PenClient {
        PenClient::new(Biro::new(&self.pens))
    }

    async fn hang(&self, _cx: &Context) {
        std::future::pending().await
    }
}

#[test]
fn a_descriptor_tells_which_members_return_which_objects() {
    use bezel_rpc::ServiceClient;
    let scanner = ScannerClient::descriptor();
    let of = |member: &str| scanner.member(member).and_then(|member| member.reference);
    for member in ["start", "current"] {
        assert_eq!(of(member).map(|contract| contract().id), Some("Scan"));
    }
    let pen = of("pen").expect("a reference")();
    assert_eq!((pen.id, PenClient::NAME), ("Pen", "Pen"));
    assert!(
        pen.member("copy")
            .is_some_and(|copy| copy.reference.is_some())
    );
    assert!(
        pen.member("write")
            .is_some_and(|write| write.reference.is_none())
    );
}
