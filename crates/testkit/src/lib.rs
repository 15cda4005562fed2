//! Fake model server, scripted model, host pairs and fake bindings for tests.
//!
//! Time is not faked here: a test pauses tokio's clock, and hosts are handed a `Clock`.
//!
//! One [`Script`] of [`Turn`]s drives both fakes of a model: [`FakeModelServer`], a real HTTP server on
//! loopback that speaks every wire format of [`WireFormat`], and [`ScriptedProvider`], a provider in
//! this process.

mod call;
mod collector;
mod far_side;
mod model_server;
mod peers;
mod script;
mod scripted;
mod server;
mod session;

pub use call::{CalledTool, ModelCall, SeenMessage, SeenPart, SeenRole, WireFormat};
pub use collector::{Export, ExportedSpan, FakeCollector};
pub use far_side::FarSide;
pub use model_server::{FakeModelServer, RecordedRequest, WaitError};
pub use peers::{FakeServer, FakeWorker};
pub use script::{
    Answer, Flood, Refusal, Script, ScriptError, ScriptedCall, Step, StreamFault, Turn,
};
pub use scripted::ScriptedProvider;
pub use server::{FakeFleet, FakeServerHost, FakeServerOptions, FakeStatus};
pub use session::{FakeAgent, FakeSession, FakeSessionOptions, SentPrompt};
