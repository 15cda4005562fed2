//! Where a provider's key comes from.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

use bezel_api_session::KeyOrigin;
use bezel_context::Context;
use bezel_session_types::{ProviderError, ProviderErrorKind};
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use crate::command::{self, KeyCommandError};
use crate::config::ProviderConfig;

/// A key. It is shown to nobody but the provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Secret(key.into())
    }

    /// The key itself, for a request's header.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// The store could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CredentialError {
    /// For a person: what was attempted, on what, and what to do.
    pub message: String,
}

/// Stored credentials, by provider name.
pub trait CredentialStore: Send + Sync {
    /// The key stored for `provider`, if there is one.
    fn key<'a>(
        &'a self,
        cx: &'a Context,
        provider: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>>;
}

/// What keys may come from: the session's environment, which is never the process's, and the store.
#[derive(Clone, Default)]
pub struct KeySource {
    environment: Arc<HashMap<OsString, OsString>>,
    credentials: Option<Arc<dyn CredentialStore>>,
}

/// Whether a provider can be asked at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It has a key, or needs none.
    Available {
        /// Where its key comes from; none where it needs none.
        origin: Option<KeyOrigin>,
    },
    /// It needs a key: one of these variables, or an entry in the credential store.
    NeedsKey {
        /// The variables, the first being the one to recommend; empty when only the store can hold it.
        variables: Vec<String>,
    },
}

impl KeySource {
    /// A source over a session's environment.
    pub fn new<K, V>(environment: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let environment = environment
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        KeySource {
            environment: Arc::new(environment.collect()),
            credentials: None,
        }
    }

    /// The same with stored credentials, asked when the environment has no key.
    pub fn with_credentials(mut self, credentials: Arc<dyn CredentialStore>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Whether `config` has a key. Runs no command: one that is configured counts as a key.
    pub async fn availability(&self, cx: &Context, config: &ProviderConfig) -> Availability {
        if config.api_key_command.is_some() {
            return Availability::Available {
                origin: Some(KeyOrigin::Command),
            };
        }
        if self.in_environment(config).is_some() {
            return Availability::Available {
                origin: Some(KeyOrigin::Environment),
            };
        }
        match self.stored(cx, config).await {
            Ok(Some(_)) => Availability::Available {
                origin: Some(KeyOrigin::Store),
            },
            Ok(None) | Err(_) if !needs_key(config) => Availability::Available { origin: None },
            Ok(None) | Err(_) => {
                let variables = config.key_variables().into_iter().map(Into::into).collect();
                Availability::NeedsKey { variables }
            }
        }
    }

    /// A variable of the session, when it is text and not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.environment.get(OsStr::new(name))?.to_str()?.trim();
        (!value.is_empty()).then_some(value)
    }

    pub(crate) fn environment(&self) -> &HashMap<OsString, OsString> {
        &self.environment
    }

    fn in_environment(&self, config: &ProviderConfig) -> Option<Secret> {
        config
            .key_variables()
            .into_iter()
            .find_map(|name| self.variable(name))
            .map(Secret::new)
    }

    async fn stored(
        &self,
        cx: &Context,
        config: &ProviderConfig,
    ) -> Result<Option<Secret>, CredentialError> {
        match &self.credentials {
            None => Ok(None),
            Some(credentials) => credentials.key(cx, &config.name).await,
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeySource")
            .field("variables", &self.environment.len())
            .field("credentials", &self.credentials.is_some())
            .finish()
    }
}

/// Whether requests without a key are pointless. Another address than the kind's own may need none.
fn needs_key(config: &ProviderConfig) -> bool {
    config.api_key_env.is_some() || !config.key_variables().is_empty()
}

/// The key of one provider. What a command printed is kept until it is refused.
pub(crate) struct Key {
    source: KeySource,
    printed: Mutex<Option<Secret>>,
}

impl Key {
    pub(crate) fn new(source: KeySource) -> Self {
        Key {
            source,
            printed: Mutex::default(),
        }
    }

