//! The credential store of the worker and its narrow remote facade.
//!
//! [`Credentials`] stays in this process; presentations see through [`Accounts`] which providers are
//! configured and may have a stored credential forgotten. No secret is in any frame.

mod file_store;
mod keyring_store;

use std::path::PathBuf;
use std::sync::Arc;

use bezel_accounts_contract::{
    Account, Accounts, AccountsClient, AccountsError, AccountsState, CredentialSource,
    CredentialStore, Credentials,
};
use bezel_api_session::{
    Availability, Facet, FacetError, KeyOrigin, ProviderSet, SessionContext, SessionFacet,
};
use bezel_rpc::{Context, State};
use serde::Deserialize;

use crate::file_store::FileStore;
use crate::keyring_store::KeyringStore;

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccountsConfig {
    /// The file for credentials, mode 0600; used where the keyring is not.
    pub file: Option<PathBuf>,
    /// Whether to try the platform's keyring first.
    pub keyring: bool,
}

/// The session facet of accounts.
pub fn facet() -> SessionFacet {
    Facet::new("accounts", setup)
        .configured::<AccountsConfig>()
        .provides::<AccountsClient>()
        .provides_local::<Credentials>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: AccountsConfig = cx.config()?;
    let file = Arc::new(FileStore::new(config.file));
    // Without a session bus there is no keyring to ask on this platform.
    let reachable = cfg!(not(target_os = "linux"))
        || cx
            .agent
            .environment()
            .contains_key("DBUS_SESSION_BUS_ADDRESS");
    let store: Arc<dyn CredentialStore> = match config.keyring && reachable {
        true => Arc::new(KeyringStore::new(file)),
        false => file,
    };
    let credentials = Arc::new(Credentials::new(store));
    cx.provide_local(Arc::clone(&credentials));

    let cell = cx.state_cell(AccountsState::default());
    cx.provide(AccountsClient::new(AccountsService {
        credentials,
        state: cell.state(),
    }));
    let mut providers = cx.catalogue.watch();
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        spawner.spawn("accounts state", async move {
            loop {
                let accounts = accounts(&providers.borrow_and_update());
                cell.update(&Context::background(), |state| state.providers = accounts);
                if providers.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    });
    Ok(())
}

fn accounts(providers: &ProviderSet) -> Vec<Account> {
    let account = |(name, entry): (&str, &bezel_api_session::ProviderEntry)| Account {
        provider: name.to_owned(),
        configured: entry.availability == Availability::Available,
        source: entry.key_origin.map(|origin| match origin {
            KeyOrigin::Environment => CredentialSource::Environment,
            KeyOrigin::Store => CredentialSource::Store,
            KeyOrigin::Command => CredentialSource::Command,
        }),
    };
    providers.iter().map(account).collect()
}

struct AccountsService {
    credentials: Arc<Credentials>,
    state: State<AccountsState>,
}

impl Accounts for AccountsService {
    fn state(&self) -> State<AccountsState> {
        self.state.clone()
    }

    async fn remove(&self, _cx: &Context, provider: String) -> Result<(), AccountsError> {
        match self.credentials.remove(&provider).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AccountsError::NotStored { provider }),
            Err(error) => Err(AccountsError::Store {
                message: error.message,
            }),
        }
    }
}
