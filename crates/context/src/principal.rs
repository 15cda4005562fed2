//! Who a connection speaks for, as the accepting side read it from the credential.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an id that came from its owner.
            pub fn new(id: impl Into<String>) -> Self {
                $name(id.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// One authenticated connection, unique within the server's life.
    ClientId
}
text_id! {
    /// A registered project root. Opaque.
    WorkspaceId
}
text_id! {
    /// One credential of an owner that can be taken back alone, such as a paired client's. Not the secret.
    CredentialId
}

/// A right that a service member can ask for. Ordered: each includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See state, events and results.
    Read,
    /// Prompt, answer, abort, change settings of a session.
    Operate,
    /// Manage credentials, pairing and the server itself.
    Admin,
}

/// A set of rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// Everything, as a local user's own credential grants.
    pub fn all() -> Self {
        Scopes(BTreeSet::from([Scope::Read, Scope::Operate, Scope::Admin]))
    }

    /// Exactly these rights.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Scopes(scopes.into_iter().collect())
    }

    /// Whether a member that needs `scope` may be called.
    pub fn allows(&self, scope: Scope) -> bool {
        self.0.iter().any(|held| *held >= scope)
    }

    /// The rights that both sets hold.
    pub fn narrowed_to(&self, other: &Scopes) -> Self {
        Scopes(self.0.intersection(&other.0).copied().collect())
    }
}

/// Which workspaces a principal may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workspaces {
    /// All workspaces of the owner: a local user's own credential.
    All,
    /// Only these.
    Only(BTreeSet<WorkspaceId>),
}

impl Workspaces {
    /// Whether `workspace` is within reach.
    pub fn reaches(&self, workspace: &WorkspaceId) -> bool {
        match self {
            Workspaces::All => true,
            Workspaces::Only(set) => set.contains(workspace),
        }
    }
}

/// Client, owner, workspaces and scopes, all from the credential. An id in an argument changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The connection that authenticated.
    pub client: ClientId,
    /// Whose sessions these are. Never leaves the server but for the worker's own use.
    pub owner: String,
    /// What it may reach.
    pub workspaces: Workspaces,
    /// What it may do.
    pub scopes: Scopes,
    /// Which credential it showed; none for the owner's own, which can only be taken back as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_scope_includes_the_narrower_and_narrowing_never_widens() {
        let operate = Scopes::of([Scope::Operate]);
        assert!(operate.allows(Scope::Read) && operate.allows(Scope::Operate));
        assert!(!operate.allows(Scope::Admin));
        assert_eq!(Scopes::all().narrowed_to(&operate), operate);
        assert!(!operate.narrowed_to(&Scopes::default()).allows(Scope::Read));
    }
}
