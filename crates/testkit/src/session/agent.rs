//! A session that a test plays: it records what facets ask of it and says what happens in it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_api_session::backend::{
    AgentBackend, AnyHook, EntryPage, HookGuard, LaneBackend, RequestsBackend,
};
use bezel_api_session::{
    Admission, AgentEvent, ApproveTool, BeforeTool, Capabilities, Capability, Departure,
    Evaluation, EventBody, FacetError, ForkError, ForkPlan, LaneError, LedgerTotals, Navigation,
    NavigationError, OpenRequestsError, Outcome, PromptError, RunPass, SessionIdentity,
    ToolApproval, ToolCallView,
};
use bezel_context::{Context, WorkspaceId};
use bezel_session_types::{
    Access, CommandId, Delivery, Entry, EntryId, InvocationId, LaneName, ModelRef, OperationId,
    QueuedMessage, Replay, RunOutcome, RunState, SessionId, ThinkingLevel, UserMessage,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::requests::FakeRequests;

/// A message that a facet sent to the lane.
#[derive(Debug, Clone, PartialEq)]
pub struct SentPrompt {
    /// The facet's command id.
    pub command_id: CommandId,
    /// What it said.
    pub message: UserMessage,
    /// How it should enter.
    pub delivery: Delivery,
    /// Whether it should run.
    pub resume: bool,
}

/// The played session. Everything is public to the test and nothing of it to a facet.
pub struct FakeAgent {
    identity: SessionIdentity,
    environment: Arc<BTreeMap<String, String>>,
    // Plain mutex: held to read or change the record, never across an await.
    record: Mutex<Record>,
    activity: watch::Sender<RunState>,
    queue: watch::Sender<Arc<[QueuedMessage]>>,
    outcomes: watch::Sender<HashMap<OperationId, Outcome>>,
}

#[derive(Default)]
struct Record {
    subscribers: Vec<mpsc::UnboundedSender<Arc<AgentEvent>>>,
    hooks: Vec<(u64, String, AnyHook)>,
    next: u64,
    entries: Vec<Entry>,
    /// How many of them the path has; all, where nothing moved.
    on_path: Option<usize>,
    ledger: LedgerTotals,
    prompts: Vec<SentPrompt>,
    navigations: Vec<Navigation>,
    departure: Option<Departure>,
    refuse_navigation: Option<NavigationError>,
    forks: Vec<ForkPlan>,
    labels: BTreeMap<EntryId, String>,
    promoted: Vec<EntryId>,
    aborts: Vec<OperationId>,
    model: (Option<ModelRef>, ThinkingLevel),
    refuse: Option<PromptError>,
    retired: Option<String>,
    requests: HashMap<String, Arc<FakeRequests>>,
}

impl Record {
    /// The path ends there from now on.
    fn move_to(&mut self, tip: Option<&EntryId>) {
        self.on_path = tip.map_or(Some(0), |tip| {
            let place = self.entries.iter().position(|entry| entry.id == *tip);
            place.map(|place| place + 1)
        });
    }
}

impl FakeAgent {
    /// A session in `directory`, started from a shell with `environment`, or begun by the session `parent_id`.
    pub fn new(
        directory: &std::path::Path,
        environment: BTreeMap<String, String>,
        parent_id: Option<SessionId>,
    ) -> Arc<Self> {
        Arc::new(FakeAgent {
            identity: SessionIdentity {
                session_id: SessionId::new("session-under-test"),
                parent_id,
                workspace_id: WorkspaceId::new("workspace-under-test"),
                directory: directory.to_owned(),
                output_directory: directory.join(".output"),
            },
            environment: Arc::new(environment),
            record: Mutex::default(),
            activity: watch::Sender::new(RunState::Idle),
            queue: watch::Sender::new(Arc::from([])),
            outcomes: watch::Sender::new(HashMap::new()),
        })
    }

    /// Says that something happens.
    pub fn emit(&self, body: EventBody) {
        if let EventBody::RunEnded(outcome) = &body {
            let outcome = outcome.clone();
            self.outcomes.send_modify(|known| {
                known.insert(outcome.operation_id.clone(), outcome);
            });
        }
        let event = Arc::new(AgentEvent {
            at: Timestamp::UNIX_EPOCH,
            body,
        });
        self.lock()
            .subscribers
            .retain(|subscriber| subscriber.send(Arc::clone(&event)).is_ok());
    }

    /// Says what the lane does now.
    pub fn set_activity(&self, activity: RunState) {
        self.activity.send_replace(activity);
    }

    /// Says what waits now.
    pub fn set_queue(&self, queue: Vec<QueuedMessage>) {
        self.queue.send_replace(queue.into());
    }

    /// What is in the tree, oldest first.
    pub fn set_entries(&self, entries: Vec<Entry>) {
        let mut record = self.lock();
        (record.entries, record.on_path) = (entries, None);
    }

    /// What the ledger adds up to.
    pub fn set_ledger(&self, ledger: LedgerTotals) {
        self.lock().ledger = ledger;
    }

    /// The next prompts are refused so.
    pub fn refuse_prompts(&self, error: PromptError) {
        self.lock().refuse = Some(error);
    }

    /// What facets sent to the lane.
    pub fn prompts(&self) -> Vec<SentPrompt> {
        self.lock().prompts.clone()
    }

    /// Where facets moved the lane.
    pub fn navigations(&self) -> Vec<Navigation> {
        self.lock().navigations.clone()
    }

    /// Where facets let the next run begin.
    pub fn departure(&self) -> Option<Departure> {
        self.lock().departure.clone()
    }

    /// Goes to where the next run begins, as a run does.
    pub fn depart(&self) {
        let mut record = self.lock();
        let Some(Departure { from }) = record.departure.take() else {
            return;
        };
        record.move_to(from.as_ref());
        drop(record);
        self.emit(EventBody::Navigated { tip: from });
    }

    /// The next navigations are refused so.
    pub fn refuse_navigations(&self, error: NavigationError) {
        self.lock().refuse_navigation = Some(error);
    }

    /// The copies that facets asked for. Each is made as an empty file.
    pub fn forks(&self) -> Vec<ForkPlan> {
        self.lock().forks.clone()
    }

    /// Messages that facets let steer.
    pub fn promoted(&self) -> Vec<EntryId> {
        self.lock().promoted.clone()
    }

    /// What facets asked to abort.
    pub fn aborts(&self) -> Vec<OperationId> {
        self.lock().aborts.clone()
    }

    /// The model that facets set.
    pub fn model(&self) -> (Option<ModelRef>, ThinkingLevel) {
        self.lock().model.clone()
    }

    /// Why a facet retired the worker.
    pub fn retired(&self) -> Option<String> {
        self.lock().retired.clone()
    }

    /// Runs the hooks before a pass as the harness does: in order, until one refuses.
    pub async fn before_pass(&self, cx: &Context) -> Result<(), FacetError> {
        let hooks = self.lock().hooks.clone();
        for (.., hook) in hooks {
            let AnyHook::BeforePass(hook) = hook else {
                continue;
            };
            let pass = RunPass {
                operation: OperationId::new("operation"),
                resumed: false,
            };
            hook(cx.clone(), pass).await?;
        }
        Ok(())
    }

    /// Runs the hooks before a tool as the harness does: in order, until one blocks.
    pub async fn before_tool(&self, tool: &str, arguments: Value) -> BeforeTool {
        let hooks: Vec<AnyHook> = self
            .lock()
            .hooks
            .iter()
            .map(|(.., hook)| hook.clone())
            .collect();
        let mut call = ToolCallView {
            invocation: InvocationId::new("call"),
            tool: tool.into(),
            arguments: Arc::new(arguments),
            replay: Replay::Never,
        };
        let mut verdict = BeforeTool::Continue;
        for hook in hooks {
            let AnyHook::BeforeTool(hook) = hook else {
                continue;
            };
            match hook(Context::background(), call.clone()).await {
                Ok(BeforeTool::Continue) => {}
                Ok(BeforeTool::Arguments(arguments)) => {
                    call.arguments = Arc::new(arguments.clone());
                    verdict = BeforeTool::Arguments(arguments);
                }
                Ok(BeforeTool::Block(reason)) => return BeforeTool::Block(reason),
                Err(error) => return BeforeTool::Block(error.to_string()),
            }
        }
        verdict
    }

    /// Runs the permission hooks for a call as the harness does, apart from deadlines: in order, until one denies.
    pub async fn approve_tool(
        &self,
        cx: &Context,
        invocation: &InvocationId,
        tool: &str,
        arguments: Value,
        accesses: Option<Vec<Access>>,
    ) -> ApproveTool {
        let mut call = ToolApproval {
            invocation: invocation.clone(),
            tool: tool.into(),
            arguments: Arc::new(arguments),
            accesses,
            evaluation: Evaluation::Nothing,
        };
        let hooks = self.lock().hooks.clone();
        for (.., hook) in &hooks {
            let AnyHook::EvaluatePermission(hook) = hook else {
                continue;
            };
            match (hook(cx.clone(), call.clone()).await, &call.evaluation) {
                (Ok(Evaluation::Deny(reason)), _) => return ApproveTool::Deny(reason),
                (Ok(said @ Evaluation::Ask(_)), Evaluation::Nothing | Evaluation::Allow)
                | (Ok(said @ Evaluation::Allow), Evaluation::Nothing) => call.evaluation = said,
                _ => {}
            }
        }
        for (.., hook) in hooks {
            let AnyHook::ApproveTool(hook) = hook else {
                continue;
            };
            match hook(cx.clone(), call.clone()).await {
                Ok(ApproveTool::Allow) => {}
                Ok(denied) => return denied,
                Err(error) => return ApproveTool::Deny(error.to_string()),
            }
        }
        ApproveTool::Allow
    }

    /// Tells of the end of a call that ran, as the harness does.
    pub async fn end_tool(
        &self,
        cx: &Context,
        invocation: &InvocationId,
        tool: &str,
    ) -> Result<(), bezel_api_session::FacetError> {
        let call = ToolCallView {
            invocation: invocation.clone(),
            tool: tool.into(),
            arguments: Arc::new(Value::Null),
            replay: Replay::Never,
        };
        let hooks = self.lock().hooks.clone();
        for (.., hook) in hooks {
            let AnyHook::ToolEnded(hook) = hook else {
                continue;
            };
            hook(cx.clone(), call.clone()).await?;
        }
        Ok(())
    }

    /// Settles a call: what it asked goes, and nobody waits for it any more.
    pub fn settle(&self, invocation: &InvocationId) {
        let channels: Vec<_> = self.lock().requests.values().cloned().collect();
        channels
            .iter()
            .for_each(|channel| channel.withdraw(invocation));
    }

    /// How many hooks are registered.
    pub fn hook_count(&self) -> usize {
        self.lock().hooks.len()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fake behind the trait objects; facets never see it.
pub(super) struct Backend(pub(super) Arc<FakeAgent>);

impl AgentBackend for Backend {
    fn identity(&self) -> &SessionIdentity {
        &self.0.identity
    }

    fn environment(&self) -> &Arc<BTreeMap<String, String>> {
        &self.0.environment
    }

    fn main(&self) -> Arc<dyn LaneBackend> {
        Arc::new(Backend(Arc::clone(&self.0)))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::of("played", &Capability::ALL)
    }

    fn lane(&self, name: &LaneName) -> Option<Arc<dyn LaneBackend>> {
        (*name == LaneName::main()).then(|| self.main())
    }

    fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<AgentEvent>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().subscribers.push(sender);
        receiver
    }

    fn hook(&self, plugin: &str, hook: AnyHook) -> HookGuard {
        let mut record = self.0.lock();
        record.next += 1;
        let id = record.next;
        record.hooks.push((id, plugin.to_owned(), hook));
        Box::new(TakeOut {
            agent: Arc::clone(&self.0),
            id,
        })
    }

    fn requests(
        &self,
        plugin: &str,
        id: &str,
        _request: &Value,
        _response: &Value,
    ) -> Result<Arc<dyn RequestsBackend>, OpenRequestsError> {
        let mut record = self.0.lock();
        let channel = record.requests.entry(format!("{plugin}/{id}"));
        Ok(Arc::clone(channel.or_default()) as Arc<dyn RequestsBackend>)
    }

    fn recent(
        &self,
        before: Option<EntryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Entry>, bool), LaneError>> {
        let record = self.0.lock();
        let on_path = record.on_path.unwrap_or(record.entries.len());
        let entries = record.entries[..on_path].to_vec();
        drop(record);
        let end = before
            .and_then(|id| entries.iter().position(|entry| entry.id == id))
            .unwrap_or(entries.len());
        let start = end.saturating_sub(limit);
        let page = (entries[start..end].to_vec(), start > 0);
        async move { Ok(page) }.boxed()
    }

    fn following(
        &self,
        after: EntryId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Option<EntryPage>, LaneError>> {
        let entries = self.0.lock().entries.clone();
        let place = entries.iter().position(|entry| entry.id == after);
        let page = place.map(|place| {
            let rest = &entries[place + 1..];
            let end = limit.min(rest.len());
            (rest[..end].to_vec(), end < rest.len())
        });
        async move { Ok(page) }.boxed()
    }

    fn entry(&self, id: EntryId) -> BoxFuture<'_, Result<Option<Entry>, LaneError>> {
        let found = self
            .0
            .lock()
            .entries
            .iter()
            .find(|entry| entry.id == id)
            .cloned();
        async move { Ok(found) }.boxed()
    }

    fn tip(&self) -> Option<EntryId> {
        self.0.lock().entries.last().map(|entry| entry.id.clone())
    }

    fn all(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, LaneError>> {
        let record = self.0.lock();
        let earlier = record.entries.iter();
        let earlier = earlier.filter(|entry| before.is_none_or(|before| entry.seq < before));
        let mut page: Vec<Entry> = earlier.rev().take(limit).cloned().collect();
        page.reverse();
        async move { Ok(page) }.boxed()
    }

    fn labels(&self) -> BoxFuture<'_, Result<BTreeMap<EntryId, String>, LaneError>> {
        let labels = self.0.lock().labels.clone();
        async move { Ok(labels) }.boxed()
    }

    fn set_label<'a>(
        &'a self,
        _cx: &'a Context,
        entry: EntryId,
        label: Option<String>,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let known = self.0.lock().entries.iter().any(|known| known.id == entry);
        if known {
            let mut record = self.0.lock();
            match label.clone() {
                Some(label) => record.labels.insert(entry.clone(), label),
                None => record.labels.remove(&entry),
            };
            drop(record);
            self.0.emit(EventBody::LabelSet { entry, label });
        }
        async move { Ok(known) }.boxed()
    }

    fn fork(&self, plan: ForkPlan) -> BoxFuture<'_, Result<u64, ForkError>> {
        let made = std::fs::File::create_new(&plan.into);
        self.0.lock().forks.push(plan);
        let entries = self.0.lock().entries.len() as u64;
        let made = made.map_err(|error| ForkError::Storage(error.to_string()));
        async move { made.map(|_| entries) }.boxed()
    }

    fn retire(&self, reason: &str) {
        self.0.lock().retired = Some(reason.to_owned());
    }

    fn usage(&self) -> BoxFuture<'_, Result<LedgerTotals, LaneError>> {
        let ledger = self.0.lock().ledger;
        async move { Ok(ledger) }.boxed()
    }
}

