//! Interception of live operations, in order of registration; each sees what the one before made of it.

use std::future::Future;
use std::sync::Arc;

use bezel_context::Context;
use bezel_plugin::{FacetError, FacetScope};
use bezel_session_types::{AssistantMessage, InvocationId, Message, RequestOptions, ToolOutput};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::{AgentBackend, AnyHook};

/// A tool call before it runs.
#[derive(Debug, Clone)]
pub struct ToolCallView {
    /// The call.
    pub invocation: InvocationId,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments, valid against the schema.
    pub arguments: Arc<Value>,
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
}

/// A model request before it is sent.
#[derive(Debug, Clone)]
pub struct RequestDraft {
    /// The system prompt.
    pub system: String,
    /// The conversation. Every tool call must keep its result.
    pub messages: Vec<Arc<Message>>,
    /// How to answer.
    pub options: RequestOptions,
}

pub(crate) type HookResult<T> = BoxFuture<'static, Result<T, FacetError>>;
pub(crate) type BeforeToolHook =
    Arc<dyn Fn(Context, ToolCallView) -> HookResult<BeforeTool> + Send + Sync>;
pub(crate) type ApproveToolHook =
    Arc<dyn Fn(Context, ToolCallView) -> HookResult<ApproveTool> + Send + Sync>;
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
    scope: FacetScope,
}

impl Hooks {
    pub(crate) fn new(backend: Arc<dyn AgentBackend>, scope: FacetScope) -> Self {
        Hooks { backend, scope }
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

    /// Says whether a tool may run with exactly these arguments: after all `before_tool` hooks, so that
    /// nothing changes what was approved, and before anything is recorded of the call. It may wait for a
    /// person: it has no deadline and ends with the turn. An error denies; the first denial ends the
    /// chain. A call that a crash cut off here is cleared again, under the same invocation id; one that
    /// is run again because it is safe to replay was approved before and is not asked about again.
    pub fn approve_tool<F, Fut>(&self, hook: F)
    where
        F: Fn(Context, ToolCallView) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ApproveTool, FacetError>> + Send + 'static,
    {
        self.register(AnyHook::ApproveTool(Arc::new(move |cx, call| {
            hook(cx, call).boxed()
        })));
    }

    /// After a tool succeeded and before its result is recorded; the result is bounded again.
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

    fn register(&self, hook: AnyHook) {
        self.scope
            .own(self.backend.hook(self.scope.plugin().as_str(), hook));
    }
}
