//! What a session facet may touch.
//!
//! A session facet runs beside the real thing: [`SessionContext::agent`] is direct and process-local, not a
//! proxy, but scoped. Hooks and event subscriptions end with the facet. The host keeps what would break
//! composition: closing the session, raw writes, storage, id generation, whole-registry setters, exposure.
//!
//! Everything here is a concrete handle over a backend that only hosts and test kits implement.

mod agent;
mod catalogue;
mod context;
mod events;
mod hooks;
mod prompt;
mod tools;

#[doc(hidden)]
pub mod backend;

pub use agent::{
    Admission, Agent, Lane, LaneError, LedgerTotals, Outcome, PromptError, SessionIdentity,
    SessionTree,
};
pub use bezel_plugin::{Facet, FacetError, Namespace};
pub use catalogue::{
    Availability, KeyOrigin, ModelListing, ProviderCatalogue, ProviderDraft, ProviderEntry,
    ProviderSet,
};
#[doc(hidden)]
pub use context::SessionParts;
pub use context::{RETIRE, Retirement, SessionContext};
pub use events::{AgentEvent, AgentEvents, EventBody};
pub use hooks::{BeforeTool, Hooks, RequestDraft, ToolCallView};
pub use prompt::{PromptDraft, SystemPrompt};
pub use tools::{RegisteredTool, ToolDraft, ToolIdentity, ToolSet};

/// A facet for session hosts.
pub type SessionFacet = Facet<SessionContext>;
