//! The session facet.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_api_session::{
    DurableRequestDefinition, Facet, FacetError, Gathered, Gathering, Namespace, SessionContext,
    SessionFacet,
};
use bezel_permissions_contract::{
    AgentLimits, Ask, PendingAsk, PermissionMode, PermissionsClient, PermissionsState, ReadGuard,
    Reply, Rule,
};
use bezel_sessions_contract::SessionRecordClient;
use serde::Deserialize;

use crate::approvals::Approvals;
use crate::approver::Approver;
use crate::judge::Judge;
use crate::place::Place;
use crate::service::PermissionsService;

/// What is asked, and what is replied.
const ASKS: DurableRequestDefinition<Ask, Reply> = DurableRequestDefinition::new("asks");

/// What the model reads of plan mode.
const PLAN: &str = "You are in plan mode: look, but change nothing. Tools and commands that could change something \
    are blocked. End with a plan that the person can accept.";

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionsConfig {
    /// What the agent may do unasked, to begin with.
    pub mode: PermissionMode,
    /// Ordered rules.
    pub rules: Vec<Rule>,
    /// What holds where the sessions above this one work, the root's first.
    pub above: Vec<RulesAbove>,
    /// The file of what was approved always; without one it is not kept.
    pub approvals: Option<PathBuf>,
}

/// The rules of a place where a session above this one works.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesAbove {
    /// Absolute; paths of the rules are meant from here.
    pub directory: PathBuf,
    /// Ordered rules.
    pub rules: Vec<Rule>,
}

/// The session facet of permissions.
pub fn facet() -> SessionFacet {
    Facet::new("permissions", setup)
        .configured::<PermissionsConfig>()
        .provides::<PermissionsClient>()
        .provides_local::<ReadGuard>()
        .provides_local::<AgentLimits>()
        .requires::<SessionRecordClient>(Namespace::Server)
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: PermissionsConfig = cx.config()?;
    if config.mode != PermissionMode::Full {
        // A mode that nobody enforces is none.
        cx.agent.hooks().require()?;
    }
    let identity = cx.agent.identity();
    let home = cx.agent.environment().get("HOME").map(PathBuf::from);
    let readable = [identity.output_directory.clone()];
    let place = Place::new(&identity.directory, home, &readable);
    let project = place.project.display().to_string();
    // Where it is the same place, it is the same rules.
    let mut above = config.above;
    above.retain(|above| above.directory != identity.directory);
    above.dedup_by(|one, other| one.directory == other.directory);
    let cell = cx.state_cell(PermissionsState {
        mode: config.mode,
        ..PermissionsState::default()
    });
    let limits = AgentLimits::default();
    cx.provide_local(Arc::new(limits.clone()));
    let approver = Arc::new(Approver::new(
        Judge::new(place, config.rules).bound_by(above),
        limits.clone(),
        cell.clone(),
        cx.durable_requests(&ASKS)?,
        // Beside the session's saved output, so that it goes with the session.
        Approvals::new(
            identity.output_directory.join("approvals.json"),
            identity.session_id.as_str(),
        ),
        config.approvals.map(|file| Approvals::new(file, &project)),
    ));
    approver.begin();

    let mode = cell.clone();
    let prompt = Arc::new(cx.prompt.add(move |draft| {
        if mode.get().effective() == PermissionMode::Plan {
            draft.set("plan mode", PLAN);
        }
    }));
    let (limited, limited_prompt) = (cell.clone(), Arc::clone(&prompt));
    cx.own(limits.state().subscribe(move |limits, cx| {
        limited.update(cx, |state| state.limit = limits.mode);
        limited_prompt.changed();
    }));
    let (spawner, waiting) = (cx.spawner().clone(), Arc::clone(&approver));
    cx.on_activate(move || async move {
        spawner.spawn("agent limits", async move {
            let mut changes = limits.state().watch();
            loop {
                changes.changed().await;
                waiting.reconsider().await;
            }
        });
        Ok(())
    });
    let of_all = Gathered::follow(
        &cx.session,
        cx.spawner(),
        approver.requests().pending(),
        Gathering {
            of: |child: &PermissionsClient| child.asks(),
            mark: |ask: &mut PendingAsk, child| {
                ask.asker.get_or_insert_with(|| child.clone());
            },
        },
    );
    cx.provide(PermissionsClient::new(PermissionsService {
        of_all,
        approver: Arc::clone(&approver),
        cell,
        record: cx.server.use_service::<SessionRecordClient>(),
        prompt,
    }));
    let guard = Arc::clone(&approver);
    cx.provide_local(Arc::new(ReadGuard::new(move |directory| {
        guard.may_search(directory)
    })));
    cx.agent.hooks().approve_tool(move |cx, call| {
        let approver = Arc::clone(&approver);
        async move { Ok(approver.approve(&cx, call).await) }
    });
    Ok(())
}
