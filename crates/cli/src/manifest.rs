//! From the configuration to the manifest: which plugins, in which order, and what each is told.

use std::collections::{BTreeMap, BTreeSet};

use bezel_plugin::{ConfigError, Facet, Manifest, ManifestEntry};
use bezel_session_types::{ModelRef, ThinkingLevel};
use bezel_sessions_contract::PermissionMode;
use serde_json::{Map, Value, json};

use crate::config::{Config, Permission, ResumeWhen, Thinking};
use crate::paths::Paths;

/// Keys of the policy plugin's configuration that its server facet reads; its session facet reads the rest.
const SERVER_POLICY: &[&str] = &[
    "start_timeout_seconds",
    "stop_grace_seconds",
    "reconnect_timeout_seconds",
    "restart",
    "resume",
];

/// The provider that stands in where none is configured.
pub const STAND_IN: &str = "scripted";

/// What a session's record says beside the configuration.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// The model; none while the configured one serves.
    pub model: Option<ModelRef>,
    /// How much it reasons; none while the configured level serves.
    pub thinking: Option<ThinkingLevel>,
    /// The agent; none while the configured one serves.
    pub agent: Option<String>,
    /// What the agent may do unasked.
    pub permission_mode: PermissionMode,
}

/// The plugins that the product is made of, in order.
fn entries() -> Vec<ManifestEntry> {
    let mut all: Vec<ManifestEntry> = Vec::new();
    let parts = [
        bezel_dist_server::manifest_entries(),
        bezel_dist_session::manifest_entries(),
        bezel_dist_tui::manifest_entries(),
    ];
    for entry in parts.into_iter().flatten() {
        match all.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => {
                known.required |= entry.required;
                known.grants.extend(entry.grants);
            }
            None => all.push(entry),
        }
    }
    all
}

/// A plugin's name, and whether the product needs it.
pub fn plugins() -> Vec<(String, bool)> {
    entries()
        .into_iter()
        .map(|entry| (entry.id.as_str().to_owned(), entry.required))
        .collect()
}

/// The manifest of a server; `paths` where it outlives this process's user interface.
pub fn server(config: &Config, paths: Option<&Paths>) -> Manifest {
    let mut manifest = chosen(config);
    retain_policy(&mut manifest, |key| SERVER_POLICY.contains(&key));
    let session = &config.session;
    tell(
        &mut manifest,
        "sessions",
        json!({ "keep_days": session.keep_days, "max_bytes": session.max_bytes }),
    );
    if config.session.resume != ResumeWhen::default() {
        tell(
            &mut manifest,
            "policy",
            json!({ "resume": config.session.resume }),
        );
    }
    if let Some(paths) = paths {
        tell(
            &mut manifest,
            "access",
            json!({ "file": paths.data.join("access.json") }),
        );
    }
    manifest
}

/// The manifest of a session's worker.
pub fn session(config: &Config, paths: &Paths, session: &Chosen) -> Manifest {
    let mut manifest = chosen(config);
    retain_policy(&mut manifest, |key| !SERVER_POLICY.contains(&key));
    tell(
        &mut manifest,
        "providers",
        json!({ "providers": config.providers }),
    );
    let configured = config
        .model
        .as_deref()
        .and_then(|model| model.parse::<ModelRef>().ok());
    let thinking = session.thinking.unwrap_or(
        config
            .thinking
            .map_or(ThinkingLevel::Off, ThinkingLevel::from),
    );
    tell(
        &mut manifest,
        "models",
        json!({
            "model": session.model.as_ref().or(configured.as_ref()),
            "thinking": thinking,
            "chosen": session.model.is_some(),
            "configured_providers": config.providers.keys().collect::<Vec<_>>(),
        }),
    );
    let variables: Vec<&String> = config
        .providers
        .values()
        .filter_map(|provider| provider.api_key_env.as_ref())
        .collect();
    tell(
        &mut manifest,
        "tools",
        json!({ "key_variables": variables }),
    );
    tell(
        &mut manifest,
        "accounts",
        json!({ "file": paths.credentials(), "keyring": true }),
    );
    tell(
        &mut manifest,
        "instructions",
        json!({ "user_file": paths.config.with_file_name("AGENTS.md") }),
    );
    tell(
        &mut manifest,
        "policy",
        json!({ "idle_exit_minutes": config.session.idle_exit_minutes }),
    );
    tell(
        &mut manifest,
        "agents",
        json!({ "agent": session.agent, "configured": config.agent }),
    );
    tell(
        &mut manifest,
        "permissions",
        json!({
            "mode": session.permission_mode,
            "rules": config.permissions.rules,
            "approvals": paths.approvals(),
        }),
    );
    manifest
}

