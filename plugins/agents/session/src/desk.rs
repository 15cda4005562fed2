//! Which agent a session runs, and its carrying into tools, prompt, permissions and model.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bezel_agents_contract::{AgentDefinition, AgentSummary, AgentsState};
use bezel_api_session::{FacetError, Local, PromptDraft, Sessions, ToolDraft};
use bezel_context::Context;
use bezel_models_contract::{AgentModel, ModelWish};
use bezel_permissions_contract::AgentLimits;
use bezel_plugin::Contribution;
use bezel_rpc::StateCell;
use bezel_session_types::SessionId;
use bezel_sessions_contract::SessionSummary;

use crate::facet::AgentsAbove;
use crate::files::{self, Catalogue};
use crate::standing::{Bound, Standing};

/// The agent that a session runs where nobody has chosen one.
pub const DEFAULT: &str = "build";

/// The agent of one session.
pub(crate) struct Desk {
    here: AgentsAbove,
    /// What holds where the sessions above work, the root's first; what is not said is as it is here.
    places: Vec<AgentsAbove>,
    is_child: bool,
    cell: StateCell<AgentsState>,
    outlets: OnceLock<Outlets>,
    // A plain mutex: held to read or change what is known, never across an await.
    known: Mutex<Known>,
    // What was carried last. Held while it is carried, so that the last change is carried last.
    carried: Mutex<Option<Standing>>,
}

/// What is known.
struct Known {
    catalogue: Arc<Catalogue>,
    /// Those of the places above.
    elsewhere: Vec<Arc<Catalogue>>,
    /// What is on record for this session.
    chosen: Option<String>,
    /// The same of the sessions above, the root's first; none while nobody has said it.
    above: Option<Vec<Option<String>>>,
}

/// Where a change goes.
pub(crate) struct Outlets {
    pub(crate) tools: Contribution<ToolDraft>,
    pub(crate) prompt: Contribution<PromptDraft>,
    pub(crate) limits: Option<Local<AgentLimits>>,
    pub(crate) model: Option<Local<AgentModel>>,
}

impl Desk {
    /// Reads the definitions. Blocks for as long as that takes.
    pub(crate) fn new(
        here: AgentsAbove,
        places: Vec<AgentsAbove>,
        chosen: Option<String>,
        is_child: bool,
        cell: StateCell<AgentsState>,
    ) -> Self {
        let (catalogue, elsewhere) = read(&here, &places);
        let desk = Desk {
            here,
            places,
            is_child,
            cell,
            outlets: OnceLock::new(),
            known: Mutex::new(Known {
                catalogue,
                elsewhere,
                chosen,
                above: (!is_child).then(Vec::new),
            }),
            carried: Mutex::new(None),
        };
        desk.show();
        desk
    }

    /// Says where changes go. Said once.
    pub(crate) fn lead(&self, outlets: Outlets) {
        self.outlets.get_or_init(|| outlets);
    }

    /// Whether another session began this one.
    pub(crate) fn is_child(&self) -> bool {
        self.is_child
    }

