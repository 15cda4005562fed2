//! Who may reach what: every rule is asked, one that denies outweighs all that allow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bezel_context::{Principal, WorkspaceId};
use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem};
use bezel_session_types::SessionId;

/// A principal that wants to reach a session, or a workspace to create one in.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// Who wants to.
    pub principal: &'a Principal,
    /// Whose it is.
    pub owner: &'a str,
    /// In which workspace.
    pub workspace: &'a WorkspaceId,
    /// The session; none where the workspace itself is meant.
    pub session: Option<&'a SessionId>,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// From this rule's side it may.
    Allowed,
    /// It may not, whatever the other rules say.
    Denied,
    /// The rule has nothing to say of such a request.
    NoOpinion,
}

/// Judges requests. It must not wait.
pub type AuthorizationRule = Arc<dyn Fn(&AccessRequest<'_>) -> Access + Send + Sync>;

/// Authorisation rules under construction.
pub struct AuthorizationDraft(Names<AuthorizationRule>);

/// The rules.
pub struct AuthorizationPolicy(Vec<(PluginId, AuthorizationRule)>);

impl AuthorizationDraft {
    /// Adds a rule under a name.
    pub fn set(&mut self, name: &str, rule: AuthorizationRule) {
        self.0.set(name, rule);
    }

    /// Puts a rule in the place of another plugin's on purpose.
    pub fn replace(&mut self, name: &str, rule: AuthorizationRule) {
        self.0.replace(name, rule);
    }
}

impl Draft for AuthorizationDraft {
    type Output = AuthorizationPolicy;

    fn new() -> Self {
        AuthorizationDraft(Names::new("authorisation rule"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<AuthorizationPolicy, DraftError> {
        let rules = self.0.finish(problems);
        Ok(AuthorizationPolicy(
            rules
                .map(|(_, named)| (named.plugin, named.value))
                .collect(),
        ))
    }
}

impl AuthorizationPolicy {
    /// Nobody may reach anything.
    pub fn closed() -> Self {
        AuthorizationPolicy(Vec::new())
    }

    /// True where a rule allows and none denies. A rule that panics denies.
    pub fn allows(&self, request: &AccessRequest<'_>) -> bool {
        let mut allowed = false;
        for (plugin, rule) in &self.0 {
            match catch_unwind(AssertUnwindSafe(|| rule(request))) {
                Ok(Access::Allowed) => allowed = true,
                Ok(Access::NoOpinion) => {}
                Ok(Access::Denied) => return false,
                Err(_) => {
                    tracing::error!(%plugin, "an authorisation rule panicked; access was denied");
                    return false;
                }
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use bezel_context::{ClientId, Scopes, Workspaces};

    use super::*;

    fn allows(rules: Vec<AuthorizationRule>) -> bool {
        let mut draft = AuthorizationDraft::new();
        for (index, rule) in rules.into_iter().enumerate() {
            let name = format!("rule-{index}");
            draft.begin(&PluginId::new(name.as_str()), index as u64);
            draft.set(&name, rule);
        }
        let principal = Principal {
            client: ClientId::new("c"),
            owner: "me".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        let workspace = WorkspaceId::new("w");
        let request = AccessRequest {
            principal: &principal,
            owner: "me",
            workspace: &workspace,
            session: None,
        };
        draft.finish(&mut Vec::new()).unwrap().allows(&request)
    }

    fn says(access: Access) -> AuthorizationRule {
        Arc::new(move |_| access)
    }

    #[test]
    fn access_needs_one_rule_that_allows_and_none_that_denies_in_whatever_order() {
        use Access::{Allowed, Denied, NoOpinion};
        assert!(!allows(vec![]));
        assert!(!allows(vec![says(NoOpinion)]));
        assert!(allows(vec![says(NoOpinion), says(Allowed)]));
        assert!(!allows(vec![says(Allowed), says(Denied)]));
        assert!(!allows(vec![says(Denied), says(Allowed)]));
        assert!(!allows(vec![says(Allowed), Arc::new(|_| panic!("broken"))]));
    }
}
