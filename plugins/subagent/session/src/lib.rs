//! The subagent tool: a part of the work is done in a session of its own, by the same agent or another.
//!
//! The child is a session like any other: it survives what its parent survives, is opened and read by whoever may,
//! and asks for leave where its parent would have to. The call notes the child's id before the child is there, and
//! everything that it does for the child bears the call's own id, so that a call that is run again after a crash
//! finds what it had begun and waits on.
//!
//! When a run is ended by somebody, the children that it waits for are ended too; those in the background go on,
//! and say when they are done with a message that enters the conversation at the next step.

mod arguments;
mod background;
mod follow;
mod tool;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_agents_contract::AgentCatalogue;
use bezel_api_session::{EventBody, Facet, FacetError, SessionContext, SessionFacet};
use bezel_context::Context;
use bezel_session_types::RunOutcome;
use bezel_sessions_contract::SessionChildrenClient;
use bezel_subagent_contract::TOOL;
use serde::Deserialize;

use crate::tool::{SubagentTool, Subagents};

/// Configuration of the plugin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubagentConfig {
    /// How deep children may begin children of their own: 1 lets only the session that a person began.
    pub max_depth: usize,
    /// How many children one session waits for at once; others wait their turn. Those in the background do not
    /// count.
    pub max_running: usize,
}

impl Default for SubagentConfig {
    fn default() -> Self {
        SubagentConfig {
            max_depth: 1,
            max_running: 8,
        }
    }
}

/// The session facet of subagents.
pub fn facet() -> SessionFacet {
    Facet::new("subagent", setup)
        .configured::<SubagentConfig>()
        .requires::<SessionChildrenClient>(bezel_api_session::Namespace::Server)
        .optional_local::<AgentCatalogue>()
}

async fn setup(cx: SessionContext) -> Result<(), FacetError> {
    let config: SubagentConfig = cx.config()?;
    let is_child = cx.agent.identity().parent_id.is_some();
    if config.max_depth == 0 || (is_child && config.max_depth == 1) {
        return Ok(());
    }
    let subagents = Arc::new(Subagents::new(&cx, config));
    let offered = Arc::new(Mutex::new(Arc::new(SubagentTool::new(Arc::clone(
        &subagents,
    )))));
    let shown = Arc::clone(&offered);
    let contribution = cx
        .tools
        .add(move |draft| draft.set(TOOL, Arc::clone(&lock(&shown)) as Arc<_>));

    let (ending, spawner) = (Arc::clone(&subagents), cx.spawner().clone());
    cx.agent.events().subscribe(move |events| {
        for event in events {
            // Calls that were not run again.
            match &event.body {
                EventBody::RunEnded(_) => ending.are_back(),
                EventBody::ToolEnded { invocation, .. } => ending.is_back(invocation),
                _ => {}
            }
            if let EventBody::RunEnded(ended) = &event.body
                && ended.outcome == RunOutcome::Aborted
            {
                let (subagents, operation) = (Arc::clone(&ending), ended.operation_id.clone());
                spawner.spawn("end subagents", async move {
                    subagents.end_all(&Context::background(), &operation).await;
                });
            }
        }
    });
    let facet = cx.clone();
    // Nothing was begun where nothing was said.
    let returning = cx.agent.tree().tip().map(|_| cx.session.taking_up());
    cx.on_activate(move || async move {
        // Which agents there are is known from now on.
        *lock(&offered) = Arc::new(SubagentTool::new(Arc::clone(&subagents)));
        contribution.changed();
        let spawner = facet.spawner().clone();
        spawner.spawn(
            "background subagents",
            background::take_up(facet, subagents, returning),
        );
        Ok(())
    });
    Ok(())
}

fn lock(tool: &Mutex<Arc<SubagentTool>>) -> MutexGuard<'_, Arc<SubagentTool>> {
    tool.lock().unwrap_or_else(PoisonError::into_inner)
}
