//! Where others take part: ordered, bounded in time, each seeing what the one before it returned.
//!
//! A hook that fails, panics or overruns its deadline is reported with its registrant's name and
//! passed over, except before a tool, where it blocks the call: what guards must not fail open.

mod permission;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_context::Context;
use bezel_session_types::{
    AssistantMessage, CompactionReason, EntryId, InvocationId, LaneName, Message, ModelRef,
    OperationId, Replay, RequestOptions, ResultContent, ToolResultMessage, UserMessage,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

pub use permission::{Approval, Evaluation, PendingApproval};

/// What a hook returns.
pub type HookFuture<T> = BoxFuture<'static, Result<T, HookError>>;

/// Why a hook could not do its part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HookError {
    /// For people.
    pub message: String,
}

impl HookError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        HookError {
            message: message.into(),
        }
    }
}

/// A call that is about to run.
#[derive(Debug, Clone)]
pub struct PendingCall {
    /// Whose conversation.
    pub lane: LaneName,
    /// Of which operation.
    pub operation_id: OperationId,
    /// Which call.
    pub invocation_id: InvocationId,
    /// The tool.
    pub tool: Arc<str>,
    /// Arguments, valid against the tool's schema.
    pub arguments: Arc<Value>,
    /// What the tool says of running such a call again.
    pub replay: Replay,
}

/// What a hook before a tool says.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ToolVerdict {
    /// Go on.
    #[default]
    Continue,
    /// Go on with these arguments; they are validated again.
    Replace(Value),
    /// Don't run it; the model reads why.
    Block {
        /// For the model and the person.
        reason: String,
    },
}

/// A call that settled, before its result is staged.
#[derive(Debug, Clone)]
pub struct SettledCall {
    /// The call as it ran.
    pub call: PendingCall,
    /// Its result, bounded.
    pub result: Arc<ToolResultMessage>,
}

/// What a hook after a tool changes; the result is bounded again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolPatch {
    /// In place of what the model reads.
    pub content: Option<Vec<ResultContent>>,
    /// In place of the structured data, or none of it. It must match the tool's schema, or nothing of the
    /// patch is applied.
    pub structured: Option<Option<Value>>,
    /// In place of what renderers read.
    pub details: Option<Value>,
    /// Whether it counts as failed.
    pub is_error: Option<bool>,
}

/// A model request that is about to be sent. Changes are for this request alone.
#[derive(Debug, Clone)]
pub struct PendingRequest {
    /// Whose conversation.
    pub lane: LaneName,
    /// Of which operation.
    pub operation_id: OperationId,
    /// The place among the operation's requests since a person last said something, from 1; a request that is tried
    /// again keeps its place.
    pub step: u32,
    /// Which model.
    pub model: ModelRef,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation as the model sees it.
    pub messages: Arc<[Arc<Message>]>,
    /// How to answer.
    pub options: RequestOptions,
    /// Whether somebody only wants to see it: it is not sent, and belongs to no operation that there is.
    pub preview: bool,
}

/// What a hook before a request changes.
#[derive(Debug, Clone, Default)]
pub struct RequestPatch {
    /// In place of the system prompt.
    pub system: Option<Arc<str>>,
    /// In place of the conversation. Calls left without a result get one.
    pub messages: Option<Arc<[Arc<Message>]>>,
    /// In place of the options.
    pub options: Option<RequestOptions>,
}

/// An answer that came in, before it enters the tree.
#[derive(Debug, Clone)]
pub struct PendingAnswer {
    /// Whose conversation.
    pub lane: LaneName,
    /// Of which operation.
    pub operation_id: OperationId,
    /// The answer.
    pub message: Arc<AssistantMessage>,
}

/// A run that has nothing more to do.
#[derive(Debug, Clone)]
pub struct EndingRun {
    /// Whose conversation.
    pub lane: LaneName,
    /// Which operation.
    pub operation_id: OperationId,
    /// Its last answer.
    pub message: Arc<AssistantMessage>,
}

/// A compaction that is about to be made.
#[derive(Debug, Clone)]
pub struct PendingCompaction {
    /// Whose conversation.
    pub lane: LaneName,
    /// Of which operation.
    pub operation_id: OperationId,
    /// Why.
    pub reason: CompactionReason,
    /// What is to be summarised.
    pub messages: Arc<[Arc<Message>]>,
}

/// What a hook before a compaction says; the first that is not `Proceed` decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum CompactionVerdict {
    /// Let it be made.
    #[default]
    Proceed,
    /// Don't make it.
    Decline {
        /// For the person.
        reason: String,
    },
    /// Take this summary.
    Supply {
        /// What the model will read.
        summary: String,
    },
}

/// A run that is about to ask the model for the first time.
#[derive(Debug, Clone)]
pub struct StartingRun {
    /// Whose conversation.
    pub lane: LaneName,
    /// Which operation.
    pub operation_id: OperationId,
}