    /// The agents as they were read last.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.known().catalogue)
    }

    /// For other facets.
    pub(crate) fn summaries(&self) -> Vec<AgentSummary> {
        self.catalogue().summaries()
    }

    /// For other facets.
    pub(crate) fn definition(&self, name: &str) -> Option<AgentDefinition> {
        self.catalogue().get(name).cloned()
    }

    /// What is on record for this session.
    pub(crate) fn chosen(&self) -> Option<String> {
        self.known().chosen.clone()
    }

    /// What binds this session now.
    pub(crate) fn standing(&self) -> Standing {
        let known = self.known();
        let bound = |name: &Option<String>, place: &AgentsAbove, catalogue: &Catalogue| {
            let name = name.as_deref().unwrap_or(place.default());
            match catalogue.find(name) {
                Some(definition) => Bound::Known(Arc::clone(definition)),
                None => Bound::Missing(name.to_owned()),
            }
        };
        let here = (&self.here, &*known.catalogue);
        let above = known.above.as_ref().map(|above| {
            let places = self.places.iter();
            let elsewhere = places.zip(known.elsewhere.iter().map(|read| &**read));
            let places = elsewhere.chain(std::iter::repeat(here));
            let bound = |(name, (place, catalogue))| bound(name, place, catalogue);
            above.iter().zip(places).map(bound).collect()
        });
        Standing {
            own: bound(&known.chosen, here.0, here.1),
            above,
        }
    }

    /// Model requests of a turn at most, as the session's own agent has them.
    pub(crate) fn steps(&self) -> Option<NonZeroU32> {
        match self.standing().own {
            Bound::Known(own) => own.steps,
            Bound::Missing(_) => None,
        }
    }

    /// Takes what was recorded for this session.
    pub(crate) fn choose(&self, chosen: Option<String>) {
        self.known().chosen = chosen;
        self.carry();
    }

    /// Reads the definitions again, asks which agents the sessions above run, and says why nothing may run.
    pub(crate) async fn look_again(
        &self,
        cx: &Context,
        sessions: &Sessions,
    ) -> Result<(), FacetError> {
        let (here, places) = (self.here.clone(), self.places.clone());
        let read = tokio::task::spawn_blocking(move || read(&here, &places));
        let above = async {
            match self.is_child {
                true => Some(sessions.tree(cx).await),
                false => None,
            }
        };
        // A request waits for both.
        let (read, above) = tokio::join!(read, above);
        let (catalogue, elsewhere) = read?;
        match above {
            Some(Ok(tree)) => self.known().above = chain(&tree, sessions.own()),
            // What they ran when they were asked last still binds.
            Some(Err(error)) => tracing::warn!(%error, "the sessions above were not asked"),
            None => {}
        }
        {
            let mut known = self.known();
            known.catalogue = catalogue;
            known.elsewhere = elsewhere;
        }
        self.carry();
        match self.standing().refusal() {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    /// Carries what binds the session now to where it counts.
    pub(crate) fn carry(&self) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        self.show();
        let standing = self.standing();
        if carried.as_ref() == Some(&standing) {
            return;
        }
        let Some(outlets) = self.outlets.get() else {
            return;
        };
        let limits = outlets.limits.as_ref().and_then(|local| local.get().ok());
        if let Some(limits) = limits {
            limits.set(standing.limits());
        }
        // A request keeps the prompt that it was built with for as long as the tools are the same.
        outlets.prompt.changed();
        outlets.tools.changed();
        let model = outlets.model.as_ref().and_then(|local| local.get().ok());
        if let (Some(model), Bound::Known(own)) = (model, &standing.own) {
            model.set(ModelWish {
                model: own.public.model.clone(),
                thinking: own.public.thinking,
            });
        }
        *carried = Some(standing);
    }

    /// Tells presentations.
    fn show(&self) {
        let shown = {
            let known = self.known();
            AgentsState {
                agents: known.catalogue.summaries(),
                current: known
                    .chosen
                    .as_deref()
                    .unwrap_or(self.here.default())
                    .to_owned(),
                problems: known.catalogue.problems().to_vec(),
            }
        };
        if *self.cell.get() != shown {
            self.cell.set(&Context::background(), shown);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentsAbove {
    /// The agent of sessions that have chosen none.
    fn default(&self) -> &str {
        self.configured.as_deref().unwrap_or(DEFAULT)
    }
}

/// The agents here and in the places above. Most of the time they are one place, which is read once.
fn read(here: &AgentsAbove, places: &[AgentsAbove]) -> (Arc<Catalogue>, Vec<Arc<Catalogue>>) {
    let own = Arc::new(files::read(&here.directories));
    let elsewhere = places
        .iter()
        .map(|place| match place.directories == here.directories {
            true => Arc::clone(&own),
            false => Arc::new(files::read(&place.directories)),
        });
    let elsewhere = elsewhere.collect();
    (own, elsewhere)
}

/// What the sessions above `own` run, the root's first; none where the tree does not lead to a root.
fn chain(tree: &[SessionSummary], own: &SessionId) -> Option<Vec<Option<String>>> {
    let find = |id: &SessionId| tree.iter().find(|session| session.session_id == *id);
    let mut above = Vec::new();
    let mut session = find(own)?;
    while let Some(parent) = &session.parent_id {
        session = find(parent)?;
        above.push(session.agent.clone());
        if above.len() > tree.len() {
            return None;
        }
    }
    above.reverse();
    Some(above)
}

#[cfg(test)]
mod tests {
    use bezel_context::WorkspaceId;
    use bezel_sessions_contract::SessionStatus;

    use super::*;

    fn session(id: &str, parent: Option<&str>, agent: Option<&str>) -> SessionSummary {
        SessionSummary {
            session_id: SessionId::new(id),
            title: String::new(),
            workspace_id: WorkspaceId::new("w"),
            workspace_name: "w".into(),
            status: SessionStatus::Idle,
            parent_id: parent.map(SessionId::new),
            agent: agent.map(str::to_owned),
            model: None,
            created_at: String::new(),
            updated_at: String::new(),
            archived_at: None,
        }
    }

    #[test]
    fn the_sessions_above_are_told_from_the_root_on_and_a_broken_chain_is_none() {
        let tree = [
            session("root", None, Some("plan")),
            session("middle", Some("root"), None),
            session("own", Some("middle"), Some("explore")),
            session("lost", Some("gone"), None),
            session("loop", Some("loop"), None),
        ];
        let above = |id: &str| chain(&tree, &SessionId::new(id));
        assert_eq!(above("own"), Some(vec![Some("plan".to_owned()), None]));
        assert_eq!(above("root"), Some(vec![]));
        for broken in ["lost", "loop", "nobody"] {
            assert_eq!(above(broken), None, "{broken}");
        }
    }
}