impl LaneBackend for Backend {
    fn capabilities(&self) -> Capabilities {
        AgentBackend::capabilities(self)
    }

    fn prompt<'a>(
        &'a self,
        _cx: &'a Context,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
        resume: bool,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        let mut record = self.0.lock();
        let result = match record.refuse.clone() {
            Some(error) => Err(error),
            None => {
                let operation_id = OperationId::new(format!("operation-{}", record.prompts.len()));
                record.prompts.push(SentPrompt {
                    command_id,
                    message,
                    delivery,
                    resume,
                });
                Ok(Admission {
                    operation_id,
                    message_id: Some(EntryId::generate()),
                })
            }
        };
        async move { result }.boxed()
    }

    fn request_abort<'a>(
        &'a self,
        _cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let runs = self.0.activity.borrow().operation_id() == Some(operation);
        if runs {
            self.0.lock().aborts.push(operation.clone());
        }
        async move { Ok(runs) }.boxed()
    }

    fn compact<'a>(
        &'a self,
        _cx: &'a Context,
        _instructions: Option<String>,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        let admission = Admission {
            operation_id: OperationId::new("compaction"),
            message_id: None,
        };
        async move { Ok(admission) }.boxed()
    }

    fn navigate<'a>(
        &'a self,
        _cx: &'a Context,
        navigation: Navigation,
    ) -> BoxFuture<'a, Result<OperationId, NavigationError>> {
        let mut record = self.0.lock();
        let operation_id = OperationId::new("navigation");
        let outcome = match record.refuse_navigation.clone() {
            Some(error) => Err(error),
            None => {
                let tip = navigation.target.clone();
                record.navigations.push(navigation);
                record.departure = None;
                record.move_to(tip.as_ref());
                drop(record);
                self.0.emit(EventBody::Navigated { tip });
                self.0.emit(EventBody::RunEnded(Outcome {
                    operation_id: operation_id.clone(),
                    outcome: RunOutcome::Completed,
                }));
                Ok(operation_id)
            }
        };
        async move { outcome }.boxed()
    }

    fn set_departure<'a>(
        &'a self,
        _cx: &'a Context,
        departure: Option<Departure>,
    ) -> BoxFuture<'a, Result<(), NavigationError>> {
        let mut record = self.0.lock();
        let outcome = match record.refuse_navigation.clone() {
            Some(error) if departure.is_some() => Err(error),
            _ => {
                record.departure = departure;
                Ok(())
            }
        };
        async move { outcome }.boxed()
    }

    fn departure(&self) -> Option<Departure> {
        self.0.departure()
    }

    fn edit<'a>(
        &'a self,
        _cx: &'a Context,
        id: &'a EntryId,
        message: UserMessage,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let waits = self.0.queue.borrow().iter().any(|queued| queued.id == *id);
        self.0.queue.send_modify(|queue| {
            let changed = queue.iter().cloned().map(|queued| match queued.id == *id {
                true => QueuedMessage {
                    message: message.clone(),
                    ..queued
                },
                false => queued,
            });
            *queue = changed.collect();
        });
        async move { Ok(waits) }.boxed()
    }

    fn promote<'a>(
        &'a self,
        _cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let waits = self.0.queue.borrow().iter().any(|queued| queued.id == *id);
        if waits {
            self.0.lock().promoted.push(id.clone());
        }
        async move { Ok(waits) }.boxed()
    }

    fn resume<'a>(&'a self, _cx: &'a Context) -> BoxFuture<'a, Result<bool, LaneError>> {
        async { Ok(false) }.boxed()
    }

    fn withdraw<'a>(
        &'a self,
        _cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let waits = self.0.queue.borrow().iter().any(|queued| queued.id == *id);
        self.0.queue.send_modify(|queue| {
            *queue = queue
                .iter()
                .filter(|queued| queued.id != *id)
                .cloned()
                .collect();
        });
        async move { Ok(waits) }.boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<Outcome, LaneError>> {
        async move {
            let mut outcomes = self.0.outcomes.subscribe();
            let known = cx
                .run(outcomes.wait_for(|known| known.contains_key(operation)))
                .await;
            let known = known.map_err(|_| LaneError::Cancelled)?;
            let known = known.map_err(|_| LaneError::UnknownOperation(operation.clone()))?;
            Ok(known[operation].clone())
        }
        .boxed()
    }

    fn activity(&self) -> watch::Receiver<RunState> {
        self.0.activity.subscribe()
    }

    fn queue(&self) -> watch::Receiver<Arc<[QueuedMessage]>> {
        self.0.queue.subscribe()
    }

    fn set_model(&self, model: Option<ModelRef>, thinking: ThinkingLevel) {
        self.0.lock().model = (model, thinking);
    }
}

struct TakeOut {
    agent: Arc<FakeAgent>,
    id: u64,
}

impl Drop for TakeOut {
    fn drop(&mut self) {
        self.agent.lock().hooks.retain(|(id, ..)| *id != self.id);
    }
}