    pub(crate) fn source(&self) -> &KeySource {
        &self.source
    }

    /// The key to send; `None` where none is needed.
    pub(crate) async fn get(
        &self,
        cx: &Context,
        config: &ProviderConfig,
    ) -> Result<Option<Secret>, ProviderError> {
        let key = self.find(cx, config).await?;
        match key {
            Some(key)
                if key
                    .expose()
                    .bytes()
                    .any(|byte| !(b' '..=b'~').contains(&byte)) =>
            {
                Err(authentication(format!(
                    "The key of `{}` holds a character that no key has, such as a line break or a typographic quote. \
                     Copy it anew.",
                    config.name
                )))
            }
            key => Ok(key),
        }
    }

    async fn find(
        &self,
        cx: &Context,
        config: &ProviderConfig,
    ) -> Result<Option<Secret>, ProviderError> {
        if let Some(command) = &config.api_key_command {
            return self.printed(config, command).await.map(Some);
        }
        if let Some(key) = self.source.in_environment(config) {
            return Ok(Some(key));
        }
        match self.source.stored(cx, config).await {
            Ok(Some(key)) => Ok(Some(key)),
            Ok(None) if !needs_key(config) => Ok(None),
            Ok(None) => Err(missing(config)),
            Err(error) => Err(authentication(format!(
                "The key of `{}` could not be read: {error}",
                config.name
            ))),
        }
    }

    /// Forgets what a command printed, because the provider refused it.
    pub(crate) async fn refused(&self) {
        *self.printed.lock().await = None;
    }

