//! The harness as the engine of a session.

use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::backend::AgentBackend;
use bezel_api_session::{Engine, EngineError, EngineSession, EngineStart, FoundSession};
use bezel_context::{Context, Spawner};
use bezel_harness::{EventKind, Harness, HarnessConfig, HarnessOptions, OpenLane, Store};
use bezel_session_types::LaneName;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::backend::HostAgent;
use crate::events::{self, Bus};
use crate::lane::HostLane;
use crate::sources::{self, Models, Prompt};

/// Takes sessions up with Bezel's own harness.
pub struct HarnessEngine(pub HarnessConfig);

impl Engine for HarnessEngine {
    fn open(
        &self,
        start: EngineStart,
    ) -> BoxFuture<'_, Result<Arc<dyn EngineSession>, EngineError>> {
        let opened = open(start, self.0.clone());
        async move { opened.map(|session| session as Arc<dyn EngineSession>) }.boxed()
    }
}

fn open(start: EngineStart, config: HarnessConfig) -> Result<Arc<HostAgent>, EngineError> {
    let EngineStart {
        identity,
        environment,
        database,
        spawner,
        tools,
        providers,
        prompt,
        retired,
    } = start;
    let harness = Harness::open(HarnessOptions {
        store: Store::open(&database).map_err(EngineError::new)?,
        session_id: identity.session_id.clone(),
        directory: identity.directory.clone(),
        output_directory: identity.output_directory.clone(),
        spawner: spawner.clone(),
        config,
    })
    .map_err(EngineError::new)?;
    let models = Arc::new(Models::new(providers));
    harness.set_model_source(Arc::clone(&models) as Arc<dyn bezel_harness::ModelSource>);
    harness.set_system_prompt(Arc::new(Prompt(prompt.clone())));
    let bus = Arc::new(Bus::default());
    spawner.spawn(
        "session events",
        events::pump(harness.subscribe(), harness.committed(), Arc::clone(&bus)),
    );
    let main = Arc::new(HostLane {
        lane: harness.main(),
        models,
        prompt,
        queue: follow_queue(&harness, &spawner),
    });
    Ok(Arc::new(HostAgent {
        identity,
        environment,
        harness,
        bus,
        main,
        tools,
        following_tools: Mutex::default(),
        retired,
    }))
}

impl EngineSession for HostAgent {
    fn go_on<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, ()> {
        async move {
            let harness = self.harness.clone();
            let following = self
                .tools
                .follow(move |set| harness.set_tools(Arc::new(sources::tools(set))));
            let before = {
                let mut current = self
                    .following_tools
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                current.replace(following)
            };
            drop(before);
            // What was recorded to wait, or held by an interrupt, waits on.
            for found in self.harness.opened().iter().filter(|found| goes_on(found)) {
                let lane = self.harness.lane(&found.lane);
                if let Err(error) = lane.resume(cx).await {
                    tracing::error!(lane = %found.lane, %error, "the session could not go on with what was open");
                }
            }
        }
        .boxed()
    }

    fn found(&self) -> FoundSession {
        match self.tip() {
            _ if self.harness.opened().iter().any(goes_on) => FoundSession::Resumed,
            None => FoundSession::New,
            Some(_) => FoundSession::Reopened,
        }
    }

    fn is_idle(&self) -> bool {
        self.harness.lane(&LaneName::main()).state().is_idle()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let following = {
            let mut current = self
                .following_tools
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            current.take()
        };
        drop(following);
        self.harness.close().boxed()
    }
}

/// Whether there is something in a lane that runs as soon as the session is there again.
fn goes_on(found: &OpenLane) -> bool {
    found.operation_id.is_some() || found.resume
}

/// The main lane's waiting messages, now and from now on.
fn follow_queue(
    harness: &Harness,
    spawner: &Spawner,
) -> watch::Receiver<Arc<[bezel_session_types::QueuedMessage]>> {
    let mut watched = harness.main().watch();
    let sender = watch::Sender::new(watched.snapshot.queued.clone());
    let receiver = sender.subscribe();
    spawner.spawn("message queue", async move {
        while let Some(event) = watched.events.next().await {
            if let EventKind::QueueUpdate { queued } = event.kind {
                sender.send_replace(queued);
            }
        }
    });
    receiver
}
