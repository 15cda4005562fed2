//! What a service exposes: the allowlist of members, their kinds, scopes and schemas.

use bezel_context::Scope;
use serde::{Deserialize, Serialize};

/// A contract's version. A consumer fits a provider of the same major and at least its own minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Raised by a change that old consumers cannot bear.
    pub major: u32,
    /// Raised by an addition.
    pub minor: u32,
}

impl Version {
    /// `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Version { major, minor }
    }

    /// Whether a consumer built against `self` can use a provider of version `provider`.
    pub fn fits(self, provider: Version) -> bool {
        self.major == provider.major && provider.minor >= self.minor
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// What a member of a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// A call with a result.
    Call,
    /// A replicated latest value.
    State,
    /// A stream of events that is never replayed.
    Events,
}

/// One member: its name, kind, the scope it needs, and its schemas.
#[derive(Debug, Clone, Copy)]
pub struct MemberDescriptor {
    /// The method's name in the contract.
    pub name: &'static str,
    /// Call, state or events.
    pub kind: MemberKind,
    /// The scope that the caller's principal must hold.
    pub scope: Scope,
    /// What the contract says of it, as Markdown; empty where it says nothing.
    pub documentation: &'static str,
    /// The schema of the arguments object; `None` where there are none to give.
    pub arguments: Option<fn() -> schemars::Schema>,
    /// The schema of the result, the state value or the event.
    pub result: fn() -> schemars::Schema,
    /// The schema of the contract's error, for members that declare one.
    pub error: Option<fn() -> schemars::Schema>,
    /// The contract of the object that the member returns a reference to.
    pub reference: Option<fn() -> &'static ServiceDescriptor>,
}

/// One service: id, version and the members that may be reached.
#[derive(Debug, Clone, Copy)]
pub struct ServiceDescriptor {
    /// The id under which the service is provided and used.
    pub id: &'static str,
    /// The contract's version.
    pub version: Version,
    /// What the contract says of itself, as Markdown; empty where it says nothing.
    pub documentation: &'static str,
    /// All members, in the contract's order.
    pub members: &'static [MemberDescriptor],
}

impl ServiceDescriptor {
    /// The member of that name.
    pub fn member(&self, name: &str) -> Option<&'static MemberDescriptor> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Whether the service has state or events to subscribe to.
    pub fn is_subscribable(&self) -> bool {
        self.members
            .iter()
            .any(|member| member.kind != MemberKind::Call)
    }

    /// What a peer is told at the handshake.
    pub fn summary(&self) -> ServiceSummary {
        ServiceSummary {
            id: self.id.to_owned(),
            version: self.version,
            members: self
                .members
                .iter()
                .map(|member| MemberSummary {
                    name: member.name.to_owned(),
                    kind: member.kind,
                    scope: member.scope,
                })
                .collect(),
        }
    }
}

/// A service as a peer announces it: everything but the schemas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSummary {
    /// The service's id.
    pub id: String,
    /// The provider's version of the contract.
    pub version: Version,
    /// The members that the provider has.
    #[serde(default)]
    pub members: Vec<MemberSummary>,
}

/// A member as a peer announces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSummary {
    /// The member's name.
    pub name: String,
    /// Call, state or events.
    pub kind: MemberKind,
    /// The scope it needs.
    pub scope: Scope,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_fits_the_same_major_and_a_minor_at_least_its_own() {
        let consumer = Version::new(1, 2);
        assert!(consumer.fits(Version::new(1, 2)) && consumer.fits(Version::new(1, 3)));
        assert!(!consumer.fits(Version::new(1, 1)) && !consumer.fits(Version::new(2, 2)));
    }
}
