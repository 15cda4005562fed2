//! Who may connect: methods in order, the first that recognises the credential decides.

use std::fmt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bezel_context::{CredentialId, Scopes, Workspaces};
use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem};
use futures::FutureExt;
use futures::future::BoxFuture;

/// A connection that wants in. The secrets that it is measured against stay with the host.
#[derive(Clone)]
pub struct Attempt {
    owner: Arc<str>,
    same_process: bool,
    same_user: bool,
    address: Option<IpAddr>,
    presented: Presented,
}

/// What a connection showed as its credential.
#[derive(Clone, PartialEq, Eq)]
pub enum Presented {
    /// Nothing.
    Nothing,
    /// This server's own token file.
    LocalToken,
    /// Text that is not this server's token: a method may know it.
    Bearer(Arc<str>),
}

/// What a method says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not a credential of this kind; the next method is asked.
    Unrecognised,
    /// It may connect.
    Granted(Granted),
    /// It may not, whatever the methods after this one say; the text says what to do.
    Refused(String),
}

/// What a granted connection may reach and do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Whose sessions.
    pub owner: String,
    /// Which workspaces.
    pub workspaces: Workspaces,
    /// What it may do there.
    pub scopes: Scopes,
    /// Which of the owner's credentials it showed, where it is one that can be taken back alone.
    pub credential: Option<CredentialId>,
    /// What it shows from now on, where the one that it showed is used up with this connection.
    pub issued: Option<IssuedCredential>,
}

/// A secret for the client alone: it goes into the answer to its hello. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedCredential(Arc<str>);

impl IssuedCredential {
    /// Wraps the text.
    pub fn new(secret: impl Into<Arc<str>>) -> Self {
        IssuedCredential(secret.into())
    }

    /// The text, for the client's welcome alone.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IssuedCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IssuedCredential(hidden)")
    }
}

/// Recognises one kind of credential.
pub trait AuthenticationMethod: Send + Sync + 'static {
    /// Looks at an attempt.
    fn authenticate(&self, attempt: Attempt) -> BoxFuture<'static, Verdict>;
}

impl<F: Fn(Attempt) -> Verdict + Send + Sync + 'static> AuthenticationMethod for F {
    fn authenticate(&self, attempt: Attempt) -> BoxFuture<'static, Verdict> {
        let verdict = self(attempt);
        async move { verdict }.boxed()
    }
}

/// Authentication methods under construction.
pub struct AuthenticationDraft(Names<Arc<dyn AuthenticationMethod>>);

/// The methods in order.
pub struct AuthenticationPolicy(Vec<(PluginId, Arc<dyn AuthenticationMethod>)>);

impl Attempt {
    /// Describes a connection; only hosts and tests do.
    pub fn new(owner: &str, same_process: bool, same_user: bool, presented: Presented) -> Self {
        Attempt {
            owner: owner.into(),
            same_process,
            same_user,
            address: None,
            presented,
        }
    }

    /// The same attempt, over the network from this address.
    pub fn from_network(self, address: IpAddr) -> Self {
        Attempt {
            address: Some(address),
            ..self
        }
    }

    /// The owner whose server this is.
    pub fn local_owner(&self) -> &str {
        &self.owner
    }

    /// Whether the other side is a host of this very process.
    pub fn is_same_process(&self) -> bool {
        self.same_process
    }

    /// Whether the operating system says that the other side runs as this server's user.
    pub fn is_same_user(&self) -> bool {
        self.same_user
    }

    /// Where it came from, where that is the network.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether it showed this server's own token.
    pub fn shows_local_token(&self) -> bool {
        self.presented == Presented::LocalToken
    }

    /// Another credential that it showed.
    pub fn bearer(&self) -> Option<&str> {
        match &self.presented {
            Presented::Bearer(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attempt")
            .field("same_process", &self.same_process)
            .field("same_user", &self.same_user)
            .field("presented", &self.presented)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Presented::Nothing => "Nothing",
            Presented::LocalToken => "LocalToken",
            Presented::Bearer(_) => "Bearer(hidden)",
        })
    }
}

impl AuthenticationDraft {
    /// Adds a method under a name.
    pub fn set(&mut self, name: &str, method: Arc<dyn AuthenticationMethod>) {
        self.0.set(name, method);
    }

