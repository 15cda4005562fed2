//! The worker's credential store, for facets of the same process only.

use std::fmt;
use std::sync::Arc;

use bezel_rpc::LocalService;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// A credential. Its text appears in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// The store could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CredentialError {
    /// What was attempted, on what, and what to do.
    pub message: String,
}

/// Keeps credentials by provider.
pub trait CredentialStore: Send + Sync {
    /// The stored credential.
    fn get(&self, provider: &str) -> BoxFuture<'static, Result<Option<Secret>, CredentialError>>;
    /// Stores a credential in place of an earlier one.
    fn set(
        &self,
        provider: &str,
        secret: Secret,
    ) -> BoxFuture<'static, Result<(), CredentialError>>;
    /// Forgets one. False where there was none.
    fn remove(&self, provider: &str) -> BoxFuture<'static, Result<bool, CredentialError>>;
    /// Which providers have one.
    fn providers(&self) -> BoxFuture<'static, Result<Vec<String>, CredentialError>>;
}

/// The local service: a store, and a mark that moves whenever it changes.
pub struct Credentials {
    store: Arc<dyn CredentialStore>,
    revision: watch::Sender<u64>,
}

impl LocalService for Credentials {
    const ID: &'static str = "credentials";
}

impl Credentials {
    /// Over a store.
    pub fn new(store: Arc<dyn CredentialStore>) -> Self {
        Credentials {
            store,
            revision: watch::Sender::new(0),
        }
    }

    /// The stored credential.
    pub async fn get(&self, provider: &str) -> Result<Option<Secret>, CredentialError> {
        self.store.get(provider).await
    }

    /// Stores a credential in place of an earlier one.
    pub async fn set(&self, provider: &str, secret: Secret) -> Result<(), CredentialError> {
        self.store.set(provider, secret).await?;
        self.revision.send_modify(|revision| *revision += 1);
        Ok(())
    }

    /// Forgets one. False where there was none.
    pub async fn remove(&self, provider: &str) -> Result<bool, CredentialError> {
        let removed = self.store.remove(provider).await?;
        self.revision.send_modify(|revision| *revision += 1);
        Ok(removed)
    }

    /// Which providers have one.
    pub async fn providers(&self) -> Result<Vec<String>, CredentialError> {
        self.store.providers().await
    }

    /// Moves whenever a credential changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }
}
