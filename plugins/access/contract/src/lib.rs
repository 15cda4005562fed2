//! Remote access: pairing codes, paired clients, and taking them back.
//!
//! A pairing code is a credential for one connection: a client shows it in its hello, and the welcome
//! brings the token that it shows from then on. Neither is ever part of this contract's state.

use std::fmt;

use bezel_context::{CredentialId, Scope, WorkspaceId};
use bezel_rpc::{Context, State, service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who else may connect as this owner.
#[service("access", version = "1.0")]
pub trait Access {
    /// The paired clients within the caller's reach.
    #[scope(admin)]
    fn state(&self) -> State<AccessState>;

    /// A new pairing code. What it gives is never more than the caller itself has.
    #[scope(admin)]
    async fn pair(&self, cx: &Context, options: PairOptions) -> Result<PairingCode, AccessError>;

    /// Takes a paired client's access back, and that of all whom it let in. Their connections end at
    /// once. Returns every client that lost its access.
    #[scope(admin)]
    async fn revoke(
        &self,
        cx: &Context,
        client: CredentialId,
    ) -> Result<Vec<CredentialId>, AccessError>;
}

/// The paired clients within the caller's reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessState {
    /// The newest first.
    pub clients: Vec<PairedClient>,
}

/// A client that was paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairedClient {
    /// Names it; no secret.
    pub id: CredentialId,
    /// What the person called it; may be empty.
    pub label: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where it may do that; none for all of the owner's workspaces.
    pub workspaces: Option<Vec<PairedWorkspace>>,
    /// RFC 3339.
    pub created_at: String,
    /// When it last connected, RFC 3339; none before its first connection with the token.
    pub last_used_at: Option<String>,
}

/// A workspace that a client is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairedWorkspace {
    /// Its id.
    pub workspace_id: WorkspaceId,
    /// Its display name.
    pub name: String,
}

/// What a pairing code gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairOptions {
    /// What to call the client.
    pub label: Option<String>,
    /// What it may do. A wider scope includes the narrower ones.
    pub scopes: Vec<Scope>,
    /// A directory of the server's machine: the client is bound to the workspace that it lies in. None for
    /// all that the caller reaches.
    pub directory: Option<String>,
}

/// A pairing code. Its debug form hides the code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairingCode {
    /// To type or to paste: letters and digits in groups. Works once.
    pub code: String,
    /// Until when, RFC 3339.
    pub expires_at: String,
    /// The name of the workspaces that it is bound to; none for all.
    pub workspaces: Option<Vec<PairedWorkspace>>,
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PairingCode")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Why access was not given or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum AccessError {
    /// The code would give more than its maker has.
    #[error("you cannot give the scope {scope}: you do not have it yourself")]
    Wider {
        /// The scope that is missing.
        scope: String,
    },
    /// There is no such client within the caller's reach.
    #[error("there is no paired client {client}; `bezel access list` shows those there are")]
    UnknownClient {
        /// Which.
        client: CredentialId,
    },
    /// The directory cannot be bound to.
    #[error("cannot bind to {directory}: {reason}")]
    Directory {
        /// As it was given.
        directory: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// An argument makes no sense, or there are too many of something.
    #[error("{message}")]
    Invalid {
        /// What is wrong and what to do.
        message: String,
    },
    /// The paired clients could not be written.
    #[error("the paired clients cannot be saved: {message}")]
    Storage {
        /// What happened and what to do.
        message: String,
    },
}