    /// Puts a method in the place of another plugin's on purpose.
    pub fn replace(&mut self, name: &str, method: Arc<dyn AuthenticationMethod>) {
        self.0.replace(name, method);
    }
}

impl Draft for AuthenticationDraft {
    type Output = AuthenticationPolicy;

    fn new() -> Self {
        AuthenticationDraft(Names::new("authentication method"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<AuthenticationPolicy, DraftError> {
        let methods = self.0.finish(problems);
        Ok(AuthenticationPolicy(
            methods
                .map(|(_, named)| (named.plugin, named.value))
                .collect(),
        ))
    }
}

impl AuthenticationPolicy {
    /// Nobody may connect.
    pub fn closed() -> Self {
        AuthenticationPolicy(Vec::new())
    }

    /// Asks the methods in order. A method that panics refuses: the one after it may be laxer.
    pub async fn decide(&self, attempt: &Attempt) -> Verdict {
        for (plugin, method) in &self.0 {
            let asked = AssertUnwindSafe(async { method.authenticate(attempt.clone()).await });
            match asked.catch_unwind().await {
                Ok(Verdict::Unrecognised) => {}
                Ok(verdict) => return verdict,
                Err(_) => {
                    return Verdict::Refused(format!(
                        "the authentication of plugin `{plugin}` failed; its server's log says more"
                    ));
                }
            }
        }
        Verdict::Unrecognised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(methods: Vec<(&str, Arc<dyn AuthenticationMethod>)>) -> AuthenticationPolicy {
        let mut draft = AuthenticationDraft::new();
        for (index, (name, method)) in methods.into_iter().enumerate() {
            draft.begin(&PluginId::new(name), index as u64);
            draft.set(name, method);
        }
        draft.finish(&mut Vec::new()).unwrap()
    }

    fn grant(owner: &str) -> Verdict {
        let (owner, scopes) = (owner.to_owned(), Scopes::all());
        Verdict::Granted(Granted {
            owner,
            workspaces: Workspaces::All,
            scopes,
            credential: None,
            issued: None,
        })
    }

    fn bearer(text: &str) -> Attempt {
        Attempt::new("me", false, true, Presented::Bearer(text.into()))
    }

    #[tokio::test]
    async fn the_first_method_that_recognises_the_credential_decides() {
        let policy = policy(vec![
            (
                "token",
                Arc::new(|attempt: Attempt| match attempt.shows_local_token() {
                    true => grant("token"),
                    false => Verdict::Unrecognised,
                }),
            ),
            (
                "paired",
                Arc::new(|attempt: Attempt| match attempt.bearer() {
                    Some("known") => grant("paired"),
                    Some("revoked") => Verdict::Refused("pair again".into()),
                    _ => Verdict::Unrecognised,
                }),
            ),
            ("lax", Arc::new(|_: Attempt| grant("lax"))),
        ]);
        assert_eq!(policy.decide(&bearer("known")).await, grant("paired"));
        assert_eq!(
            policy.decide(&bearer("revoked")).await,
            Verdict::Refused("pair again".into())
        );
        assert_eq!(policy.decide(&bearer("other")).await, grant("lax"));
        let local = Attempt::new("me", false, true, Presented::LocalToken);
        assert_eq!(policy.decide(&local).await, grant("token"));
        assert_eq!(
            AuthenticationPolicy::closed().decide(&local).await,
            Verdict::Unrecognised
        );
    }

    #[tokio::test]
    async fn a_method_that_panics_refuses_and_lets_no_later_one_in() {
        let broken = |_: Attempt| -> Verdict { panic!("broken") };
        let policy = policy(vec![
            ("broken", Arc::new(broken)),
            ("lax", Arc::new(|_: Attempt| grant("lax"))),
        ]);
        let verdict = policy.decide(&bearer("any")).await;
        assert!(
            matches!(&verdict, Verdict::Refused(text) if text.contains("`broken`")),
            "{verdict:?}"
        );
    }

    #[test]
    fn the_debug_form_of_an_attempt_hides_the_credential() {
        assert!(!format!("{:?}", bearer("s3cret")).contains("s3cret"));
    }
}