/// The manifest of a terminal whose new sessions begin as `session` says.
pub fn tui(config: &Config, session: &Chosen) -> Manifest {
    let mut manifest = chosen(config);
    retain_policy(&mut manifest, |_| false);
    tell(&mut manifest, "theme", json!({ "theme": config.theme }));
    tell(
        &mut manifest,
        "sessions",
        json!({
            "model": session.model,
            "agent": session.agent,
            "permission_mode": session.permission_mode,
        }),
    );
    manifest
}

/// What is wrong in `[plugins.ID.config]`, by plugin: what a facet cannot read, or that none reads any.
pub fn mistakes(config: &Config, paths: &Paths) -> BTreeMap<String, String> {
    let usual = Chosen::default();
    let mut reading = ReadConfigs::default();
    reading.of(bezel_dist_server::facets(), &server(config, None));
    reading.of(
        bezel_dist_session::facets(),
        &session(config, paths, &usual),
    );
    reading.of(bezel_dist_tui::facets(), &tui(config, &usual));
    let mut wrong = BTreeMap::new();
    let told = config.plugins.iter();
    for (id, _) in told.filter(|(_, settings)| !settings.config.is_empty()) {
        if let Some(error) = reading.refused.get(id) {
            wrong.insert(id.clone(), error.message.clone());
        } else if !reading.readers.contains(id) {
            wrong.insert(id.clone(), "it takes no configuration".to_owned());
        }
    }
    wrong
}

/// The plugins that read a configuration, and those that cannot read the one that they would get.
#[derive(Default)]
struct ReadConfigs {
    readers: BTreeSet<String>,
    refused: BTreeMap<String, ConfigError>,
}

impl ReadConfigs {
    fn of<C>(&mut self, facets: Vec<Facet<C>>, manifest: &Manifest) {
        for facet in facets {
            let id = facet.plugin().as_str();
            let Some(entry) = manifest.entry(id) else {
                continue;
            };
            let Some(checked) = facet.check_config(&entry.config) else {
                continue;
            };
            self.readers.insert(id.to_owned());
            if let Err(error) = checked {
                self.refused.entry(id.to_owned()).or_insert(error);
            }
        }
    }
}

/// The plugins that are not switched off, each with what the configuration has for it.
fn chosen(config: &Config) -> Manifest {
    let mut plugins = entries();
    plugins.retain_mut(|entry| match config.plugins.get(entry.id.as_str()) {
        Some(settings) => {
            if !settings.config.is_empty() {
                entry.config = json!(settings.config);
            }
            settings.enabled
        }
        None => true,
    });
    Manifest { plugins }
}

/// Tells a plugin what the typed keys say; what `[plugins.ID.config]` says goes before.
pub fn tell(manifest: &mut Manifest, id: &str, typed: Value) {
    let Some(entry) = manifest.entry_mut(id) else {
        return;
    };
    let mut all = match typed {
        Value::Object(all) => all,
        _ => Map::new(),
    };
    if let Value::Object(own) = std::mem::take(&mut entry.config) {
        all.extend(own);
    }
    entry.config = Value::Object(all);
}

/// Tells a plugin what no configuration changes.
pub fn insist(manifest: &mut Manifest, id: &str, said: Value) {
    tell(manifest, id, said.clone());
    if let (Some(entry), Value::Object(said)) = (manifest.entry_mut(id), said)
        && let Value::Object(all) = &mut entry.config
    {
        all.extend(said);
    }
}

fn retain_policy(manifest: &mut Manifest, keep: impl Fn(&str) -> bool) {
    let Some(entry) = manifest.entry_mut("policy") else {
        return;
    };
    if let Value::Object(all) = &mut entry.config {
        all.retain(|key, _| keep(key));
        if all.is_empty() {
            entry.config = Value::Null;
        }
    }
}

impl From<Thinking> for ThinkingLevel {
    fn from(thinking: Thinking) -> Self {
        match thinking {
            Thinking::Off => ThinkingLevel::Off,
            Thinking::Low => ThinkingLevel::Low,
            Thinking::Medium => ThinkingLevel::Medium,
            Thinking::High => ThinkingLevel::High,
        }
    }
}

impl From<Permission> for PermissionMode {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::Plan => PermissionMode::Plan,
            Permission::Ask => PermissionMode::Ask,
            Permission::AcceptEdits => PermissionMode::AcceptEdits,
            Permission::Auto => PermissionMode::Auto,
            Permission::Full => PermissionMode::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PluginSettings;

