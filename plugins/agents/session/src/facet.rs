//! The session facet.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bezel_agents_contract::{AgentCatalogue, AgentsClient, AgentsState};
use bezel_api_session::{Facet, FacetError, Namespace, SessionContext, SessionFacet};
use bezel_models_contract::AgentModel;
use bezel_permissions_contract::AgentLimits;
use bezel_sessions_contract::SessionRecordClient;
use serde::Deserialize;

use crate::desk::{Desk, Outlets};
use crate::files::AgentDirectory;
use crate::service::{self, AgentsService};
use crate::standing::Bound;
use crate::steps;

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentsConfig {
    /// The agent on record for this session.
    pub agent: Option<String>,
    /// The agent of sessions that have none on record; [`crate::DEFAULT`] when left out.
    pub configured: Option<String>,
    /// Where definitions are, a later one before an earlier.
    pub directories: Vec<AgentDirectory>,
    /// What holds where the sessions above this one work, the root's first. Where nothing is said of one, it is what
    /// holds here.
    pub above: Vec<AgentsAbove>,
}

/// Which agents there are where a session above this one works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentsAbove {
    /// Where definitions are, a later one before an earlier.
    pub directories: Vec<AgentDirectory>,
    /// The agent of sessions that have none on record; [`crate::DEFAULT`] when left out.
    pub configured: Option<String>,
}

/// The session facet of agents.
pub fn facet() -> SessionFacet {
    Facet::new("agents", setup)
        .configured::<AgentsConfig>()
        .provides::<AgentsClient>()
        .provides_local::<AgentCatalogue>()
        .requires::<SessionRecordClient>(Namespace::Server)
        .optional_local::<AgentLimits>()
        .optional_local::<AgentModel>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: AgentsConfig = cx.config()?;
    let cell = cx.state_cell(AgentsState::default());
    let is_child = cx.agent.identity().parent_id.is_some();
    let here = AgentsAbove {
        directories: config.directories,
        configured: config.configured,
    };
    let desk = Arc::new(Desk::new(
        here,
        config.above,
        config.agent,
        is_child,
        cell.clone(),
    ));
    for problem in desk.catalogue().problems() {
        tracing::warn!(target: "bezel", %problem, "a definition of an agent");
    }

    let tools = Arc::clone(&desk);
    let prompt = Arc::clone(&desk);
    desk.lead(Outlets {
        tools: cx.tools.add(move |draft| {
            let standing = tools.standing();
            draft.restrict(move |tool| standing.allows(tool));
        }),
        prompt: cx.prompt.add(move |draft| {
            if let Bound::Known(agent) = prompt.standing().own {
                draft.set("agent", agent.public.prompt.clone());
            }
        }),
        limits: cx.use_local_optional(),
        model: cx.use_local_optional(),
    });

    let record = cx.server.use_service::<SessionRecordClient>();
    let followed = Arc::new(AtomicU64::new(0));
    cx.provide(AgentsClient::new(AgentsService {
        desk: Arc::clone(&desk),
        cell,
        record: record.clone(),
        followed: Arc::clone(&followed),
    }));
    let (list, get) = (Arc::clone(&desk), Arc::clone(&desk));
    cx.provide_local(Arc::new(AgentCatalogue::new(
        move || list.summaries(),
        move |name| get.definition(name),
    )));

    let (looking, sessions) = (Arc::clone(&desk), cx.session.clone());
    cx.agent.hooks().before_pass(move |cx, _pass| {
        let (desk, sessions) = (Arc::clone(&looking), sessions.clone());
        async move { desk.look_again(&cx, &sessions).await }
    });
    let limiting = Arc::clone(&desk);
    cx.agent.hooks().before_request(move |_cx, draft| {
        let steps = limiting.steps();
        async move { Ok(steps::limit(draft, steps)) }
    });
    let spawner = cx.spawner().clone();
    cx.on_activate(move || async move {
        desk.carry();
        spawner.spawn(
            "recorded agent",
            service::follow(desk, record.state(), followed),
        );
        Ok(())
    });
    Ok(())
}
