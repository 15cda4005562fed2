//! A session host whose server cannot be reached, and a facet that hands its agent out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_api_session::{
    Agent, Availability, Engine, Facet, FacetError, Lane, ProviderEntry, SessionContext,
    SessionFacet,
};
use bezel_context::{Context, WorkspaceId};
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RunningSession, SessionHost, SessionHostOptions,
    SessionIdentity, StartChild, WorkerTree,
};
use bezel_plugin::{Deadlines, Manifest, ManifestEntry};
use bezel_rpc::{Connect, ConnectError, Credential, Hello, Role, Transport};
use bezel_session_types::{
    CommandId, Delivery, Message, ModelRef, SessionId, ThinkingLevel, UserMessage,
};
use bezel_testkit::ScriptedProvider;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;

/// A server that is never there.
struct Nowhere;

impl Connect for Nowhere {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        std::future::pending().boxed()
    }
}

/// A place on the disk that a session comes back to.
pub struct Place(TempDir);

/// A session that is open.
pub struct Opened {
    pub host: RunningSession,
    pub agent: Agent,
    pub lane: Lane,
    pub cx: Context,
}

impl Place {
    pub fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// The session's directory.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn database(&self) -> PathBuf {
        self.0.path().join("session.db")
    }

    pub async fn open(&self, model: &ScriptedProvider) -> Opened {
        let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
        self.open_with(engine, model, vec![]).await
    }

    pub async fn open_with(
        &self,
        engine: Arc<dyn Engine>,
        model: &ScriptedProvider,
        more: Vec<SessionFacet>,
    ) -> Opened {
        self.open_configured(engine, model, more, BTreeMap::new())
            .await
    }

    /// With configuration of plugins by their name.
    pub async fn open_configured(
        &self,
        engine: Arc<dyn Engine>,
        model: &ScriptedProvider,
        more: Vec<SessionFacet>,
        config: BTreeMap<&str, Value>,
    ) -> Opened {
        let handed = Arc::new(Mutex::new(None));
        let mut facets = vec![probe(model.clone(), Arc::clone(&handed))];
        facets.extend(more);
        let entry = |facet: &SessionFacet| ManifestEntry {
            config: config
                .get(facet.plugin().as_str())
                .cloned()
                .unwrap_or_default(),
            ..ManifestEntry::required(facet.plugin().as_str(), "1.0.0")
        };
        let host = SessionHost::start(SessionHostOptions {
            manifest: Manifest {
                plugins: facets.iter().map(entry).collect(),
            },
            facets,
            connect: Arc::new(Nowhere),
            hello: Hello {
                role: Role::Worker,
                product_version: "1.0.0".into(),
                credential: Credential::token("none"),
            },
            identity: SessionIdentity {
                session_id: SessionId::new("session"),
                parent_id: None,
                workspace_id: WorkspaceId::new("workspace"),
                directory: self.0.path().to_owned(),
                output_directory: self.0.path().join("output"),
            },
            environment: BTreeMap::new(),
            database: self.database(),
            tree: WorkerTree::new(Arc::new(NoChildren)),
            engine,
            deadlines: Deadlines::default(),
        });
        let host = host.await.unwrap();
        let agent: Agent = handed.lock().unwrap().take().unwrap();
        Opened {
            host,
            lane: agent.main(),
            agent,
            cx: Context::background().with_timeout(Duration::from_secs(3_600)),
        }
    }
}

/// For sessions that begin no other.
struct NoChildren;

impl StartChild for NoChildren {
    fn start(
        &self,
        _tree: WorkerTree,
        _start: serde_json::Value,
    ) -> BoxFuture<'_, Result<RunningSession, ChildStartError>> {
        async { Err(ChildStartError("nothing is started here".into())) }.boxed()
    }
}

fn probe(model: ScriptedProvider, handed: Arc<Mutex<Option<Agent>>>) -> SessionFacet {
    Facet::new("probe", move |cx: SessionContext| {
        let (model, handed) = (model.clone(), Arc::clone(&handed));
        async move {
            let entry = ProviderEntry {
                provider: Arc::new(model),
                models: vec![],
                availability: Availability::Available,
                key_origin: None,
                listing: None,
            };
            cx.providers
                .add(move |draft| draft.set("test", entry.clone()));
            let chosen = ModelRef {
                provider: "test".into(),
                model_id: "model".into(),
            };
            let lane = cx.agent.main();
            lane.set_model(Some(chosen), ThinkingLevel::Off);
            *handed.lock().unwrap() = Some(cx.agent.clone());
            Ok::<(), FacetError>(())
        }
    })
}

impl Opened {
    pub async fn prompt(&self, id: &str, words: &str, delivery: Delivery) {
        let message = UserMessage::text(words);
        let admitted = self
            .lane
            .prompt(&self.cx, CommandId::new(id), message, delivery)
            .await;
        admitted.unwrap();
    }

    pub async fn steer(&self, words: &str) {
        self.prompt(words, words, Delivery::Steer).await;
    }

    pub async fn idle(&self) {
        self.lane.wait_idle(&self.cx).await.unwrap();
    }

    /// Waits until something runs.
    pub async fn runs(&self) {
        let mut activity = self.lane.activity();
        activity.wait_for(|state| !state.is_idle()).await.unwrap();
    }

    /// What was said on the lane's path.
    pub async fn said(&self) -> Vec<String> {
        let (entries, _) = self.agent.tree().recent(None, 1_000).await.unwrap();
        let said = entries.iter().filter_map(|entry| match entry.message() {
            Some(Message::User(user)) => Some(user.to_text()),
            Some(Message::Assistant(answer)) => Some(answer.to_text()),
            _ => None,
        });
        said.collect()
    }

    pub fn waiting(&self) -> Vec<String> {
        let queue = self.lane.queue().borrow().clone();
        queue
            .iter()
            .map(|waiting| waiting.message.to_text())
            .collect()
    }

    /// Ends as a kill would: nothing more is written.
    pub async fn dies(self) {
        let Opened {
            host, agent, lane, ..
        } = self;
        drop((agent, lane));
        let failures = host.stop().await;
        assert!(failures.is_empty(), "{failures:?}");
    }
}
