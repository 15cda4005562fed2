//! Server policy: who may connect, who may reach what, how workers are kept, and the server's own status.
//!
//! - *Authentication*: a host of the same process may connect; so may whoever runs as this server's user
//!   and shows its token. Other credentials are left to other plugins.
//! - *Authorisation*: a principal reaches what its owner has, in the workspaces of its credential.
//! - *Workers*: the time that they get to start, to stop and to come back; whether a dead one is started
//!   again. All of it is configuration of this plugin.
//! - *Status*: the service behind `bezel server status` and `bezel server stop`; ending the server takes
//!   the grant `server.stop`.

mod policy;
mod settings;
mod status;
#[cfg(test)]
mod tests;

use bezel_api_server::ServerContext;
use bezel_plugin::{Facet, FacetError};
use bezel_policy_contract::ServerControlClient;

pub use settings::{RestartSetting, ResumeSetting, Settings};

/// The plugin's name in a manifest.
pub const ID: &str = "policy";

/// The facet.
pub fn facet() -> Facet<ServerContext> {
    Facet::new(ID, set_up)
        .configured::<Settings>()
        .provides::<ServerControlClient>()
}

async fn set_up(cx: ServerContext) -> Result<(), FacetError> {
    let settings: Settings = cx.config()?;
    policy::contribute(&cx, settings.workers());
    status::provide(&cx)?;
    Ok(())
}
