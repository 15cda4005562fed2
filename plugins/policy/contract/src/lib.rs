//! The server as its clients see and end it: behind `bezel server status` and `bezel server stop`.

use bezel_rpc::{Context, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connected server itself.
#[service("server", version = "1.0")]
pub trait ServerControl {
    /// What it is and how many it serves.
    fn status(&self) -> State<ServerStatus>;

    /// Asks for its orderly end: workers settle what they must, then they and the server exit. Returns
    /// before that.
    #[scope(admin)]
    async fn stop(&self, cx: &Context);
}

/// What the server is and how many it serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    /// The product's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// RFC 3339.
    pub started_at: String,
    /// Connected presentations.
    pub clients: u32,
    /// Workers that start or run.
    pub workers: u32,
}
