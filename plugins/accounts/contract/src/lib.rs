//! Which providers have a credential; never the credential.
//!
//! [`Accounts`] is the remote face. [`Credentials`] is the local service behind it: facets of the worker
//! use it, and a remote look-up of it answers as for an id that does not exist.

mod credentials;

use bezel_rpc::{Context, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use credentials::{CredentialError, CredentialStore, Credentials, Secret};

/// The narrow remote face of the worker's credential store.
#[service("accounts", version = "1.0")]
pub trait Accounts {
    /// Providers and whether each is configured.
    fn state(&self) -> State<AccountsState>;

    /// Forgets the stored credential of `provider`. One from the environment stays.
    #[scope(admin)]
    async fn remove(&self, cx: &Context, provider: String) -> Result<(), AccountsError>;
}

/// Providers and whether each is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccountsState {
    /// In catalogue order.
    pub providers: Vec<Account>,
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Its name.
    pub provider: String,
    /// Whether there is a credential.
    pub configured: bool,
    /// Where it comes from.
    pub source: Option<CredentialSource>,
}

/// Where a credential comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialSource {
    /// The shell that started the session.
    Environment,
    /// The credential store.
    Store,
    /// The configured command.
    Command,
}

/// Why a credential could not be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum AccountsError {
    /// There is none stored.
    #[error("no credential is stored for {provider}")]
    NotStored {
        /// Which.
        provider: String,
    },
    /// The store could not be written.
    #[error("the credential store could not be written: {message}")]
    Store {
        /// What happened and what to do.
        message: String,
    },
}
