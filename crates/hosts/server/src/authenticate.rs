//! Who a connection speaks for: workers by their own credential, everybody else by policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use bezel_api_server::{Attempt, AuthenticationDraft, Granted, Presented, Verdict};
use bezel_context::{ClientId, Principal, Scope, Scopes, Workspaces};
use bezel_plugin::Registry;
use bezel_rpc::{
    AcceptedRole, Authenticate, Authenticated, Credential, ErrorCode, Hello, PeerIdentity, Refusal,
    Role,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::LocalToken;
use crate::records::Records;
use crate::workers::Workers;

/// Measures credentials against what only the host knows, and asks the contributed methods.
pub(crate) struct HostAuthenticate {
    pub(crate) owner: Arc<str>,
    /// The user that this process runs as.
    pub(crate) user: u32,
    pub(crate) token: Option<LocalToken>,
    pub(crate) product_version: Arc<str>,
    pub(crate) methods: Registry<AuthenticationDraft>,
    pub(crate) records: Records,
    pub(crate) workers: Workers,
}

impl Authenticate for HostAuthenticate {
    fn authenticate<'a>(
        &'a self,
        hello: &'a Hello,
        peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        async move {
            match hello.role {
                // Workers are processes of this machine.
                Role::Worker if peer.address.is_some() => Err(Refusal::new(
                    ErrorCode::NotAuthorized,
                    "workers do not come over the network",
                )),
                Role::Worker => self.worker(hello),
                Role::Presentation => self.presentation(hello, peer).await,
                Role::Other(_) => Err(Refusal::new(
                    ErrorCode::Protocol,
                    "this server takes presentations and workers; update it if it should know other roles",
                )),
            }
        }
        .boxed()
    }
}

impl HostAuthenticate {
    fn worker(&self, hello: &Hello) -> Result<Authenticated, Refusal> {
        let shown = hello.credential.reveal();
        let session = shown.and_then(|shown| self.workers.recognise(shown));
        let Some(session) = session.and_then(|session_id| self.records.get(&session_id)) else {
            return Err(Refusal::new(
                ErrorCode::NotAuthorized,
                "this server does not know the worker's credential; the worker should end",
            ));
        };
        let principal = Principal {
            // The acceptor gives the id out.
            client: ClientId::new(""),
            owner: session.owner,
            workspaces: Workspaces::Only(BTreeSet::from([session.workspace_id])),
            scopes: Scopes::of([Scope::Operate]),
            credential: None,
        };
        let target = session.session_id.as_str().to_owned();
        Ok(Authenticated {
            principal,
            role: AcceptedRole::Worker { target },
            issued: None,
        })
    }

    async fn presentation(
        &self,
        hello: &Hello,
        peer: &PeerIdentity,
    ) -> Result<Authenticated, Refusal> {
        if !same_generation(&self.product_version, &hello.product_version) {
            return Err(Refusal::new(
                ErrorCode::IncompatibleVersion,
                format!(
                    "the server is version {}, this client {}; end the server with `bezel server stop` and \
                     start it again with the newer build",
                    self.product_version,
                    shortened(&hello.product_version)
                ),
            ));
        }
        let presented = match hello.credential.reveal() {
            None => Presented::Nothing,
            Some(shown) if self.token.as_ref().is_some_and(|token| token.is(shown)) => {
                Presented::LocalToken
            }
            Some(shown) => Presented::Bearer(shown.into()),
        };
        let same_process = *peer == PeerIdentity::local();
        let attempt = Attempt::new(
            &self.owner,
            same_process,
            peer.uid == Some(self.user),
            presented,
        );
        let attempt = match peer.address {
            Some(address) => attempt.from_network(address),
            None => attempt,
        };
        match self.methods.current().decide(&attempt).await {
            Verdict::Granted(Granted {
                owner,
                workspaces,
                scopes,
                credential,
                issued,
            }) => {
                let principal = Principal {
                    client: ClientId::new(""),
                    owner,
                    workspaces,
                    scopes,
                    credential,
                };
                Ok(Authenticated {
                    principal,
                    role: AcceptedRole::Presentation,
                    issued: issued.map(|issued| Credential::token(issued.reveal())),
                })
            }
            Verdict::Refused(reason) => Err(Refusal::new(ErrorCode::NotAuthorized, reason)),
            Verdict::Unrecognised => Err(Refusal::new(
                ErrorCode::NotAuthorized,
                match peer.address {
                    Some(_) => {
                        "this server does not know what was shown: a code has ten letters and digits and works once, within \
                         five minutes; `bezel access pair`, run where the server runs, prints one"
                    }
                    None => {
                        "this server does not know the credential; a local client shows the token file \
                             that the running server wrote, and runs as the same user"
                    }
                },
            )),
        }
    }
}

/// Whether two builds of the product can talk: the same major, below 1.0 the same minor too.
fn same_generation(own: &str, other: &str) -> bool {
    let generation = |version: &str| {
        let mut parts = version
            .split(['.', '-', '+'])
            .map(|part| part.parse::<u64>().ok());
        let major = parts.next().flatten()?;
        Some((
            major,
            if major == 0 {
                parts.next().flatten()?
            } else {
                0
            },
        ))
    };
    generation(own).is_some() && generation(own) == generation(other)
}

/// A version as far as it is worth repeating to whoever sent it.
fn shortened(version: &str) -> String {
    version
        .chars()
        .filter(|character| !character.is_control())
        .take(40)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_one_major_talk_and_below_one_those_of_one_minor() {
        for (other, talks) in [
            ("1.2.3", true),
            ("1.9.0-beta", true),
            ("2.0.0", false),
            ("0.1.0", false),
            ("", false),
            ("one", false),
        ] {
            assert_eq!(same_generation("1.2.3", other), talks, "{other}");
        }
        assert!(same_generation("0.1.0", "0.1.7"));
        assert!(!same_generation("0.1.0", "0.2.0"));
    }
}
