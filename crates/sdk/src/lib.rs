//! Bezel in a Rust program: sessions, prompts, and tools of the program's own.
//!
//! An instance is what `bezel --standalone` runs, without a terminal: a server, and a thread for each open session,
//! in this process. It is also one plugin of each of its sessions, named `sdk`: the tools of the program are in
//! every session that boots after they were added, children of sessions included, and in nobody else's. They are
//! judged, hooked, bounded and interrupted as every tool is.
//!
//! ```
//! use bezel_sdk::{Bezel, Provider};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Shelf {
//!     /// Which shelf, from 1.
//!     number: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use bezel_testkit::{FakeModelServer, Script, Turn, WireFormat};
//! # let call = serde_json::json!({ "number": 2 });
//! # let script = Script::new([Turn::tool_calls([("shelf", call)]), Turn::text("It is empty.")]);
//! # let model = FakeModelServer::start(script).await?;
//! # let (base_url, key) = (model.base_url(WireFormat::OpenAiChat), "k");
//! let bezel = Bezel::builder()
//!     .provider(Provider::new("local", "openai").base_url(&base_url).key(key).model("m", 100_000))
//!     .model("local::m")
//!     .tool("shelf", "Says what stands on a shelf.", |shelf: Shelf, _call| async move {
//!         Ok::<_, String>(format!("shelf {} is empty", shelf.number))
//!     })
//!     .allow("shelf")
//!     .start()
//!     .await?;
//! let session = bezel.session(".").await?;
//! let answer = session.prompt("What stands on shelf 2?").await?;
//! assert_eq!(answer.text(), "It is empty.");
//! bezel.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! More than tools, hooks for example, is a facet of the program's own ([`Builder::plugin`]), written against
//! [`session_api`] like those of the product.
//!
//! Where the agent needs a permission or asks a question, [`Prompt::on_permission`] and [`Prompt::on_question`]
//! answer, or whoever reads [`Prompt::events`]; without any of them the prompt fails with what was asked. What has
//! no method here is reached by its contract: [`Bezel::service`] and [`Session::service`].
//!
//! A tool reaches other sessions as every plugin does, with [`ToolCall::with_sessions`]: it begins parts of its
//! session's work, prompts them, waits for them, copies and rewinds them.
//!
//! Nothing is written outside of the instance's home and the sessions' directories, and nothing is left running
//! by [`Bezel::stop`]. Logs and spans go to the program's own `tracing` subscriber.

mod bezel;
mod builder;
mod error;
mod hosts;
mod prompt;
mod registry;
mod session;
mod tool;

pub use bezel::Bezel;
pub use bezel_api_session::{self as session_api, SessionFacet};
pub use bezel_cli::embed::{EmbedError, PathsError};
pub use bezel_context::Context;
pub use bezel_host_headless::{
    EndStatus, PermissionAsked, QuestionChoice, RunEvent, ToolEndStatus,
};
pub use bezel_permissions_contract::Reply;
pub use bezel_question_contract::QuestionResponse;
pub use bezel_rewind_contract::{Reach, Restored, StageRequest, Staged};
pub use bezel_session_types::{
    Access, PermissionMode, ResultContent, SessionId, ToolError, ToolOutput,
};
pub use bezel_sessions_contract::{CreateChild, ForkRequest, SessionSummary};
pub use builder::{Builder, Provider};
pub use error::{Error, PromptError, ToolRefused};
pub use hosts::SessionEnded;
pub use prompt::{Answer, Events, PermissionAsk, Prompt, Question};
pub use session::Session;
pub use tool::{IntoOutput, Json, Tool, ToolCall};