    async fn printed(
        &self,
        config: &ProviderConfig,
        command: &str,
    ) -> Result<Secret, ProviderError> {
        // Held while the command runs, so that requests side by side run it once.
        let mut printed = self.printed.lock().await;
        if let Some(key) = &*printed {
            return Ok(key.clone());
        }
        let key = command::run(command, self.source.environment()).await;
        let key = key.map_err(|error: KeyCommandError| {
            let name = &config.name;
            authentication(format!(
                "The key of `{name}` was asked of providers.{name}.api_key_command, which {error}"
            ))
        })?;
        *printed = Some(key.clone());
        Ok(key)
    }
}

fn missing(config: &ProviderConfig) -> ProviderError {
    let name = &config.name;
    let label = config.kind.label();
    let variables: Vec<_> = config
        .key_variables()
        .into_iter()
        .map(|variable| format!("`{variable}`"))
        .collect();
    authentication(format!(
        "There is no key for `{name}` ({label}). Set {} in the shell that you start Bezel from, or set `api_key_env` or \
         `api_key_command` under [providers.{name}] in config.toml.",
        variables.join(" or ")
    ))
}

fn authentication(message: String) -> ProviderError {
    ProviderError {
        kind: ProviderErrorKind::Authentication,
        message,
        status: None,
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::ProviderKind;

    struct Stored(Result<Option<Secret>, CredentialError>);

    impl CredentialStore for Stored {
        fn key<'a>(
            &'a self,
            _cx: &'a Context,
            provider: &'a str,
        ) -> BoxFuture<'a, Result<Option<Secret>, CredentialError>> {
            assert_eq!(provider, "anthropic");
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    fn anthropic() -> ProviderConfig {
        ProviderConfig::of_kind("anthropic", ProviderKind::Anthropic)
    }

    async fn key(source: KeySource, config: &ProviderConfig) -> Result<Option<String>, String> {
        let key = Key::new(source).get(&Context::background(), config).await;
        key.map(|key| key.map(|key| key.expose().into()))
            .map_err(|error| error.message)
    }

    #[tokio::test]
    async fn the_environment_comes_before_the_store() {
        let stored = || Arc::new(Stored(Ok(Some(Secret::new("stored")))));
        let both =
            KeySource::new([("ANTHROPIC_API_KEY", " from-env\n")]).with_credentials(stored());
        assert_eq!(key(both, &anthropic()).await, Ok(Some("from-env".into())));
        let empty = KeySource::new([("ANTHROPIC_API_KEY", "")]).with_credentials(stored());
        assert_eq!(key(empty, &anthropic()).await, Ok(Some("stored".into())));
    }

    #[tokio::test]
    async fn a_missing_key_names_the_variable_to_set() {
        let said = key(KeySource::default(), &anthropic()).await.unwrap_err();
        assert!(
            said.contains("`ANTHROPIC_API_KEY`") && said.contains("`anthropic`"),
            "{said}"
        );
        let mut own = anthropic();
        own.api_key_env = Some("MY_KEY".into());
        own.base_url = Some("http://127.0.0.1:1/v1".into());
        let said = key(KeySource::new([("ANTHROPIC_API_KEY", "x")]), &own)
            .await
            .unwrap_err();
        assert!(
            said.contains("`MY_KEY`") && !said.contains("ANTHROPIC"),
            "{said}"
        );
        let unreadable = Stored(Err(CredentialError {
            message: "the keyring is locked: unlock it".into(),
        }));
        let said = key(
            KeySource::default().with_credentials(Arc::new(unreadable)),
            &anthropic(),
        )
        .await
        .unwrap_err();
        assert!(said.contains("the keyring is locked"), "{said}");
    }

    #[tokio::test]
    async fn another_address_needs_no_key_unless_it_says_so() {
        let mut config = anthropic();
        config.base_url = Some("http://127.0.0.1:1/v1".into());
        let source = KeySource::new([("ANTHROPIC_API_KEY", "secret")]);
        assert_eq!(
            key(source.clone(), &config).await,
            Ok(None),
            "a well-known key must not leak"
        );
        let cx = Context::background();
        assert_eq!(
            source.availability(&cx, &config).await,
            Availability::Available { origin: None }
        );
        let needs = KeySource::default().availability(&cx, &anthropic()).await;
        assert_eq!(
            needs,
            Availability::NeedsKey {
                variables: vec!["ANTHROPIC_API_KEY".into()]
            }
        );
        let ollama = ProviderConfig::of_kind("ollama", ProviderKind::Ollama);
        assert_eq!(
            KeySource::default().availability(&cx, &ollama).await,
            Availability::Available { origin: None }
        );
    }

    #[tokio::test]
    async fn a_command_runs_once_until_its_key_is_refused() {
        let directory =
            std::env::temp_dir().join(format!("bezel-key-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&directory).unwrap();
        let mut config = anthropic();
        config.api_key_command = Some("echo x >> \"$COUNT\"; wc -l < \"$COUNT\"".into());
        let count = directory.join("count");
        let variables = [
            ("COUNT", count.as_os_str().to_owned()),
            ("PATH", std::env::var_os("PATH").unwrap()),
        ];
        let key = Key::new(KeySource::new(variables));
        let cx = Context::background();
        for expected in ["1", "1"] {
            assert_eq!(
                key.get(&cx, &config)
                    .await
                    .unwrap()
                    .unwrap()
                    .expose()
                    .trim(),
                expected
            );
        }
        key.refused().await;
        assert_eq!(
            key.get(&cx, &config)
                .await
                .unwrap()
                .unwrap()
                .expose()
                .trim(),
            "2"
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_sent_says_so_and_is_not_shown() {
        let source = KeySource::new([("ANTHROPIC_API_KEY", "hunter2\nhunter3")]);
        let said = key(source, &anthropic()).await.unwrap_err();
        assert!(
            said.contains("Copy it anew") && !said.contains("hunter"),
            "{said}"
        );
    }

    #[test]
    fn nothing_prints_a_key() {
        let source = KeySource::new([("ANTHROPIC_API_KEY", "hunter2")]);
        let shown = format!("{:?} {:?}", source, Secret::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
