//! What binds a session at the moment: its own agent, and those of all sessions above it.

use std::sync::Arc;

use bezel_permissions_contract::{Effect, Limits, PermissionMode, Rule};

use crate::definition::Definition;

/// What binds a session at the moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    /// Its own agent.
    pub(crate) own: Bound,
    /// Those of the sessions above it, the root's first; none while nobody has said which they are.
    pub(crate) above: Option<Vec<Bound>>,
}

/// An agent by its name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    /// It is there.
    Known(Arc<Definition>),
    /// There is none of this name, so nobody knows what it was kept from.
    Missing(String),
}

impl Bound {
    fn known(&self) -> Option<&Arc<Definition>> {
        match self {
            Bound::Known(definition) => Some(definition),
            Bound::Missing(_) => None,
        }
    }
}

impl Standing {
    fn all(&self) -> impl Iterator<Item = &Bound> {
        self.above.iter().flatten().chain([&self.own])
    }

    /// Every agent, the root's first; none where one of them is not known.
    fn agents(&self) -> Option<Vec<&Definition>> {
        self.above.as_ref()?;
        let known = |bound| Bound::known(bound).map(|definition| &**definition);
        self.all().map(known).collect()
    }

    /// Whether the session has the tool.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        let agents = self.agents();
        agents.is_some_and(|agents| agents.iter().all(|agent| agent.tools.allows(tool)))
    }

    /// What binds its permissions.
    pub(crate) fn limits(&self) -> Limits {
        let Some(agents) = self.agents() else {
            let nothing = Rule {
                action: "*".to_owned(),
                resource: "*".to_owned(),
                effect: Effect::Deny,
            };
            return Limits {
                mode: Some(PermissionMode::Plan),
                layers: vec![vec![nothing]],
            };
        };
        let mode = agents
            .iter()
            .filter_map(|agent| agent.public.permission_mode);
        let layers: Vec<Vec<Rule>> = agents.iter().map(|agent| agent.rules.clone()).collect();
        Limits {
            mode: mode.min(),
            // Layers without a rule say what the configured ones say.
            layers: match layers.iter().all(Vec::is_empty) {
                true => Vec::new(),
                false => layers,
            },
        }
    }

    /// Why nothing may run; none where everything is known.
    pub(crate) fn refusal(&self) -> Option<String> {
        let missing = self.all().find_map(|bound| match bound {
            Bound::Missing(name) => Some(name),
            Bound::Known(_) => None,
        });
        match (missing, &self.above) {
            (Some(name), _) if matches!(self.own, Bound::Missing(_)) => Some(format!(
                "there is no agent `{name}` here; choose another with /agent, or see `bezel agents` for what there is \
                 and what is wrong with a file"
            )),
            (Some(name), _) => Some(format!(
                "the agent `{name}` of a session above is not there, and what it may not do binds this one; see `bezel \
                 agents` for what is wrong with its file"
            )),
            (None, None) => Some(
                "the server did not say which agents the sessions above run, and what they may not do binds this one"
                    .to_owned(),
            ),
            (None, Some(_)) => None,
        }
    }
}
