//! What engines and test kits implement behind the public handles. What not every engine can do has a
//! default that refuses it by the name of the capability.

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_context::Context;
use bezel_rpc::Remote;
use bezel_session_types::{
    BegunCall, CommandId, Delivery, Entry, EntryId, InvocationId, LaneName, ModelRef, NextRequest,
    OperationId, PendingRequest, QueuedMessage, RunState, SessionId, SubmitOutcome, ThinkingLevel,
    UserMessage,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::agent::{
    Admission, Departure, ForkError, ForkPlan, LaneError, LedgerTotals, Navigation,
    NavigationError, Outcome, PromptError, SessionIdentity,
};
use crate::engine::{Capabilities, Capability};
use crate::events::{AgentEvent, EventBody};
use crate::hooks::{
    AfterRequestHook, AfterToolHook, ApproveToolHook, BeforeCompactionHook, BeforeNavigationHook,
    BeforePassHook, BeforeRequestHook, BeforeRunEndHook, BeforeRunHook, BeforeToolHook,
    EvaluatePermissionHook, ToolEndedHook,
};
use crate::requests::{OpenRequestsError, SubmitError, WaitError};
pub use crate::sessions::ask;
use crate::sessions::{HostedSession, SessionsError};

/// Entries, and whether there are more.
pub type EntryPage = (Vec<Entry>, bool);

/// The session behind [`crate::Agent`].
pub trait AgentBackend: Send + Sync {
    /// See [`crate::Agent::identity`].
    fn identity(&self) -> &SessionIdentity;
    /// See [`crate::Agent::environment`].
    fn environment(&self) -> &Arc<BTreeMap<String, String>>;
    /// See [`crate::Agent::main`].
    fn main(&self) -> Arc<dyn LaneBackend>;
    /// See [`crate::Agent::capabilities`].
    fn capabilities(&self) -> Capabilities;
    /// See [`crate::Agent::lane`].
    fn lane(&self, name: &LaneName) -> Option<Arc<dyn LaneBackend>>;
    /// A new subscriber to everything that happens from now on.
    fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<AgentEvent>>;
    /// Tells the subscribers of something that the session's host found.
    fn tell(&self, _body: EventBody) {}
    /// Registers a hook under its plugin's name; dropping the guard takes it out.
    fn hook(&self, plugin: &str, _hook: AnyHook) -> HookGuard {
        let lacking = self.capabilities().lacking(Capability::Hooks);
        tracing::warn!(plugin, "a hook is never called: {lacking}");
        Box::new(())
    }
    /// Opens a plugin's channel of durable requests, with the JSON Schemas of request and response. What
    /// an earlier process left asked is pending at once.
    fn requests(
        &self,
        plugin: &str,
        id: &str,
        _request: &Value,
        _response: &Value,
    ) -> Result<Arc<dyn RequestsBackend>, OpenRequestsError> {
        let lacking = self.capabilities().lacking(Capability::DurableRequests);
        Err(OpenRequestsError {
            id: format!("{plugin}/{id}"),
            reason: lacking.to_string(),
        })
    }
    /// See [`crate::Agent::open_requests`].
    fn open_requests(&self) -> watch::Receiver<usize> {
        watch::channel(0).1
    }
    /// See [`crate::Agent::begun_before`].
    fn begun_before(&self) -> Vec<BegunCall> {
        Vec::new()
    }
    /// See [`crate::SessionTree::recent`].
    fn recent(
        &self,
        before: Option<EntryId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<EntryPage, LaneError>>;
    /// See [`crate::SessionTree::following`].
    fn following(
        &self,
        _after: EntryId,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Option<EntryPage>, LaneError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::SessionTree::entry`].
    fn entry(&self, id: EntryId) -> BoxFuture<'_, Result<Option<Entry>, LaneError>>;
    /// See [`crate::SessionTree::tip`].
    fn tip(&self) -> Option<EntryId>;
    /// See [`crate::SessionTree::all`].
    fn all(
        &self,
        _before: Option<u64>,
        _limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Entry>, LaneError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::SessionTree::labels`].
    fn labels(&self) -> BoxFuture<'_, Result<BTreeMap<EntryId, String>, LaneError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::SessionTree::set_label`].
    fn set_label<'a>(
        &'a self,
        _cx: &'a Context,
        _entry: EntryId,
        _label: Option<String>,
    ) -> BoxFuture<'a, Result<bool, LaneError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::SessionTree::fork`].
    fn fork(&self, _plan: ForkPlan) -> BoxFuture<'_, Result<u64, ForkError>> {
        let lacking = self.capabilities().lacking(Capability::Fork);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::Retirement::retire`].
    fn retire(&self, reason: &str);
    /// See [`crate::SessionTree::usage`].
    fn usage(&self) -> BoxFuture<'_, Result<LedgerTotals, LaneError>>;
}

/// Takes a hook out when dropped.
pub type HookGuard = Box<dyn std::any::Any + Send>;

/// A hook of any kind.
#[derive(Clone)]
pub enum AnyHook {
    /// See [`crate::Hooks::before_tool`].
    BeforeTool(BeforeToolHook),
    /// See [`crate::Hooks::evaluate_permission`].
    EvaluatePermission(EvaluatePermissionHook),
    /// See [`crate::Hooks::approve_tool`].
    ApproveTool(ApproveToolHook),
    /// See [`crate::Hooks::tool_ended`].
    ToolEnded(ToolEndedHook),
    /// See [`crate::Hooks::after_tool`].
    AfterTool(AfterToolHook),
    /// See [`crate::Hooks::before_request`].
    BeforeRequest(BeforeRequestHook),
    /// See [`crate::Hooks::after_response`].
    AfterResponse(AfterRequestHook),
    /// See [`crate::Hooks::before_pass`].
    BeforePass(BeforePassHook),
    /// See [`crate::Hooks::before_run`].
    BeforeRun(BeforeRunHook),
    /// See [`crate::Hooks::before_run_end`].
    BeforeRunEnd(BeforeRunEndHook),
    /// See [`crate::Hooks::before_compaction`].
    BeforeCompaction(BeforeCompactionHook),
    /// See [`crate::Hooks::before_navigation`].
    BeforeNavigation(BeforeNavigationHook),
}

/// The channel behind [`crate::DurableRequests`].
pub trait RequestsBackend: Send + Sync {
    /// What waits, in the order of asking, now and from now on.
    fn pending(&self) -> watch::Receiver<Arc<[PendingRequest<Arc<Value>>]>>;
    /// See [`crate::DurableRequests::wait`].
    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        invocation: &'a InvocationId,
        request: Value,
    ) -> BoxFuture<'a, Result<Arc<Value>, WaitError>>;
    /// See [`crate::DurableRequests::submit`].
    fn submit<'a>(
        &'a self,
        cx: &'a Context,
        invocation: &'a InvocationId,
        response: Value,
    ) -> BoxFuture<'a, Result<SubmitOutcome, SubmitError>>;
}

/// The tree of sessions that lives in one process, behind [`crate::Sessions`].
pub trait TreeBackend: Send + Sync {
    /// A session that lives here now.
    fn hosted(&self, session_id: &SessionId) -> Option<Arc<dyn AgentBackend>>;
    /// All that live here, now and from now on.
    fn members(&self) -> watch::Receiver<Arc<[HostedSession]>>;
    /// The services of one that lives here.
    fn services(&self, session_id: &SessionId) -> Option<Remote>;
    /// A session of the tree whose facets are active, taken up where it does not live here; `by` wants it, and
    /// has none taken up while its own facets are not active.
    fn ensure<'a>(
        &'a self,
        cx: &'a Context,
        by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Arc<dyn AgentBackend>, SessionsError>>;
    /// The same, for its services: they can be called.
    fn reach<'a>(
        &'a self,
        cx: &'a Context,
        by: &'a SessionId,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Remote, SessionsError>>;
    /// See [`crate::Sessions::until_active`].
    fn until_active<'a>(
        &'a self,
        cx: &'a Context,
        session_id: &'a SessionId,
    ) -> BoxFuture<'a, Result<(), SessionsError>>;
}

/// The lane behind [`crate::Lane`].
pub trait LaneBackend: Send + Sync {
    /// What the engine behind it can do. What it lacks, the defaults below refuse by name.
    fn capabilities(&self) -> Capabilities;
    /// See [`crate::Lane::prompt`].
    fn prompt<'a>(
        &'a self,
        cx: &'a Context,
        command_id: CommandId,
        message: UserMessage,
        delivery: Delivery,
        resume: bool,
    ) -> BoxFuture<'a, Result<Admission, PromptError>>;
    /// See [`crate::Lane::request_abort`].
    fn request_abort<'a>(
        &'a self,
        cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<bool, LaneError>>;
    /// See [`crate::Lane::compact`].
    fn compact<'a>(
        &'a self,
        _cx: &'a Context,
        _instructions: Option<String>,
    ) -> BoxFuture<'a, Result<Admission, PromptError>> {
        let lacking = self.capabilities().lacking(Capability::Compact);
        async move { Err(PromptError::Refused(lacking.to_string())) }.boxed()
    }
    /// See [`crate::Lane::navigate`].
    fn navigate<'a>(
        &'a self,
        _cx: &'a Context,
        _navigation: Navigation,
    ) -> BoxFuture<'a, Result<OperationId, NavigationError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::Lane::set_departure`].
    fn set_departure<'a>(
        &'a self,
        _cx: &'a Context,
        _departure: Option<Departure>,
    ) -> BoxFuture<'a, Result<(), NavigationError>> {
        let lacking = self.capabilities().lacking(Capability::Navigate);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::Lane::departure`].
    fn departure(&self) -> Option<Departure> {
        None
    }
    /// See [`crate::Lane::edit`].
    fn edit<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
        message: UserMessage,
    ) -> BoxFuture<'a, Result<bool, LaneError>>;
    /// See [`crate::Lane::promote`].
    fn promote<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>>;
    /// See [`crate::Lane::resume`].
    fn resume<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<bool, LaneError>>;
    /// See [`crate::Lane::withdraw`].
    fn withdraw<'a>(
        &'a self,
        cx: &'a Context,
        id: &'a EntryId,
    ) -> BoxFuture<'a, Result<bool, LaneError>>;
    /// See [`crate::Lane::wait`].
    fn wait<'a>(
        &'a self,
        cx: &'a Context,
        operation: &'a OperationId,
    ) -> BoxFuture<'a, Result<Outcome, LaneError>>;
    /// See [`crate::Lane::next_request`].
    fn next_request<'a>(
        &'a self,
        _cx: &'a Context,
    ) -> BoxFuture<'a, Result<NextRequest, LaneError>> {
        let lacking = self.capabilities().lacking(Capability::ShowRequest);
        async move { Err(lacking.into()) }.boxed()
    }
    /// See [`crate::Lane::activity`].
    fn activity(&self) -> watch::Receiver<RunState>;
    /// See [`crate::Lane::queue`].
    fn queue(&self) -> watch::Receiver<Arc<[QueuedMessage]>>;
    /// See [`crate::Lane::set_model`].
    fn set_model(&self, model: Option<ModelRef>, thinking: ThinkingLevel);
}
