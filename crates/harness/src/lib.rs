//! The agent of one session: lanes, the turn loop, tools and durable operations.
//!
//! A [`Harness`] works on one session's database. Each [`Lane`] is a movable tip of the session's
//! tree with a queue of admitted messages and at most one operation. Every step commits its intent,
//! performs it, and commits what came of it together with the next state, so that a session whose
//! process died is taken up where it was. The crate knows neither plugins nor any wire.

mod admission;
mod answer;
mod compaction;
mod config;
mod context;
mod coordinator;
mod events;
mod forking;
mod harness;
mod hooks;
mod lane;
mod memos;
mod navigation;
mod next_request;
mod operation;
mod recovery;
mod request;
mod requests;
mod retry;
mod run;
mod schema;
mod state;
mod stream;
mod summary;
mod summary_request;
mod tools;
mod tree;
mod upkeep;

pub use admission::{Admission, EditError, PromptError, PromptRequest};
pub use answer::{LiveMessage, LiveToolCall};
pub use config::{CompactionConfig, HarnessConfig, RetryConfig};
pub use events::{EventKind, HarnessEvent, HarnessEvents, MessageDelta};
pub use forking::{ForkError, ForkRequest};
pub use harness::{
    Harness, HarnessOptions, ModelSource, ModelSourceError, OpenError, OpenLane, ResolvedModel,
    SystemPrompt, SystemPromptError, SystemPromptSubject,
};
pub use hooks::{
    Approval, CompactionVerdict, EndingRun, Evaluation, HookError, HookFuture, HookGuard, Hooks,
    NavigationVerdict, PendingAnswer, PendingApproval, PendingCall, PendingCompaction,
    PendingNavigation, PendingRequest, RequestPatch, SettledCall, StartingPass, StartingRun,
    ToolPatch, ToolVerdict,
};
pub use lane::{AbortError, CompactError, Lane, LaneOutcome, ResumeError, Resumed};
pub use navigation::{Departure, NavigateError, NavigateRequest};
pub use next_request::NextRequestError;
pub use requests::{
    ChannelError, ChannelId, PendingRequests, RequestChannel, SubmitError, WaitError,
};
pub use state::{LaneSnapshot, LaneWatch, LiveCall, Stopped};
pub use tools::{ToolIdentity, ToolOrigin, ToolRegistration, ToolSet};
pub use tree::{AppendError, Tree};
pub use upkeep::{ImportError, ImportPlace, PackageError, PackageFacts, check, export, import};

pub use bezel_store::{ForkOrigin, ForkScope, OpenError as StoreError, Store};
