//! Which provider has a key, as far as it can be told from outside a session: names, never a key.
//!
//! A session knows more, for it also asks the credential store.

use std::collections::BTreeMap;

use bezel_dist_session::{built_in_providers, key_variables};

use crate::config::{Config, ProviderSettings, VARIABLES};

/// Variables that requests to providers depend on besides keys.
const ON_THE_WAY: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
];

/// Where a provider's key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// This variable.
    Variable(String),
    /// A command.
    Command,
    /// It needs none.
    NotNeeded,
    /// None of these variables is set.
    Missing(Vec<String>),
}

/// The names of all providers that a model may name: the configured ones first.
pub fn providers(config: &Config) -> Vec<String> {
    let configured = config.providers.keys().cloned();
    let built_in = built_in_providers().into_iter().map(|known| known.name);
    configured
        .chain(built_in.filter(|name| !config.providers.contains_key(name)))
        .collect()
}

/// The key of a provider; none where there is no such provider.
pub fn key_of(
    config: &Config,
    environment: &BTreeMap<String, String>,
    provider: &str,
) -> Option<Key> {
    let variables = match config.providers.get(provider) {
        Some(settings) if settings.api_key_command.is_some() => return Some(Key::Command),
        Some(settings) => variables(provider, settings),
        None => {
            let mut all = built_in_providers().into_iter();
            all.find(|known| known.name == provider)?.key_variables
        }
    };
    if variables.is_empty() {
        return Some(Key::NotNeeded);
    }
    let set = |name: &&String| {
        let value = environment.get(*name);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    Some(match variables.iter().find(set) {
        Some(name) => Key::Variable(name.clone()),
        None => Key::Missing(variables),
    })
}

/// The variables that may hold the key of a configured provider. A well-known key goes to its own address
/// only.
fn variables(name: &str, settings: &ProviderSettings) -> Vec<String> {
    if let Some(variable) = &settings.api_key_env {
        return vec![variable.clone()];
    }
    if settings.base_url.is_some() {
        return Vec::new();
    }
    let kind = settings.kind.as_ref().map(|kind| kind.0.as_str());
    match kind {
        Some(kind) => key_variables(kind),
        None => key_variables(name),
    }
}

/// Whether anything here could answer a prompt: a configured model or provider, or a provider's usual key.
pub fn anything_answers(config: &Config, environment: &BTreeMap<String, String>) -> bool {
    let has_key = |name: &String| {
        matches!(
            key_of(config, environment, name),
            Some(Key::Variable(_) | Key::Command)
        )
    };
    config.model.is_some() || !config.providers.is_empty() || providers(config).iter().any(has_key)
}

/// The variables for whose sake a session's process gives way to another one.
pub fn telling_variables(config: &Config) -> Vec<String> {
    let mut all: Vec<String> = VARIABLES
        .iter()
        .map(|(name, _)| *name)
        .chain(ON_THE_WAY.iter().copied())
        .map(str::to_owned)
        .collect();
    for (name, settings) in &config.providers {
        all.extend(variables(name, settings));
    }
    let built_in = built_in_providers().into_iter();
    all.extend(built_in.flat_map(|provider| provider.key_variables));
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProviderKind;

    fn config() -> Config {
        let mut config = Config::default();
        let of_kind = |kind: &str| ProviderSettings {
            kind: Some(ProviderKind(kind.into())),
            ..ProviderSettings::default()
        };
        let named = ProviderSettings {
            api_key_env: Some("LOCAL_KEY".into()),
            ..of_kind("openai")
        };
        let keyless = ProviderSettings {
            base_url: Some("http://127.0.0.1:1/v1".into()),
            ..of_kind("anthropic")
        };
        let printed = ProviderSettings {
            api_key_command: Some("pass show x".into()),
            ..of_kind("openai")
        };
        for (name, settings) in [
            ("local", named),
            ("keyless", keyless),
            ("printed", printed),
            ("mine", of_kind("groq")),
            ("cerebras", ProviderSettings::default()),
        ] {
            config.providers.insert(name.into(), settings);
        }
        config
    }

    fn key(provider: &str, environment: &[(&str, &str)]) -> Option<Key> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        key_of(
            &config(),
            &environment.iter().map(owned).collect(),
            provider,
        )
    }

    #[test]
    fn a_key_is_where_a_session_looks_for_it() {
        let missing = |name: &str| Some(Key::Missing(vec![name.into()]));
        assert_eq!(key("local", &[]), missing("LOCAL_KEY"));
        assert_eq!(key("local", &[("LOCAL_KEY", " ")]), missing("LOCAL_KEY"));
        let set = Some(Key::Variable("LOCAL_KEY".into()));
        assert_eq!(key("local", &[("LOCAL_KEY", "k")]), set);
        assert_eq!(key("keyless", &[]), Some(Key::NotNeeded));
        assert_eq!(key("printed", &[]), Some(Key::Command));
        assert_eq!(key("mine", &[]), missing("GROQ_API_KEY"));
        assert_eq!(key("cerebras", &[]), missing("CEREBRAS_API_KEY"));
        assert_eq!(key("anthropic", &[]), missing("ANTHROPIC_API_KEY"));
        assert_eq!(key("ollama", &[]), Some(Key::NotNeeded));
        assert_eq!(key("nobody", &[]), None);
    }

    #[test]
    fn an_empty_configuration_needs_a_key_to_answer() {
        let empty = Config::default();
        assert!(!anything_answers(&empty, &BTreeMap::new()));
        let key = BTreeMap::from([("XAI_API_KEY".to_owned(), "k".to_owned())]);
        assert!(anything_answers(&empty, &key));
        assert!(anything_answers(&config(), &BTreeMap::new()));
    }
}
