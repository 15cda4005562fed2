//! A contract that workers and clients know and the server does not, with one of everything.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bezel_context::Spawner;
use bezel_rpc::{
    Completion, Context, EventSource, Events, Job, JobError, Reference, State, StateCell,
    reference, service,
};
use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

#[service("probe", version = "1.0")]
pub trait Probe {
    fn state(&self) -> State<ProbeState>;
    fn events(&self) -> Events<u64>;
    async fn echo(&self, cx: &Context, text: String) -> String;
    /// Client, owner and trace that the call came with, and the trace parent of what it does itself.
    async fn whoami(&self, cx: &Context) -> (String, String, String);
    /// Returns when the call is cancelled, and never otherwise.
    async fn hang(&self, cx: &Context);
    async fn explode(&self, cx: &Context) -> Result<u64, ProbeError>;
    /// A result that is JSON, but not of the strict kind.
    async fn loose(&self, cx: &Context, kind: String) -> Loose;
    /// Starts the job that everybody shares.
    async fn work(&self, cx: &Context) -> Reference<WorkClient>;
}

#[reference]
pub trait Work {
    fn done(&self) -> State<u32>;
    async fn wait(&self, cx: &Context) -> Result<u32, JobError>;
    async fn cancel(&self, cx: &Context);
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeState {
    pub session: String,
    pub count: u64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ProbeError {
    #[error("it is empty")]
    Empty,
}

/// Reads anything, and writes what a strict reader refuses.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Loose(pub serde_json::Value);

impl Serialize for Loose {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_str() {
            Some("duplicate") => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("key", &1)?;
                map.serialize_entry("key", &2)?;
                map.end()
            }
            Some("integer") => serializer.serialize_u64((1 << 53) + 1),
            Some("deep") => (0..80)
                .fold(serde_json::Value::Null, |inner, _| {
                    serde_json::json!([inner])
                })
                .serialize(serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

/// The object behind it. Clones are the same.
#[derive(Clone)]
pub struct Object {
    pub state: StateCell<ProbeState>,
    pub events: EventSource<u64>,
    /// Invocations of `hang` that run.
    pub hanging: Arc<AtomicUsize>,
    pub job: Arc<Mutex<Option<Job<u32, u32>>>>,
    pub called: Arc<AtomicUsize>,
    spawner: Spawner,
}

impl Object {
    pub fn new(session: &str, spawner: Spawner) -> Self {
        let state = ProbeState {
            session: session.into(),
            ..ProbeState::default()
        };
        Object {
            state: StateCell::new(state),
            events: EventSource::new(),
            hanging: Arc::default(),
            job: Arc::default(),
            called: Arc::default(),
            spawner,
        }
    }

    pub fn hanging(&self) -> usize {
        self.hanging.load(Ordering::SeqCst)
    }
}

struct Hanging<'o>(&'o AtomicUsize);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Probe for Object {
    fn state(&self) -> State<ProbeState> {
        self.state.state()
    }

    fn events(&self) -> Events<u64> {
        self.events.events()
    }

    async fn echo(&self, _cx: &Context, text: String) -> String {
        self.called.fetch_add(1, Ordering::SeqCst);
        format!("{}: {text}", self.state.get().session)
    }

    async fn whoami(&self, cx: &Context) -> (String, String, String) {
        let span = tracing::info_span!(
            "service.whoami",
            trace_id = format!("{:032x}", cx.trace().trace_id())
        );
        let _inside = span.enter();
        let who = cx.principal().unwrap();
        let trace = format!("{:032x}", cx.trace().trace_id());
        (who.client.to_string(), who.owner.clone(), trace)
    }

    async fn hang(&self, cx: &Context) {
        self.hanging.fetch_add(1, Ordering::SeqCst);
        let _hanging = Hanging(&self.hanging);
        cx.cancelled().await;
    }

    async fn explode(&self, _cx: &Context) -> Result<u64, ProbeError> {
        panic!("the secret recipe of /etc/recipes")
    }

    async fn loose(&self, _cx: &Context, kind: String) -> Loose {
        Loose(kind.into())
    }

    async fn work(&self, _cx: &Context) -> WorkClient {
        let mut job = self.job.lock().unwrap();
        let start = || {
            Job::start(&self.spawner, "work", 0, |cx, _| async move {
                cx.cancelled().await;
                Ok(0)
            })
        };
        let job: &Job<u32, u32> = job.get_or_insert_with(start);
        WorkClient::new(Working(job.clone()))
    }
}

struct Working(Job<u32, u32>);

impl Work for Working {
    fn done(&self) -> State<u32> {
        self.0.progress()
    }

    async fn wait(&self, _cx: &Context) -> Result<u32, JobError> {
        self.0.wait().await
    }

    async fn cancel(&self, _cx: &Context) {
        self.0.cancel();
    }

    fn completion(&self) -> Option<Completion> {
        Some(self.0.completion())
    }
}
