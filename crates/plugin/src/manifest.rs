//! The manifest: which plugins, in which order, with which configuration. The same for every host.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the interface that this build offers to facets.
pub const INTERFACE: InterfaceVersion = InterfaceVersion { major: 1, minor: 0 };

/// A plugin's name: lower-case words with dashes, unique in a manifest.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct PluginId(Arc<str>);

impl PluginId {
    /// Wraps a name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        PluginId(id.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_arc(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A version of the host interface. A host takes a plugin of its own major and at most its own minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceVersion {
    /// Changes when something is taken away.
    pub major: u32,
    /// Grows when something is added.
    pub minor: u32,
}

impl InterfaceVersion {
    /// Whether a host of this version can load a plugin that was built for `wanted`.
    pub fn offers(self, wanted: InterfaceVersion) -> bool {
        self.major == wanted.major && wanted.minor <= self.minor
    }
}

impl fmt::Display for InterfaceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// A capability beyond what every facet of a host has. Built-ins have none that the manifest does not name.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Grant(String);

impl Grant {
    /// Names a capability, `host.what`.
    pub fn new(name: impl Into<String>) -> Self {
        Grant(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One plugin of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    /// Its name.
    pub id: PluginId,
    /// Its own version, semver.
    pub version: String,
    /// The interface that it was built for.
    pub interface: InterfaceVersion,
    /// Whether a host may start without it.
    #[serde(default)]
    pub required: bool,
    /// Its configuration; `null` for none. The facet reads it typed.
    #[serde(default)]
    pub config: Value,
    /// Capabilities beyond what every facet has.
    #[serde(default)]
    pub grants: BTreeSet<Grant>,
}

/// Plugins in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Manifest {
    /// The plugins.
    pub plugins: Vec<ManifestEntry>,
}

/// A manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Two entries have one name.
    #[error("the manifest names plugin `{0}` twice; keep one entry")]
    Duplicate(PluginId),
}

impl ManifestEntry {
    /// A required plugin of this build's interface, without configuration.
    pub fn required(id: &str, version: &str) -> Self {
        ManifestEntry {
            id: PluginId::new(id),
            version: version.into(),
            interface: INTERFACE,
            required: true,
            config: Value::Null,
            grants: BTreeSet::new(),
        }
    }

    /// The same, optional.
    pub fn optional(id: &str, version: &str) -> Self {
        ManifestEntry {
            required: false,
            ..ManifestEntry::required(id, version)
        }
    }

    /// Why this build cannot load it, if it cannot.
    pub fn incompatibility(&self) -> Option<String> {
        if INTERFACE.offers(self.interface) {
            return None;
        }
        Some(format!(
            "`{}` was built for interface {}, this build offers {INTERFACE}; install a version of the plugin for it",
            self.id, self.interface
        ))
    }
}

impl Manifest {
    /// Refuses a name that comes twice.
    pub fn validate(&self) -> Result<(), ManifestError> {
        let mut seen = BTreeSet::new();
        match self.plugins.iter().find(|entry| !seen.insert(&entry.id)) {
            Some(entry) => Err(ManifestError::Duplicate(entry.id.clone())),
            None => Ok(()),
        }
    }

    /// The entry of that name.
    pub fn entry(&self, id: &str) -> Option<&ManifestEntry> {
        self.plugins.iter().find(|entry| entry.id.as_str() == id)
    }

    /// The entry of that name, to change.
    pub fn entry_mut(&mut self, id: &str) -> Option<&mut ManifestEntry> {
        self.plugins
            .iter_mut()
            .find(|entry| entry.id.as_str() == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_of_another_major_or_a_newer_minor_is_refused_with_both_versions() {
        let mut entry = ManifestEntry::optional("git", "1.0.0");
        assert_eq!(entry.incompatibility(), None);
        entry.interface = InterfaceVersion {
            major: INTERFACE.major,
            minor: INTERFACE.minor + 1,
        };
        let reason = entry.incompatibility().unwrap();
        assert!(
            reason.contains("`git`") && reason.contains(&INTERFACE.to_string()),
            "{reason}"
        );
        entry.interface = InterfaceVersion {
            major: INTERFACE.major + 1,
            minor: 0,
        };
        assert!(entry.incompatibility().is_some());
    }

    #[test]
    fn a_manifest_is_json_and_refuses_a_name_that_comes_twice() {
        let text = r#"[{"id":"a","version":"1.0.0","interface":{"major":1,"minor":0},"config":{"x":1}},
                       {"id":"a","version":"1.0.0","interface":{"major":1,"minor":0}}]"#;
        let manifest: Manifest = serde_json::from_str(text).unwrap();
        assert_eq!(manifest.plugins[0].config["x"], 1);
        assert_eq!(
            manifest.validate(),
            Err(ManifestError::Duplicate(PluginId::new("a")))
        );
        let typo = r#"[{"id":"a","version":"1","interface":{"major":1,"minor":0},"requird":true}]"#;
        assert!(
            serde_json::from_str::<Manifest>(typo)
                .unwrap_err()
                .to_string()
                .contains("requird")
        );
    }
}
