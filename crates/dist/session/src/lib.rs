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
        bezel_question_session::facet(),
        bezel_subagent_session::facet(),
        bezel_files_session::facet(),
        bezel_blobs_session::facet(),
        bezel_permissions_session::facet(),
        bezel_agents_session::facet(),
        bezel_rewind_session::facet(),
        bezel_policy_session::facet(),
        bezel_sessions_session::facet(),
        bezel_chat_session::facet(),
        bezel_transcript_session::facet(),
        bezel_tree_session::facet(),
        bezel_usage_session::facet(),
    ]
}

/// The manifest entries of the plugins with a session facet, in order.
pub fn manifest_entries() -> Vec<ManifestEntry> {
    let version = env!("CARGO_PKG_VERSION");
    let entries = facets().into_iter().map(|facet| {
        let id = facet.plugin().as_str();
        let mut entry = match id {
            "accounts" | "providers" | "models" | "tools" | "permissions" | "agents" | "chat"
            | "transcript" => ManifestEntry::required(id, version),
            _ => ManifestEntry::optional(id, version),
        };
        if id == "policy" {
            entry.grants.insert(Grant::new(bezel_api_session::RETIRE));
        }
        entry
    });
    entries.collect()
}

pub use bezel_agents_session::{
    AgentDirectory, Catalogue as AgentCatalogue, DEFAULT as DEFAULT_AGENT, Origin as AgentOrigin,
    read as agents,
};

/// A provider that is there without configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltInProvider {
    /// What stands before `::` in the names of its models.
    pub name: String,
    /// The variables that may hold its key, the usual one first; none where it needs no key.
    pub key_variables: Vec<String>,
}

/// The providers that are there without configuration, in the order in which they are offered.
pub fn built_in_providers() -> Vec<BuiltInProvider> {
    let all = bezel_providers_session::built_in().into_iter();
    let mut all: Vec<_> = all
        .map(|provider| BuiltInProvider {
            key_variables: owned(&provider.key_variables()),
            name: provider.name,
        })
        .collect();
    all.push(BuiltInProvider {
        name: bezel_scripted_session::model().model.provider,
        key_variables: Vec::new(),
    });
    all
}

/// The variables that may hold the key of a provider of this kind at the kind's own address, the usual one
/// first; none for a kind that there is not.
pub fn key_variables(kind: &str) -> Vec<String> {
    let known = bezel_providers_session::ProviderKind::all().find(|known| known.name() == kind);
    known.map_or_else(Vec::new, |kind| owned(kind.key_variables()))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_that_need_no_configuration_say_where_their_key_may_be() {
        let all = built_in_providers();
        let find = |name: &str| all.iter().find(|provider| provider.name == name).unwrap();
        assert_eq!(find("anthropic").key_variables, ["ANTHROPIC_API_KEY"]);
        assert_eq!(find("openai").key_variables, ["OPENAI_API_KEY"]);
        assert!(find("ollama").key_variables.is_empty());
        assert!(find("scripted").key_variables.is_empty());
        assert_eq!(key_variables("groq"), ["GROQ_API_KEY"]);
        assert!(key_variables("nobody").is_empty());
    }

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