/// A pass over an operation that is about to begin.
#[derive(Debug, Clone)]
pub struct StartingPass {
    /// Whose conversation.
    pub lane: LaneName,
    /// Which operation.
    pub operation_id: OperationId,
    /// Whether an earlier pass left it open: a crash, or a fault.
    pub resumed: bool,
}

/// A lane that is about to move to another place in the tree.
#[derive(Debug, Clone)]
pub struct PendingNavigation {
    /// Which lane.
    pub lane: LaneName,
    /// Which operation.
    pub operation_id: OperationId,
    /// Where it goes; none before the first entry.
    pub target: Option<EntryId>,
    /// What of the branch that is left would be summarised; empty where no summary was asked for.
    pub messages: Arc<[Arc<Message>]>,
}

/// What a hook before a navigation says; the first that is not `Proceed` decides.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum NavigationVerdict {
    /// Let it go.
    #[default]
    Proceed,
    /// Don't go there.
    Decline {
        /// For the person.
        reason: String,
    },
    /// Take this summary of the branch that is left, asked for or not.
    Supply {
        /// What the model will read.
        summary: String,
    },
}

type HookFn<In, Out> = dyn Fn(Context, In) -> HookFuture<Out> + Send + Sync;

/// One kind of hook: its registrations in order.
pub(crate) struct Chain<In, Out> {
    name: &'static str,
    // A plain mutex: held to copy or change the list.
    registrations: Arc<Mutex<Vec<Registration<In, Out>>>>,
}

struct Registration<In, Out> {
    registrant: Arc<str>,
    hook: Arc<HookFn<In, Out>>,
}

impl<In, Out> Clone for Registration<In, Out> {
    fn clone(&self) -> Self {
        Registration {
            registrant: Arc::clone(&self.registrant),
            hook: Arc::clone(&self.hook),
        }
    }
}

/// Keeps a hook registered; dropping it takes the hook out. Calls under way end by themselves.
#[must_use = "the hook is taken out when this is dropped"]
pub struct HookGuard(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for HookGuard {
    fn drop(&mut self) {
        if let Some(remove) = self.0.take() {
            remove();
        }
    }
}

impl std::fmt::Debug for HookGuard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HookGuard")
    }
}

/// A hook that failed, and whose it was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HookFailure {
    pub(crate) registrant: Arc<str>,
    pub(crate) hook: &'static str,
    pub(crate) message: String,
}

impl std::fmt::Display for HookFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HookFailure {
            registrant,
            hook,
            message,
        } = self;
        write!(formatter, "{hook} of `{registrant}`: {message}")
    }
}

impl<In: 'static, Out: 'static> Chain<In, Out> {
    fn new(name: &'static str) -> Self {
        Chain {
            name,
            registrations: Arc::default(),
        }
    }

    fn add<F, Fut>(&self, registrant: &str, hook: F) -> HookGuard
    where
        F: Fn(Context, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, HookError>> + Send + 'static,
    {
        let hook: Arc<HookFn<In, Out>> = Arc::new(move |cx, input| hook(cx, input).boxed());
        let registration = Registration {
            registrant: registrant.into(),
            hook: Arc::clone(&hook),
        };
        lock(&self.registrations).push(registration);
        let registrations = Arc::downgrade(&self.registrations);
        HookGuard(Some(Box::new(move || {
            if let Some(registrations) = registrations.upgrade() {
                lock(&registrations).retain(|registered| !Arc::ptr_eq(&registered.hook, &hook));
            }
        })))
    }

    /// The registrations now, in order.
    pub(crate) fn registered(&self) -> Vec<Registered<In, Out>> {
        let hook = self.name;
        let registrations = lock(&self.registrations);
        let copy = |registration: &Registration<In, Out>| Registered {
            hook,
            registration: registration.clone(),
        };
        registrations.iter().map(copy).collect()
    }
}

/// One hook of a chain, to be called.
pub(crate) struct Registered<In, Out> {
    hook: &'static str,
    registration: Registration<In, Out>,
}

impl<In, Out> Registered<In, Out> {
    /// Calls it, for no longer than `deadline` and no longer than `cx`.
    pub(crate) async fn call(
        &self,
        cx: &Context,
        deadline: Option<Duration>,
        input: In,
    ) -> Result<Out, HookFailure> {
        let outcome = call(cx, deadline, &*self.registration.hook, input).await;
        outcome.map_err(|HookError { message }| self.failure(message))
    }

    /// Whose it is.
    pub(crate) fn registrant(&self) -> &str {
        &self.registration.registrant
    }

