//! The words that store, harness, contracts and plugins share: ids, messages, usage, and the traits
//! of tools and model providers. No behaviour beyond what the words themselves need: how the model reads a
//! path of entries is what the entries mean.

mod access;
mod blob;
mod conversation;
mod entry;
mod ids;
mod message;
mod model;
mod provider;
mod reading;
mod request;
mod run;
mod tool;
mod upkeep;

pub use access::{Access, PermissionMode, Resource};
pub use blob::{BlobId, BlobIdError, PromptPart, UploadedImage};
pub use conversation::{assemble, complete, project};
pub use entry::{BranchSummary, Compaction, CompactionReason, CustomEntry, Entry, EntryBody, Note};
pub use ids::{
    CommandId, EntryId, InvocationId, LaneName, OperationId, SCRATCH_PREFIX, SESSION_VARIABLE,
    SessionId,
};
pub use message::{
    AssistantContent, AssistantMessage, ImageContent, Message, ResultContent, StopReason, ToolCall,
    ToolResultMessage, UserContent, UserMessage,
};
pub use model::{Cost, ModelRef, ModelRefError, ModelSpec, Prices, ThinkingLevel, Usage};
pub use provider::{
    ModelEvent, ModelRequest, ModelStream, Provider, ProviderError, ProviderErrorKind,
    RequestOptions, ToolChoice, ToolDefinition,
};
pub use reading::{
    HistoryPage, HistoryRange, JournalFact, JournalGap, JournalPage, ModelView, NextRequest,
    PromptSection,
};
pub use request::{PendingRequest, SubmitOutcome};
pub use run::{BegunCall, Delivery, QueuedMessage, RunOutcome, RunPhase, RunState};
pub use tool::{
    ExecutionMode, FileChange, MemoError, Progress, Replay, Tool, ToolError, ToolHost,
    ToolInvocation, ToolOutput, ToolSpec,
};
pub use upkeep::{
    CheckProblem, CheckSummary, ExportFormat, ImportSummary, SessionSize, SourceFormat,
};
