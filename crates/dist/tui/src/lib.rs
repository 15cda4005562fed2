//! The ordered terminal facets that the product is made of.
//!
//! The order is that of the palette and the help; among equals in a slot it is the screen's too.

use bezel_api_tui::TuiFacet;
use bezel_plugin::ManifestEntry;

/// The terminal facets of this build.
pub fn facets() -> Vec<TuiFacet> {
    vec![
        bezel_theme_tui::facet(),
        bezel_sessions_tui::facet(),
        bezel_models_tui::facet(),
        bezel_permissions_tui::facet(),
        bezel_agents_tui::facet(),
        bezel_accounts_tui::facet(),
        bezel_tools_tui::facet(),
        bezel_question_tui::facet(),
        bezel_subagent_tui::facet(),
        bezel_transcript_tui::facet(),
        bezel_tree_tui::facet(),
        bezel_usage_tui::facet(),
        bezel_rewind_tui::facet(),
        bezel_chat_tui::facet(),
    ]
}

/// The manifest entries of the plugins with a terminal facet, in order. None has a grant. Without sessions,
/// transcript and chat there is nothing to do in a terminal; the others leave a gap that one can live with.
pub fn manifest_entries() -> Vec<ManifestEntry> {
    let version = env!("CARGO_PKG_VERSION");
    let entries = facets().into_iter().map(|facet| {
        let id = facet.plugin().as_str();
        match id {
            "accounts" | "models" | "permissions" | "tools" | "chat" | "transcript"
            | "sessions" => ManifestEntry::required(id, version),
            _ => ManifestEntry::optional(id, version),
        }
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use bezel_host_tui::{HarnessOptions, TuiHarness};

    use super::*;

    #[test]
    fn every_facet_has_one_entry_and_no_grant() {
        let entries = manifest_entries();
        let mut ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        assert!(entries.iter().all(|entry| entry.grants.is_empty()));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), facets().len());
    }

    #[tokio::test]
    async fn all_facets_start_together_without_a_server_and_nobody_takes_a_key_from_another() {
        let options = HarnessOptions {
            facets: facets(),
            entries: manifest_entries(),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let screen = tui.wait_for_text("connecting…").await;
        assert!(
            screen.contains("Ask for a change · @ for files · / for commands"),
            "{}",
            screen.text()
        );
        // Conflicts between plugins are shown to the person as notes.
        assert!(!screen.contains("keeps"), "{}", screen.text());
        insta::assert_snapshot!(screen.still_text());
        let exit = tui.stop().await;
        assert!(exit.failures.is_empty(), "{:?}", exit.failures);
    }

    #[tokio::test]
    async fn the_help_names_every_key_of_the_product() {
        let options = HarnessOptions {
            facets: facets(),
            entries: manifest_entries(),
            size: (100, 80),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        tui.press("f1").await;
        let screen = tui.wait_for_text("Composer").await;
        // It is longer than the screen.
        let rest = tui.press("pagedown").await;
        for key in [
            "ctrl+g",
            "ctrl+t",
            "ctrl+o",
            "ctrl+x s",
            "ctrl+x n",
            "ctrl+x m",
            "ctrl+x a",
            "ctrl+x g",
            "alt+up",
            "shift+enter",
            "pageup",
            "ctrl+up",
            "ctrl+p",
            "shift+tab",
        ] {
            let named = screen.contains(key) || rest.contains(key);
            assert!(named, "{key} is not in\n{}{}", screen.text(), rest.text());
        }
        insta::assert_snapshot!(screen.still_text());
    }
}
