//! The session directory and its management, over the fleet.
//!
//! Every call is judged by the principal that its connection has, never by an id in its arguments: an
//! unknown session and somebody else's get the same answer. Summaries carry neither owner nor directory.
//!
//! Where the configuration says for how long sessions are kept, or how much they may take, old ones are deleted.
//!
//! The directory's state and its events are projected: each principal sees the sessions that it may
//! reach, and does not learn that there are others.

mod children;
mod copies;
mod directory;
mod following;
mod listing;
mod management;
mod record;
mod retention;
#[cfg(test)]
mod tests;
mod upkeep;
mod words;

use bezel_api_server::ServerContext;
use bezel_plugin::{Facet, FacetError};
use bezel_sessions_contract::{
    SessionChildrenClient, SessionCopiesClient, SessionDirectoryClient, SessionManagementClient,
    SessionRecordClient, SessionUpkeepClient,
};

/// The plugin's name in a manifest.
pub const ID: &str = "sessions";

/// The facet.
pub fn facet() -> Facet<ServerContext> {
    Facet::new(ID, set_up)
        .configured::<retention::Settings>()
        .provides::<SessionDirectoryClient>()
        .provides::<SessionManagementClient>()
        .provides::<SessionRecordClient>()
        .provides::<SessionUpkeepClient>()
        .provides::<SessionCopiesClient>()
        .provides::<SessionChildrenClient>()
}

async fn set_up(cx: ServerContext) -> Result<(), FacetError> {
    cx.provide(SessionDirectoryClient::new(directory::Directory::follow(
        &cx,
    )));
    cx.provide(SessionManagementClient::new(management::Management::new(
        &cx.fleet,
    )));
    cx.provide(SessionChildrenClient::new(
        children::ChildrenOfWorkers::follow(&cx),
    ));
    cx.provide(SessionCopiesClient::new(copies::Copies::new(&cx.fleet)));
    cx.provide(SessionRecordClient::new(record::Record::follow(&cx)));
    cx.provide(SessionUpkeepClient::new(upkeep::UpkeepService::new(&cx)));
    retention::keep(&cx, cx.config()?);
    Ok(())
}
