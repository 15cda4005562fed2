//! The paired clients, and those whose access was taken back: what of them is kept.

use bezel_access_contract::{PairedClient, PairedWorkspace};
use bezel_context::{CredentialId, Principal, Scope, Scopes, Workspaces};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::secret::{Fingerprint, new_id};

/// Revoked tokens that are still told from unknown ones.
const MOST_REVOKED: usize = 1000;

/// What a code gives, and a client has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Whose sessions.
    pub(crate) owner: String,
    /// What the person called it.
    pub(crate) label: String,
    /// What it may do.
    pub(crate) scopes: Scopes,
    /// Where; none for all of the owner's.
    pub(crate) workspaces: Option<Vec<PairedWorkspace>>,
    /// The client that made the code; none where the owner did.
    pub(crate) maker: Option<CredentialId>,
}

/// A paired client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: CredentialId,
    /// Of its token.
    pub(crate) token: Fingerprint,
    #[serde(flatten)]
    pub(crate) grant: Grant,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
}

/// A client that was one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revoked {
    pub(crate) id: CredentialId,
    token: Fingerprint,
    pub(crate) revoked_at: Timestamp,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Clients {
    /// The newest last.
    pub(crate) paired: Vec<Client>,
    pub(crate) revoked: Vec<Revoked>,
}

/// Whose token it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known<'c> {
    Paired(&'c mut Client),
    Revoked,
    No,
}

impl Grant {
    #[cfg(test)]
    pub(crate) fn of_owner(owner: &str) -> Self {
        Grant {
            owner: owner.into(),
            label: String::new(),
            scopes: Scopes::all(),
            workspaces: None,
            maker: None,
        }
    }

    /// The workspaces of whoever has this.
    pub(crate) fn reach(&self) -> Workspaces {
        match &self.workspaces {
            None => Workspaces::All,
            Some(workspaces) => Workspaces::Only(
                workspaces
                    .iter()
                    .map(|workspace| workspace.workspace_id.clone())
                    .collect(),
            ),
        }
    }

    /// Whether a principal reaches at least as far, and so may see it and take it back.
    pub(crate) fn is_within(&self, principal: &Principal) -> bool {
        let inside = match (&principal.workspaces, &self.workspaces) {
            (Workspaces::All, _) => true,
            (Workspaces::Only(_), None) => false,
            (reach, Some(workspaces)) => workspaces
                .iter()
                .all(|workspace| reach.reaches(&workspace.workspace_id)),
        };
        inside && principal.owner == self.owner
    }
}

impl Client {
    /// As the contract shows it.
    pub(crate) fn shown(&self) -> PairedClient {
        let scopes = [Scope::Read, Scope::Operate, Scope::Admin];
        PairedClient {
            id: self.id.clone(),
            label: self.grant.label.clone(),
            scopes: scopes
                .into_iter()
                .filter(|scope| self.grant.scopes.allows(*scope))
                .collect(),
            workspaces: self.grant.workspaces.clone(),
            created_at: self.created_at.to_string(),
            last_used_at: self.last_used_at.map(|used| used.to_string()),
        }
    }
}

impl Clients {
    /// Takes a new client in.
    pub(crate) fn add(&mut self, grant: Grant, token: Fingerprint, now: Timestamp) -> CredentialId {
        let id = std::iter::repeat_with(|| CredentialId::new(new_id()))
            .find(|id| self.get(id).is_none() && !self.revoked.iter().any(|old| old.id == *id))
            .expect("an endless iterator ends with an id that is free");
        self.paired.push(Client {
            id: id.clone(),
            token,
            grant,
            created_at: now,
            last_used_at: None,
        });
        id
    }

    pub(crate) fn get(&self, id: &CredentialId) -> Option<&Client> {
        self.paired.iter().find(|client| client.id == *id)
    }

    /// Whose token it is. Looks at every one, whichever it is.
    pub(crate) fn by_token(&mut self, shown: &Fingerprint) -> Known<'_> {
        let mut paired = None;
        for (at, client) in self.paired.iter().enumerate() {
            if client.token.matches(shown) {
                paired = Some(at);
            }
        }
        let revoked = self
            .revoked
            .iter()
            .fold(false, |seen, old| seen | old.token.matches(shown));
        match paired {
            Some(at) => Known::Paired(&mut self.paired[at]),
            None if revoked => Known::Revoked,
            None => Known::No,
        }
    }

    /// Takes back a client's access and that of all whom it let in.
    pub(crate) fn revoke(&mut self, id: &CredentialId, now: Timestamp) -> Vec<CredentialId> {
        let mut gone = vec![id.clone()];
        let mut at = 0;
        while at < gone.len() {
            let made = self
                .paired
                .iter()
                .filter(|client| client.grant.maker.as_ref() == Some(&gone[at]));
            let made: Vec<_> = made.map(|client| client.id.clone()).collect();
            gone.extend(
                made.into_iter()
                    .filter(|id| !gone.contains(id))
                    .collect::<Vec<_>>(),
            );
            at += 1;
        }
        for client in self
            .paired
            .extract_if(.., |client| gone.contains(&client.id))
        {
            self.revoked.push(Revoked {
                id: client.id,
                token: client.token,
                revoked_at: now,
            });
        }
        let surplus = self.revoked.len().saturating_sub(MOST_REVOKED);
        self.revoked.drain(..surplus);
        gone
    }
}

#[cfg(test)]
mod tests {
    use bezel_context::{ClientId, WorkspaceId};

    use super::*;
    use crate::secret::new_token;

    fn bound(names: &[&str]) -> Option<Vec<PairedWorkspace>> {
        let workspace = |name: &&str| PairedWorkspace {
            workspace_id: WorkspaceId::new(*name),
            name: (*name).into(),
        };
        Some(names.iter().map(workspace).collect())
    }

    #[test]
    fn whom_a_revoked_client_let_in_goes_with_it() {
        let (mut clients, now) = (Clients::default(), Timestamp::UNIX_EPOCH);
        let mut add = |maker: Option<CredentialId>| {
            let grant = Grant {
                maker,
                ..Grant::of_owner("me")
            };
            clients.add(grant, new_token().1, now)
        };
        let first = add(None);
        let second = add(Some(first.clone()));
        let third = add(Some(second.clone()));
        let other = add(None);
        assert_eq!(clients.revoke(&first, now), [first, second, third]);
        assert_eq!(clients.paired.len(), 1);
        assert!(clients.get(&other).is_some());
        let token = clients.revoked[2].token;
        assert_eq!(clients.by_token(&token), Known::Revoked);
        assert_eq!(clients.by_token(&new_token().1), Known::No);
    }

    #[test]
    fn a_bound_principal_sees_only_clients_within_its_workspaces() {
        let mut principal = Principal {
            client: ClientId::new("c"),
            owner: "me".into(),
            workspaces: Workspaces::Only([WorkspaceId::new("a"), WorkspaceId::new("b")].into()),
            scopes: Scopes::all(),
            credential: None,
        };
        let grant = |workspaces| Grant {
            workspaces,
            ..Grant::of_owner("me")
        };
        assert!(grant(bound(&["a"])).is_within(&principal));
        assert!(!grant(bound(&["a", "c"])).is_within(&principal));
        assert!(!grant(None).is_within(&principal));
        principal.workspaces = Workspaces::All;
        assert!(grant(None).is_within(&principal));
        principal.owner = "you".into();
        assert!(!grant(None).is_within(&principal));
    }
}
