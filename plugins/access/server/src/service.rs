//! The contract, over the ledger.

use std::path::Path;
use std::sync::Arc;

use bezel_access_contract::{
    Access, AccessError, AccessState, PairOptions, PairedWorkspace, PairingCode,
};
use bezel_api_server::{FleetError, ManagedSessions};
use bezel_context::{Context, CredentialId, Principal, Scope, Scopes, Workspaces};
use bezel_rpc::State;

use crate::clients::Grant;
use crate::codes::MOST_CODES;
use crate::ledger::Ledger;

/// A label's characters at most.
const MOST_LABEL: usize = 80;

pub(crate) struct Service {
    pub(crate) ledger: Ledger,
    pub(crate) managed: ManagedSessions,
}

impl Access for Service {
    fn state(&self) -> State<AccessState> {
        self.ledger.state().state()
    }

    async fn pair(&self, cx: &Context, options: PairOptions) -> Result<PairingCode, AccessError> {
        let principal = principal(cx)?;
        let grant = Grant {
            owner: principal.owner.clone(),
            label: label(options.label.as_deref())?,
            scopes: scopes(principal, &options.scopes)?,
            workspaces: self.workspaces(cx, principal, options.directory).await?,
            maker: principal.credential.clone(),
        };
        let workspaces = grant.workspaces.clone();
        let made = self.ledger.make_code(grant);
        let (code, expires_at) = made.ok_or_else(|| {
            invalid(format!(
                "{MOST_CODES} pairing codes work already; use one, or wait until they expire"
            ))
        })?;
        Ok(PairingCode {
            code,
            expires_at: expires_at.to_string(),
            workspaces,
        })
    }

    async fn revoke(
        &self,
        cx: &Context,
        client: CredentialId,
    ) -> Result<Vec<CredentialId>, AccessError> {
        let revoked = self.ledger.revoke(cx, principal(cx)?, &client).await;
        let revoked = revoked.map_err(|error| AccessError::Storage {
            message: format!("{error}; the access is taken back until the server starts again"),
        })?;
        revoked.ok_or(AccessError::UnknownClient { client })
    }
}

impl Service {
    /// Where a new client may work: what its maker asks for, within what the maker has.
    async fn workspaces(
        &self,
        cx: &Context,
        principal: &Principal,
        directory: Option<String>,
    ) -> Result<Option<Vec<PairedWorkspace>>, AccessError> {
        let Some(directory) = directory else {
            return Ok(self.inherited(principal));
        };
        let registered = self.managed.register(cx, Path::new(&directory)).await;
        let workspace = registered.map_err(|error| match error {
            FleetError::Directory { reason, .. } => AccessError::Directory { directory, reason },
            other => AccessError::Storage {
                message: other.to_string(),
            },
        })?;
        Ok(Some(vec![PairedWorkspace {
            workspace_id: workspace.workspace_id,
            name: workspace.name,
        }]))
    }

    fn inherited(&self, principal: &Principal) -> Option<Vec<PairedWorkspace>> {
        let Workspaces::Only(reachable) = &principal.workspaces else {
            return None;
        };
        let maker = principal
            .credential
            .as_ref()
            .and_then(|id| self.ledger.client(id));
        let named = maker
            .and_then(|maker| maker.grant.workspaces)
            .unwrap_or_default();
        let of = |id: &bezel_context::WorkspaceId| {
            let named = named.iter().find(|named| named.workspace_id == *id);
            named.cloned().unwrap_or_else(|| PairedWorkspace {
                workspace_id: id.clone(),
                name: String::new(),
            })
        };
        Some(reachable.iter().map(of).collect())
    }
}

fn principal(cx: &Context) -> Result<&Arc<Principal>, AccessError> {
    let missing = || invalid("only a connection may ask for this: it says for whom it acts".into());
    cx.principal().ok_or_else(missing)
}

/// What was asked for, where the maker has all of it.
fn scopes(maker: &Principal, asked: &[Scope]) -> Result<Scopes, AccessError> {
    if asked.is_empty() {
        return Err(invalid(
            "name at least one scope: read, operate or admin".into(),
        ));
    }
    match asked.iter().find(|scope| !maker.scopes.allows(**scope)) {
        Some(scope) => Err(AccessError::Wider {
            scope: name(*scope).into(),
        }),
        None => Ok(Scopes::of(asked.iter().copied())),
    }
}

fn label(text: Option<&str>) -> Result<String, AccessError> {
    let text = text.unwrap_or_default().trim();
    if text.chars().count() > MOST_LABEL || text.chars().any(char::is_control) {
        return Err(invalid(format!(
            "the label is not one line of at most {MOST_LABEL} characters; write a shorter one"
        )));
    }
    Ok(text.into())
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Operate => "operate",
        Scope::Admin => "admin",
    }
}

fn invalid(message: String) -> AccessError {
    AccessError::Invalid { message }
}
