//! What the server is made of: its facets in order, and their entries in the manifest.
//!
//! Policy comes first, so that nobody connects before somebody decides who may.

use bezel_api_server::{CONNECTIONS_GRANT, STOP_GRANT, ServerContext};
/// The host that these facets are for, so that a deployment needs no other crate.
pub use bezel_host_server as host;
use bezel_plugin::{Facet, Grant, ManifestEntry};

/// The server facets of this build, in order.
pub fn facets() -> Vec<Facet<ServerContext>> {
    vec![
        bezel_policy_server::facet(),
        bezel_sessions_server::facet(),
        bezel_access_server::facet(),
    ]
}

/// The manifest entries of the plugins that have a server facet, in order. The first two are required:
/// without one nobody could connect, without the other there would be nothing to do. Without the third,
/// nobody connects from elsewhere.
pub fn manifest_entries() -> Vec<ManifestEntry> {
    let version = env!("CARGO_PKG_VERSION");
    let mut policy = ManifestEntry::required(bezel_policy_server::ID, version);
    policy.grants.insert(Grant::new(STOP_GRANT));
    let mut access = ManifestEntry::optional(bezel_access_server::ID, version);
    access.grants.insert(Grant::new(CONNECTIONS_GRANT));
    vec![
        policy,
        ManifestEntry::required(bezel_sessions_server::ID, version),
        access,
    ]
}
