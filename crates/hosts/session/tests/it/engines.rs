//! The engine seam: what the host asks of an engine, with one that a script plays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bezel_api_session::backend::{AgentBackend, LaneBackend};
use bezel_api_session::{
    Admission, AgentEvent, Capabilities, Capability, Engine, EngineError, EngineSession,
    EngineStart, Facet, ForkError, ForkPlan, LaneError, LedgerTotals, Navigation, NavigationError,
    Outcome, PromptError, SessionContext, SessionIdentity,
};
use bezel_context::Context;
use bezel_host_session::{HarnessConfig, HarnessEngine};
use bezel_session_types::{
    CommandId, Delivery, Entry, EntryId, LaneName, ModelRef, OperationId, QueuedMessage, RunState,
    ThinkingLevel, UserMessage,
};
use bezel_testkit::{Script, ScriptedProvider, Turn};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use crate::world::Place;

/// Says what it was asked, and can do nothing but take messages.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

impl Engine for Recorder {
    fn open(
        &self,
        start: EngineStart,
    ) -> BoxFuture<'_, Result<Arc<dyn EngineSession>, EngineError>> {
        self.note(format!("open {}", start.identity.session_id));
        let session = Recorded {
            recorder: self.clone(),
            start,
            activity: watch::Sender::new(RunState::Idle),
            queue: watch::Sender::new(Arc::from([])),
        };
        async move { Ok(Arc::new(session) as Arc<dyn EngineSession>) }.boxed()
    }
}

struct Recorded {
    recorder: Recorder,
    start: EngineStart,
    activity: watch::Sender<RunState>,
    queue: watch::Sender<Arc<[QueuedMessage]>>,
}

const STEER_ALONE: Capabilities = Capabilities::of("recorder", &[Capability::Steer]);

impl EngineSession for Recorded {
    fn go_on<'a>(&'a self, _cx: &'a Context) -> BoxFuture<'a, ()> {
        let names: Vec<String> = self
            .start
            .providers
            .current()
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        self.recorder
            .note(format!("go on with {}", names.join(", ")));
        async {}.boxed()
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.recorder.note("close");
        async {}.boxed()
    }
}

impl AgentBackend for Recorded {
    fn identity(&self) -> &SessionIdentity {
        &self.start.identity
    }

    fn environment(&self) -> &Arc<BTreeMap<String, String>> {
        &self.start.environment
    }

    fn main(&self) -> Arc<dyn LaneBackend> {
        Arc::new(RecordedLane {
            recorder: self.recorder.clone(),
            activity: self.activity.subscribe(),
            queue: self.queue.subscribe(),
        })
    }

    fn capabilities(&self) -> Capabilities {
        STEER_ALONE
    }

    fn lane(&self, _name: &LaneName) -> Option<Arc<dyn LaneBackend>> {
        None
    }

    fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<AgentEvent>> {
        mpsc::unbounded_channel().1
    }

    fn recent(
        &self,
        _before: Option<EntryId>,
        _limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Entry>, bool), LaneError>> {
        async { Ok((Vec::new(), false)) }.boxed()
    }

    fn entry(&self, _id: EntryId) -> BoxFuture<'_, Result<Option<Entry>, LaneError>> {
        async { Ok(None) }.boxed()
    }

    fn tip(&self) -> Option<EntryId> {
        None
    }

    fn retire(&self, reason: &str) {
        self.start.retired.send_replace(Some(reason.to_owned()));
    }

    fn usage(&self) -> BoxFuture<'_, Result<LedgerTotals, LaneError>> {
        async { Ok(LedgerTotals::default()) }.boxed()
    }
}

struct RecordedLane {
    recorder: Recorder,
    activity: watch::Receiver<RunState>,
    queue: watch::Receiver<Arc<[QueuedMessage]>>,
}

fn no() -> BoxFuture<'static, Result<bool, LaneError>> {
    async { Ok(false) }.boxed()
}

impl LaneBackend for RecordedLane {
    fn capabilities(&self) -> Capabilities {
        STEER_ALONE
    }

