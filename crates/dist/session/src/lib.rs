//! The ordered session facets that the product is made of.
//!
//! The order is the manifest's: providers of services before their users where nothing else decides.

use bezel_api_session::SessionFacet;
use bezel_plugin::{Grant, ManifestEntry};

/// The session facets of this build.
pub fn facets() -> Vec<SessionFacet> {
    vec![
        bezel_accounts_session::facet(),
        bezel_providers_session::facet(),
        bezel_scripted_session::facet(),
        bezel_models_session::facet(),
        bezel_instructions_session::facet(),
        bezel_tools_session::facet(),
        bezel_files_session::facet(),
        bezel_policy_session::facet(),
        bezel_sessions_session::facet(),
        bezel_chat_session::facet(),
        bezel_transcript_session::facet(),
        bezel_usage_session::facet(),
    ]
}

/// The manifest entries of the plugins with a session facet, in order.
pub fn manifest_entries() -> Vec<ManifestEntry> {
    let version = env!("CARGO_PKG_VERSION");
    let entries = facets().into_iter().map(|facet| {
        let id = facet.plugin().as_str();
        let mut entry = match id {
            "accounts" | "providers" | "models" | "tools" | "chat" | "transcript" => {
                ManifestEntry::required(id, version)
            }
            _ => ManifestEntry::optional(id, version),
        };
        if id == "policy" {
            entry.grants.insert(Grant::new(bezel_api_session::RETIRE));
        }
        entry
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_facet_has_one_entry_and_only_policy_has_a_grant() {
        let entries = manifest_entries();
        assert_eq!(entries.len(), facets().len());
        for entry in entries {
            assert_eq!(
                entry.grants.is_empty(),
                entry.id.as_str() != "policy",
                "{}",
                entry.id
            );
        }
    }
}
