//! Interception of live operations, in order of registration; each sees what the one before made of it.
//!
//! Every hook has a deadline of 30 seconds, apart from `approve_tool`, which may wait for a person and ends with
//! the turn, and the two around the session's life, which have those of activation and disposal. One that fails,
//! panics or overruns its deadline is reported by the name of its plugin (`HandlerFailed`) and passed over, except
//! before a tool, where the call does not run, and before a pass, where the pass stops: what guards must not fail
//! open. Hooks are called in child sessions as in any other: a child has facets of its own.

use std::future::Future;
use std::sync::Arc;

use bezel_context::Context;
use bezel_plugin::{FacetError, FacetScope};
use bezel_session_types::{
    Access, AssistantMessage, CompactionReason, EntryId, InvocationId, Message, OperationId,
    Replay, RequestOptions, ToolOutput, UserMessage,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::{AgentBackend, AnyHook};
use crate::engine::{Capability, Unsupported};
use crate::lifecycle::{Lifecycle, SessionStart};

/// A tool call before it runs.
#[derive(Debug, Clone)]
pub struct ToolCallView {
    /// The call.
    pub invocation: InvocationId,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments, valid against the schema.
    pub arguments: Arc<Value>,
    /// What the tool says of running such a call again.
    pub replay: Replay,
}

/// What a hook makes of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeTool {
    /// Go on.
    Continue,
    /// Go on with these arguments; they are validated again.
    Arguments(Value),
    /// Do not run it; the model reads the reason.
    Block(String),
}

/// What a permission says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApproveTool {
    /// It may run with these arguments.
    Allow,
    /// It may not; the model reads the reason.
    Deny(String),
    /// It may not, and the turn ends with it, as if a person had interrupted it here. The model reads the
    /// reason when the conversation goes on.
    End(String),
}

/// What a hook that does not decide has to say of whether a call may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// Nothing.
    #[default]
    Nothing,
    /// A person need not be asked.
    Allow,
    /// A person should be asked, also where the call is approved; the person reads the reason.
    Ask(String),
    /// It may not run; the model reads the reason.
    Deny(String),
}

/// A tool call that waits for permission.
#[derive(Debug, Clone)]
pub struct ToolApproval {
    /// The call.
    pub invocation: InvocationId,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments that it will run with.
    pub arguments: Arc<Value>,
    /// What the tool says that the call touches; `None` where it does not say.
    pub accesses: Option<Vec<Access>>,
    /// What the hooks that were asked so far came to: the strictest of their answers.
    pub evaluation: Evaluation,
}

/// A model request before it is sent.
#[derive(Debug, Clone)]
pub struct RequestDraft {
    /// The place among the turn's requests since a person last said something, from 1; a request that is tried again
    /// keeps its place. What a hook makes of it is not looked at.
    pub step: u32,
    /// The system prompt.
    pub system: String,
    /// The conversation. Every tool call must keep its result.
    pub messages: Vec<Arc<Message>>,
    /// How to answer.
    pub options: RequestOptions,
    /// Whether somebody only wants to see what the model would be sent ([`crate::Lane::next_request`]): a hook that
    /// also counts, records or asks does not do so for it, and changes it as it would change one that is sent.
    pub preview: bool,
}

/// A pass over an operation that is about to begin.
#[derive(Debug, Clone)]
pub struct RunPass {
    /// Which operation.
    pub operation: OperationId,
    /// Whether an earlier pass left it open: a crash, or a full disk.
    pub resumed: bool,
}

/// A run that is about to ask the model for the first time.
#[derive(Debug, Clone)]
pub struct RunStart {
    /// Which operation.
    pub operation: OperationId,
}

/// A run that has nothing more to do.
#[derive(Debug, Clone)]
pub struct RunEnding {
    /// Which operation.
    pub operation: OperationId,
    /// Its last answer.
    pub message: Arc<AssistantMessage>,
}

/// A compaction that is about to be made.
#[derive(Debug, Clone)]
pub struct PendingCompaction {
    /// Of which operation.
    pub operation: OperationId,
    /// Why.
    pub reason: CompactionReason,
    /// What is to be summarised.
    pub messages: Arc<[Arc<Message>]>,
}

/// What a hook makes of a compaction; the first that is not `Proceed` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionVerdict {
    /// Let it be made.
    Proceed,
    /// Don't make it; the person reads why.
    Decline(String),
    /// Take this summary.
    Supply(String),
}

