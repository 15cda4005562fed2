//! What a session facet may touch.
//!
//! A session facet runs beside the real thing: [`SessionContext::agent`] is direct and process-local, not a
//! proxy, but scoped. Hooks and event subscriptions end with the facet. The host keeps what would break
//! composition: closing the session, raw writes, storage, id generation, whole-registry setters, exposure.
//!
//! `docs/plugins.md` of the repository has a whole facet with a tool, a hook and a setting.
//!
//! Everything here is a concrete handle over a backend that only hosts and test kits implement.
//!
//! ```
//! use bezel_api_session::{BeforeTool, EventBody, SessionContext, SessionFacet};
//!
//! pub fn facet() -> SessionFacet {
//!     SessionFacet::new("careful", |cx: SessionContext| async move {
//!         let lane = cx.agent.main();
//!         let tree = cx.agent.tree();
//!         cx.prompt.add(|draft| draft.set("careful", "Ask before you delete."));
//!         cx.tools.add(|draft| println!("{} tools so far", draft.list().len()));
//!         cx.providers.add(|draft| println!("{} providers so far", draft.names().len()));
//!         cx.agent.hooks().before_tool(|_cx, call| async move {
//!             Ok(match &*call.tool {
//!                 "delete" => BeforeTool::Block("nothing is deleted here".into()),
//!                 _ => BeforeTool::Continue,
//!             })
//!         });
//!         cx.agent.events().subscribe(|events| {
//!             let ended = |body: &EventBody| matches!(body, EventBody::RunEnded(_));
//!             println!("{} runs ended", events.iter().filter(|event| ended(&event.body)).count());
//!         });
//!         println!("{:?}, {} models", *lane.activity().borrow(), cx.catalogue.current().available_models().count());
//!         println!("{:?}", tree.usage().await?);
//!         Ok(())
//!     })
//! }
//! # facet();
//! ```
//!
//! # Walls
//!
//! A facet does not close the session, and ends the worker only where that is granted:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.agent.close();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.agent.retire("done");
//! }
//! ```
//!
//! It writes nothing into the tree but through a lane's commands:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext, entry: bezel_session_types::Entry) {
//!     cx.agent.tree().append(entry);
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext, entry: bezel_session_types::Entry) {
//!     cx.agent.main().commit(entry);
//! }
//! ```
//!
//! It sees neither what stores the session nor what stands behind a handle:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.agent.store();
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.agent.backend;
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(lane: bezel_api_session::Lane) {
//!     lane.0;
//! }
//! ```
//!
//! It makes no ids for the session's tree:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.agent.ids();
//! }
//! ```
//!
//! It contributes to registries and never sets, empties or opens one as a whole:
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.tools.open();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.tools.clear();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.prompt.set(Default::default());
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.catalogue.0;
//! }
//! ```
//!
//! What is exposed to remote users goes through declared services, not through the table:
//!
//! ```compile_fail,E0616
//! fn reach(cx: bezel_api_session::SessionContext) {
//!     cx.table;
//! }
//! ```
//!
//! A context comes from a host alone:
//!
//! ```compile_fail,E0451
//! fn forge(cx: bezel_api_session::SessionContext) -> bezel_api_session::SessionContext {
//!     bezel_api_session::SessionContext { ..cx }
//! }
//! ```

mod agent;
mod catalogue;
mod context;
mod engine;
mod events;
mod gathered;
mod hooks;
mod lifecycle;
mod opening;
mod prompt;
mod requests;
mod sessions;
mod tools;

#[doc(hidden)]
pub mod backend;

pub use agent::{
    Admission, Agent, Departure, ForkError, ForkPlan, Lane, LaneError, LedgerTotals, Navigation,
    NavigationError, Outcome, PromptError, SessionIdentity, SessionTree,
};
pub use bezel_plugin::{Facet, FacetError, Local, Namespace};
pub use catalogue::{
    Availability, KeyOrigin, ModelListing, ProviderCatalogue, ProviderDraft, ProviderEntry,
    ProviderSet,
};
#[doc(hidden)]
pub use context::SessionParts;
pub use context::{RETIRE, Retirement, SessionContext};
pub use engine::{
    Capabilities, Capability, Engine, EngineError, EngineSession, EngineStart, Unsupported,
};
pub use events::{AgentEvent, AgentEventReceiver, AgentEvents, EventBody};
pub use gathered::{Gathered, Gathering};
pub use hooks::{
    ApproveTool, BeforeTool, CompactionVerdict, Evaluation, Hooks, NavigationVerdict,
    PendingCompaction, PendingNavigation, RequestDraft, RunEnding, RunPass, RunStart, ToolApproval,
    ToolCallView,
};
#[doc(hidden)]
pub use lifecycle::Lifecycle;
pub use lifecycle::{FoundSession, LifecycleFailure, SessionStart};
#[doc(hidden)]
pub use opening::Opening;
pub use opening::ToCome;
pub use prompt::{PromptDraft, SystemPrompt};
pub use requests::{
    DurableRequestDefinition, DurableRequests, OpenRequestsError, RequestValue, SubmitError,
    WaitError,
};
pub use sessions::{HostedSession, Sessions, SessionsError};
pub use tools::{RegisteredTool, ToolDraft, ToolIdentity, ToolSet};

/// A facet for session hosts.
pub type SessionFacet = Facet<SessionContext>;
