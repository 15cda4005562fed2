//! Credentials in the platform's keyring, with the file where there is no keyring.

use std::sync::Arc;

use bezel_accounts_contract::{CredentialError, CredentialStore, Secret};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::file_store::FileStore;

/// The keyring's name for what Bezel keeps.
const SERVICE: &str = "bezel";

/// The keyring first, the file behind it. A missing keyring is the file's case, not an error.
pub(crate) struct KeyringStore {
    file: Arc<FileStore>,
}

impl KeyringStore {
    pub(crate) fn new(file: Arc<FileStore>) -> Self {
        KeyringStore { file }
    }
}

/// Runs a keyring operation where blocking is allowed. `None` when the keyring cannot be used.
async fn with_entry<T: Send + 'static>(
    provider: String,
    operate: impl FnOnce(&keyring::Entry) -> keyring::Result<T> + Send + 'static,
) -> Option<keyring::Result<T>> {
    let operation = move || match keyring::Entry::new(SERVICE, &provider) {
        Ok(entry) => match operate(&entry) {
            Err(keyring::Error::PlatformFailure(_) | keyring::Error::NoStorageAccess(_)) => None,
            result => Some(result),
        },
        Err(_) => None,
    };
    tokio::task::spawn_blocking(operation).await.ok().flatten()
}

fn failed(what: &str, provider: &str, error: keyring::Error) -> CredentialError {
    CredentialError {
        message: format!("cannot {what} the key of {provider} in the keyring: {error}"),
    }
}

impl CredentialStore for KeyringStore {
    fn get(&self, provider: &str) -> BoxFuture<'static, Result<Option<Secret>, CredentialError>> {
        let provider = provider.to_owned();
        let behind = self.file.get(&provider);
        async move {
            match with_entry(provider.clone(), keyring::Entry::get_password).await {
                Some(Ok(text)) => Ok(Some(Secret::new(text))),
                Some(Err(keyring::Error::NoEntry)) | None => behind.await,
                Some(Err(error)) => Err(failed("read", &provider, error)),
            }
        }
        .boxed()
    }

    fn set(
        &self,
        provider: &str,
        secret: Secret,
    ) -> BoxFuture<'static, Result<(), CredentialError>> {
        let provider = provider.to_owned();
        let behind = self.file.set(&provider, secret.clone());
        async move {
            let text = secret.reveal().to_owned();
            match with_entry(provider.clone(), move |entry| entry.set_password(&text)).await {
                Some(Ok(())) => Ok(()),
                None => behind.await,
                Some(Err(error)) => Err(failed("store", &provider, error)),
            }
        }
        .boxed()
    }

    fn remove(&self, provider: &str) -> BoxFuture<'static, Result<bool, CredentialError>> {
        let provider = provider.to_owned();
        let behind = self.file.remove(&provider);
        async move {
            let ring = with_entry(provider.clone(), keyring::Entry::delete_credential).await;
            let from_ring = match ring {
                Some(Ok(())) => true,
                Some(Err(keyring::Error::NoEntry)) | None => false,
                Some(Err(error)) => return Err(failed("remove", &provider, error)),
            };
            Ok(behind.await? || from_ring)
        }
        .boxed()
    }

    fn providers(&self) -> BoxFuture<'static, Result<Vec<String>, CredentialError>> {
        // A keyring cannot be listed everywhere; what it holds is found by asking for a provider.
        self.file.providers()
    }
}