    fn prompt<'a>(
        &'a self,
        _cx: &'a Context,
        command_id: CommandId,
        message: UserMessage,
        _delivery: Delivery,
        _resume: bool,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        self.recorder
            .note(format!("{command_id}: {}", message.to_text()));
        let admission = Admission {
            operation_id: OperationId::new("op"),
            message_id: None,
        };
        async move { Ok(admission) }.boxed()
    }

    fn request_abort<'a>(
        &'a self,
        _cx: &'a Context,
        _id: &'a OperationId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        no()
    }

    fn edit<'a>(
        &'a self,
        _cx: &'a Context,
        _id: &'a EntryId,
        _message: UserMessage,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        no()
    }

    fn promote<'a>(
        &'a self,
        _cx: &'a Context,
        _id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        no()
    }

    fn resume<'a>(&'a self, _cx: &'a Context) -> BoxFuture<'a, Result<bool, LaneError>> {
        no()
    }

    fn withdraw<'a>(
        &'a self,
        _cx: &'a Context,
        _id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        no()
    }

    fn wait<'a>(
        &'a self,
        _cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<Outcome, LaneError>> {
        async { Err(LaneError::UnknownOperation(operation.clone())) }.boxed()
    }

    fn activity(&self) -> watch::Receiver<RunState> {
        self.activity.clone()
    }

    fn queue(&self) -> watch::Receiver<Arc<[QueuedMessage]>> {
        self.queue.clone()
    }

    fn set_model(&self, _model: Option<ModelRef>, _thinking: ThinkingLevel) {}
}

fn silent() -> ScriptedProvider {
    ScriptedProvider::new(Script::repeating(Turn::text("yes")))
}

#[tokio::test]
async fn the_host_opens_an_engine_goes_on_once_facets_are_active_and_closes_it_last() {
    let recorder = Recorder::default();
    let session = Place::new()
        .open_with(Arc::new(recorder.clone()), &silent(), vec![])
        .await;
    session.steer("hello").await;
    session.dies().await;
    let told = recorder.0.lock().unwrap().clone();
    assert_eq!(
        told,
        ["open session", "go on with test", "hello: hello", "close"]
    );
}

#[tokio::test]
async fn what_an_engine_lacks_is_refused_by_name_and_can_be_seen_beforehand() {
    let hooks = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&hooks);
    let guard = Facet::new("guard", move |cx: SessionContext| {
        *asked.lock().unwrap() = Some(cx.agent.hooks().require());
        async { Ok(()) }
    });
    let session = Place::new()
        .open_with(Arc::new(Recorder::default()), &silent(), vec![guard])
        .await;
    let capabilities = session.agent.capabilities();
    assert_eq!(capabilities.engine, "recorder");
    assert_eq!(capabilities.list().collect::<Vec<_>>(), [Capability::Steer]);
    let lacks = |capability| STEER_ALONE.lacking(capability);
    assert_eq!(*hooks.lock().unwrap(), Some(Err(lacks(Capability::Hooks))));
    let navigated = session
        .lane
        .navigate(&session.cx, Navigation::default())
        .await;
    assert_eq!(
        navigated,
        Err(NavigationError::Unsupported(lacks(Capability::Navigate)))
    );
    let plan = ForkPlan {
        at: None,
        whole_tree: true,
        into: "/nowhere".into(),
    };
    let forked = session.agent.tree().fork(plan).await;
    assert_eq!(forked, Err(ForkError::Unsupported(lacks(Capability::Fork))));
    let compacted = session.lane.compact(&session.cx, None).await.unwrap_err();
    assert!(compacted.to_string().contains("`compact`"), "{compacted}");
    let request = session.lane.next_request(&session.cx).await;
    let lacking = lacks(Capability::ShowRequest);
    assert_eq!(request.unwrap_err(), LaneError::Unsupported(lacking));
}

#[tokio::test]
async fn the_harness_has_what_it_states() {
    let place = Place::new();
    let engine = Arc::new(HarnessEngine(HarnessConfig::default()));
    let session = place.open_with(engine, &silent(), vec![]).await;
    let capabilities = session.agent.capabilities();
    for capability in [
        Capability::Navigate,
        Capability::Fork,
        Capability::Compact,
        Capability::DurableRequests,
        Capability::ShowRequest,
    ] {
        assert!(capabilities.has(capability), "{}", capability.name());
    }
    session.steer("one").await;
    session.idle().await;
    let into = place.database().with_file_name("fork.db");
    let plan = ForkPlan {
        at: None,
        whole_tree: false,
        into,
    };
    assert_eq!(session.agent.tree().fork(plan).await, Ok(2));
    let back = session
        .lane
        .navigate(&session.cx, Navigation::default())
        .await;
    back.unwrap();
    session.idle().await;
    assert_eq!(session.agent.tree().tip(), None);
}