/// A move to another place in the tree that is about to be made.
#[derive(Debug, Clone)]
pub struct PendingNavigation {
    /// Of which operation.
    pub operation: OperationId,
    /// Where it goes; none before the first entry.
    pub target: Option<EntryId>,
    /// What of the branch that is left would be summarised; empty where no summary was asked for.
    pub messages: Arc<[Arc<Message>]>,
}

/// What a hook makes of a navigation; the first that is not `Proceed` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NavigationVerdict {
    /// Let it go.
    Proceed,
    /// Don't go there; the person reads why.
    Decline(String),
    /// Take this summary of the branch that is left.
    Supply(String),
}

pub(crate) type BeforePassHook = Arc<dyn Fn(Context, RunPass) -> HookResult<()> + Send + Sync>;
pub(crate) type BeforeRunHook =
    Arc<dyn Fn(Context, RunStart) -> HookResult<Vec<UserMessage>> + Send + Sync>;
pub(crate) type BeforeRunEndHook =
    Arc<dyn Fn(Context, RunEnding) -> HookResult<Option<UserMessage>> + Send + Sync>;
pub(crate) type BeforeCompactionHook =
    Arc<dyn Fn(Context, PendingCompaction) -> HookResult<CompactionVerdict> + Send + Sync>;
pub(crate) type BeforeNavigationHook =
    Arc<dyn Fn(Context, PendingNavigation) -> HookResult<NavigationVerdict> + Send + Sync>;
pub(crate) type HookResult<T> = BoxFuture<'static, Result<T, FacetError>>;
pub(crate) type BeforeToolHook =
    Arc<dyn Fn(Context, ToolCallView) -> HookResult<BeforeTool> + Send + Sync>;
pub(crate) type ApproveToolHook =
    Arc<dyn Fn(Context, ToolApproval) -> HookResult<ApproveTool> + Send + Sync>;
pub(crate) type EvaluatePermissionHook =
    Arc<dyn Fn(Context, ToolApproval) -> HookResult<Evaluation> + Send + Sync>;
pub(crate) type ToolEndedHook = Arc<dyn Fn(Context, ToolCallView) -> HookResult<()> + Send + Sync>;
pub(crate) type AfterToolHook =
    Arc<dyn Fn(Context, ToolCallView, ToolOutput) -> HookResult<ToolOutput> + Send + Sync>;
pub(crate) type BeforeRequestHook =
    Arc<dyn Fn(Context, RequestDraft) -> HookResult<RequestDraft> + Send + Sync>;
pub(crate) type AfterRequestHook =
    Arc<dyn Fn(Context, AssistantMessage) -> HookResult<AssistantMessage> + Send + Sync>;

/// Registrations that end with the facet.
#[derive(Clone)]
pub struct Hooks {
    backend: Arc<dyn AgentBackend>,
    lifecycle: Lifecycle,
    scope: FacetScope,
}

impl Hooks {
    pub(crate) fn new(
        backend: Arc<dyn AgentBackend>,
        lifecycle: Lifecycle,
        scope: FacetScope,
    ) -> Self {
        Hooks {
            backend,
            lifecycle,
            scope,
        }
    }

    /// For a facet that guards something: an error where the engine of this session never calls hooks.
    pub fn require(&self) -> Result<(), Unsupported> {
        self.backend.capabilities().require(Capability::Hooks)
    }