    /// A failure of this hook.
    pub(crate) fn failure(&self, message: String) -> HookFailure {
        HookFailure {
            registrant: Arc::clone(&self.registration.registrant),
            hook: self.hook,
            message,
        }
    }
}

async fn call<In, Out>(
    cx: &Context,
    deadline: Option<Duration>,
    hook: &HookFn<In, Out>,
    input: In,
) -> Result<Out, HookError> {
    let inner = match deadline {
        Some(deadline) => cx.with_timeout(deadline),
        None => cx.clone(),
    };
    let started = std::panic::catch_unwind(AssertUnwindSafe(|| hook(inner.clone(), input)));
    let future = started.map_err(|_| HookError::new("it panicked"))?;
    match inner.run(AssertUnwindSafe(future).catch_unwind()).await {
        Ok(Ok(Ok(output))) => Ok(output),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(HookError::new("it panicked")),
        Err(_) if cx.is_cancelled() => Err(HookError::new("the turn was interrupted while it ran")),
        Err(_) => Err(HookError::new(format!(
            "it did not answer within {:?}",
            deadline.unwrap_or_default()
        ))),
    }
}

/// The hooks of a session. Every registration returns a guard; dropping it takes the hook out.
pub struct Hooks {
    pub(crate) before_tool: Chain<PendingCall, ToolVerdict>,
    pub(crate) evaluate_permission: Chain<PendingApproval, Evaluation>,
    pub(crate) approve_tool: Chain<PendingApproval, Approval>,
    pub(crate) tool_ended: Chain<PendingCall, ()>,
    pub(crate) after_tool: Chain<SettledCall, ToolPatch>,
    pub(crate) before_request: Chain<PendingRequest, RequestPatch>,
    pub(crate) after_response: Chain<PendingAnswer, Option<AssistantMessage>>,
    pub(crate) before_run_end: Chain<EndingRun, Option<UserMessage>>,
    pub(crate) before_compaction: Chain<PendingCompaction, CompactionVerdict>,
    pub(crate) before_navigation: Chain<PendingNavigation, NavigationVerdict>,
    pub(crate) before_run: Chain<StartingRun, Vec<UserMessage>>,
    pub(crate) before_pass: Chain<StartingPass, ()>,
}

macro_rules! registrations {
    ($($(#[$doc:meta])* $name:ident: $input:ty => $output:ty;)*) => {
        impl Hooks {
            pub(crate) fn new() -> Self {
                Hooks { $($name: Chain::new(stringify!($name)),)* }
            }

            $(
                $(#[$doc])*
                pub fn $name<F, Fut>(&self, registrant: &str, hook: F) -> HookGuard
                where
                    F: Fn(Context, $input) -> Fut + Send + Sync + 'static,
                    Fut: Future<Output = Result<$output, HookError>> + Send + 'static,
                {
                    self.$name.add(registrant, hook)
                }
            )*
        }
    };
}

registrations! {
    /// Before a call runs: look at it, change its arguments, block it. A failure blocks it.
    before_tool: PendingCall => ToolVerdict;
    /// What somebody has to say of whether a call may run, with the arguments that it will run with: before the
    /// `approve_tool` hooks, which read what it came to. All are asked, in order, until one denies; the strictest
    /// answer counts. One that fails is no answer, and no other's allowing counts beside it.
    evaluate_permission: PendingApproval => Evaluation;
    /// Says whether a call may run with the arguments that it will run with: after the
    /// `before_tool` hooks, so that nothing changes what was approved. It may wait for a person
    /// and so has no deadline; it ends with the turn. A failure denies.
    approve_tool: PendingApproval => Approval;
    /// After an effect ended, however it did: also where it failed, panicked or was interrupted. Called for
    /// each call that ran, before anything is recorded of its outcome, and not cut short by an
    /// interruption; what ran is told apart from what was approved and never began.
    tool_ended: PendingCall => ();
    /// After a call settled: change what the model or a renderer reads.
    after_tool: SettledCall => ToolPatch;
    /// Before a model request is sent: change it, for this request alone.
    before_request: PendingRequest => RequestPatch;
    /// After an answer came in: put another in its place before it enters the tree.
    after_response: PendingAnswer => Option<AssistantMessage>;
    /// Before a run ends: give it something more to do. The last answer given wins.
    before_run_end: EndingRun => Option<UserMessage>;
    /// Before older entries are summarised: decline, or supply the summary.
    before_compaction: PendingCompaction => CompactionVerdict;
    /// Before a lane moves in the tree: decline, or supply the summary of the branch that is left.
    before_navigation: PendingNavigation => NavigationVerdict;
    /// Before the first model request of a run: messages that go with it. They are recorded in the
    /// commit that sends the request; after a crash before it the hook is called again.
    before_run: StartingRun => Vec<UserMessage>;
    /// Before anything of a pass over an operation, a new one's first and every later one. A failure
    /// stops the pass: the operation stays open, and whoever resumes it has the hook asked again.
    before_pass: StartingPass => ();
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Hooks")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