    fn config() -> Config {
        let mut config = Config {
            model: Some("a::b".into()),
            thinking: Some(Thinking::High),
            ..Config::default()
        };
        let policy = [
            ("restart".to_owned(), json!("never")),
            ("telling_files".to_owned(), json!(["/x"])),
        ];
        config.plugins.insert(
            "policy".into(),
            PluginSettings {
                enabled: true,
                config: policy.into(),
            },
        );
        config.plugins.insert(
            "usage".into(),
            PluginSettings {
                enabled: false,
                config: Default::default(),
            },
        );
        config
    }

    #[test]
    fn each_host_gets_the_same_plugins_in_the_same_order_and_its_own_settings() {
        let paths = Paths::under("/b".into());
        let plan = Chosen {
            permission_mode: PermissionMode::Plan,
            ..Chosen::default()
        };
        let (server, session, tui) = (
            server(&config(), None),
            session(&config(), &paths, &plan),
            tui(&config(), &plan),
        );
        let ids = |manifest: &Manifest| {
            manifest
                .plugins
                .iter()
                .map(|entry| entry.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&server), ids(&session));
        assert_eq!(ids(&server), ids(&tui));
        assert_eq!(server.validate(), Ok(()));
        assert!(server.entry("usage").is_none());
        assert_eq!(
            server.entry("policy").unwrap().config,
            json!({ "restart": "never" })
        );
        let policy = &session.entry("policy").unwrap().config;
        assert_eq!(
            *policy,
            json!({ "idle_exit_minutes": 10, "telling_files": ["/x"] })
        );
        let permissions = &session.entry("permissions").unwrap().config;
        assert_eq!(
            *permissions,
            json!({ "mode": "plan", "rules": [], "approvals": "/b/data/approvals.json" })
        );
        let models = &session.entry("models").unwrap().config;
        assert_eq!(
            *models,
            json!({ "model": { "provider": "a", "model_id": "b" }, "thinking": "high", "chosen": false, "configured_providers": [] })
        );
        assert!(server.entry("models").unwrap().config.is_null());
    }

    #[test]
    fn what_is_insisted_on_goes_before_the_configuration_and_leaves_the_rest() {
        let mut config = config();
        let own = [
            ("mode".to_owned(), json!("full")),
            ("x".to_owned(), json!(1)),
        ];
        let settings = PluginSettings {
            enabled: true,
            config: own.into(),
        };
        config.plugins.insert("permissions".into(), settings);
        let mut manifest = session(&config, &Paths::under("/b".into()), &Chosen::default());
        insist(
            &mut manifest,
            "permissions",
            json!({ "mode": "plan", "above": [] }),
        );
        let permissions = &manifest.entry("permissions").unwrap().config;
        assert_eq!(
            *permissions,
            json!({ "mode": "plan", "above": [], "x": 1, "rules": [], "approvals": "/b/data/approvals.json" })
        );
    }

    #[test]
    fn a_setting_that_its_plugin_cannot_read_is_a_mistake_and_the_others_are_none() {
        let paths = Paths::under("/b".into());
        let told = |id: &str, settings: Value| {
            let Value::Object(settings) = settings else {
                unreachable!("the tests write objects")
            };
            let settings = PluginSettings {
                enabled: true,
                config: settings.into_iter().collect(),
            };
            let mut config = config();
            config.plugins.insert(id.into(), settings);
            mistakes(&config, &paths)
        };
        assert_eq!(mistakes(&config(), &paths), BTreeMap::new());
        assert_eq!(told("subagent", json!({ "max_depth": 2 })), BTreeMap::new());
        for (id, settings, said) in [
            (
                "subagent",
                json!({ "max_dept": 2 }),
                "unknown field `max_dept`",
            ),
            ("subagent", json!({ "max_depth": "two" }), "invalid type"),
            ("policy", json!({ "restarts": "never" }), "unknown field"),
            ("chat", json!({ "foo": 1 }), "takes no configuration"),
        ] {
            let wrong = told(id, settings);
            assert!(
                wrong.len() == 1 && wrong[id].contains(said),
                "{id}: {wrong:?}"
            );
        }
    }

    #[test]
    fn a_session_that_chose_a_model_keeps_it() {
        let chosen = Chosen {
            model: "c::d".parse().ok(),
            thinking: Some(ThinkingLevel::Low),
            ..Chosen::default()
        };
        let session = session(&config(), &Paths::under("/b".into()), &chosen);
        let models = &session.entry("models").unwrap().config;
        assert_eq!(
            *models,
            json!({ "model": { "provider": "c", "model_id": "d" }, "thinking": "low", "chosen": true, "configured_providers": [] })
        );
    }
}