    /// Once all facets are active and before anything that was cut off goes on, in this session's process; no
    /// presentation and no server is reached yet. The session starts whatever the hook says.
    pub fn session_start<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, SessionStart) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), FacetError>> + Send + 'static,
    {
        let hook = Arc::new(move |cx, start| hook(cx, start).boxed());
        self.lifecycle.on_start(&self.scope, hook);
    }

    /// When the session's process lets it go in an orderly way, before any facet ends. What runs may go on
    /// meanwhile, and is taken up again when the session is. After a kill it is never called.
    pub fn session_end<F, Fut>(&self, hook: F)
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), FacetError>> + Send + 'static,
    {
        let hook = Arc::new(move |cx| hook(cx).boxed());
        self.lifecycle.on_end(&self.scope, hook);
    }

    /// Before a tool runs and before anything is recorded of it. An error blocks the call; the first block ends the chain.
    pub fn before_tool<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolCallView) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<BeforeTool, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeTool(Arc::new(move |cx, call| {
            hook(cx, call).boxed()
        })));
    }

    /// Has something to say of whether a tool may run with exactly these arguments, before anybody decides: before
    /// the `approve_tool` hooks, which read what this came to. All are asked, in order, until one denies; of the
    /// others' answers an asking one counts more than an allowing one, whoever comes first. One that fails or overruns
    /// its deadline has said nothing, and lets no other's allowing count. What an answer comes to is the deciding
    /// plugin's; of Bezel's own, `permissions`:
    ///
    /// - a denial is final: no approval, mode or rule lets the call run;
    /// - asking asks the person for this one call, also where it is approved or the mode is `full`;
    /// - allowing answers in the person's place, and nothing else: what a rule denies, may deny, or plan mode blocks
    ///   because it changes something stays as it is.
    pub fn evaluate_permission<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolApproval) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Evaluation, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::EvaluatePermission(Arc::new(move |cx, call| {
            hook(cx, call).boxed()
        })));
    }

    /// Says whether a tool may run with exactly these arguments: after all `before_tool` hooks, so that
    /// nothing changes what was approved, and before anything is recorded of the call. It may wait for a
    /// person: it has no deadline and ends with the turn. An error denies; the first denial ends the
    /// chain. A call that a crash cut off here is cleared again, under the same invocation id; one that
    /// is run again because it is safe to replay was approved before and is not asked about again.
    pub fn approve_tool<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolApproval) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ApproveTool, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::ApproveTool(Arc::new(move |cx, call| {
            hook(cx, call).boxed()
        })));
    }

    /// After a call that ran has ended, however it did, and before anything is recorded of its outcome: also
    /// where it failed or was interrupted. A call that was approved and never began is not told of here.
    /// An interruption does not cut it short.
    pub fn tool_ended<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolCallView) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), FacetError>> + Send + 'static,
    {
        self.register(AnyHook::ToolEnded(Arc::new(move |cx, call| {
            hook(cx, call).boxed()
        })));
    }

    /// After a tool succeeded and before its result is recorded; the result is bounded again. Structured data
    /// that is put in place of the tool's must match the tool's schema, or the hook is passed over.
    pub fn after_tool<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolCallView, ToolOutput) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::AfterTool(Arc::new(move |cx, call, output| {
            hook(cx, call, output).boxed()
        })));
    }

    /// Before each model request; never durable.
    pub fn before_request<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, RequestDraft) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<RequestDraft, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeRequest(Arc::new(move |cx, draft| {
            hook(cx, draft).boxed()
        })));
    }

    /// After each complete answer and before it is recorded.
    pub fn after_response<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, AssistantMessage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<AssistantMessage, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::AfterResponse(Arc::new(move |cx, message| {
            hook(cx, message).boxed()
        })));
    }

    /// Before anything of a pass over an operation: a new one's first pass, and every later one after a
    /// crash. An error stops the pass; the operation stays open, and resuming it asks again.
    pub fn before_pass<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, RunPass) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforePass(Arc::new(move |cx, pass| {
            hook(cx, pass).boxed()
        })));
    }

    /// Before the first model request of a run: messages that go with it, recorded in the same commit.
    pub fn before_run<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, RunStart) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<UserMessage>, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeRun(Arc::new(move |cx, start| {
            hook(cx, start).boxed()
        })));
    }

    /// Before a run ends: something more for it to do. The last one given wins; after a crash the hook may
    /// be asked again.
    pub fn before_run_end<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, RunEnding) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<UserMessage>, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeRunEnd(Arc::new(move |cx, ending| {
            hook(cx, ending).boxed()
        })));
    }

    /// Before older entries are summarised: decline, or supply the summary.
    pub fn before_compaction<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, PendingCompaction) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CompactionVerdict, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeCompaction(Arc::new(move |cx, pending| {
            hook(cx, pending).boxed()
        })));
    }

    /// Before the conversation moves in its tree: decline, or supply the summary of what is left.
    pub fn before_navigation<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, PendingNavigation) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<NavigationVerdict, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::BeforeNavigation(Arc::new(move |cx, pending| {
            hook(cx, pending).boxed()
        })));
    }

    fn register(&self, hook: AnyHook) {
        self.scope
            .own(self.backend.hook(self.scope.plugin().as_str(), hook));
    }
}
