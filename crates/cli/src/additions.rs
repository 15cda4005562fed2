//! What whoever starts the hosts adds to what the product is made of.

use std::collections::BTreeMap;
use std::fmt;

use bezel_host_session::SessionFacet;
use bezel_plugin::{Manifest, ManifestEntry};
use serde_json::Value;

use crate::config::Given;
use crate::manifest;

/// What single plugins are told besides their configuration.
pub type Told = Vec<(&'static str, Value)>;

/// What a deployment adds to the product in each of its hosts.
#[derive(Clone, Default)]
pub struct Additions {
    /// What single plugins are told besides their configuration.
    pub told: Told,
    /// Session facets after the product's own, in every session that boots. Each is an optional plugin.
    pub facets: Vec<SessionFacet>,
    /// Configuration over the files and the environment, a later one over an earlier.
    pub given: Vec<Given>,
    /// Variables for what nobody's shell asked for; without them those of this process.
    pub environment: Option<BTreeMap<String, String>>,
}

impl Additions {
    /// Nothing but what plugins are told.
    pub fn telling(told: Told) -> Self {
        Additions {
            told,
            ..Additions::default()
        }
    }

    /// Adds the facets' plugins to a session's manifest, and tells plugins what they are told.
    pub(crate) fn complete(&self, manifest: &mut Manifest) {
        let added = self.facets.iter().map(|facet| {
            ManifestEntry::optional(facet.plugin().as_str(), env!("CARGO_PKG_VERSION"))
        });
        manifest.plugins.extend(added);
        for (plugin, what) in &self.told {
            manifest::tell(manifest, plugin, what.clone());
        }
    }
}

impl fmt::Debug for Additions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither variables nor what plugins are told: both may hold secrets.
        let plugins: Vec<_> = self.facets.iter().map(|facet| facet.plugin()).collect();
        formatter
            .debug_struct("Additions")
            .field("facets", &plugins)
            .finish_non_exhaustive()
    }
}
