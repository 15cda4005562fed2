//! What clients see and choose of the agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bezel_agents_contract::{AgentMode, Agents, AgentsState, SelectAgentError};
use bezel_rpc::{Context, State, StateCell};
use bezel_sessions_contract::{SessionRecordClient, WorkerRecord};

use crate::desk::Desk;

pub(crate) struct AgentsService {
    pub(crate) desk: Arc<Desk>,
    pub(crate) cell: StateCell<AgentsState>,
    pub(crate) record: SessionRecordClient,
    /// Counts the changes of the record that were followed.
    pub(crate) followed: Arc<AtomicU64>,
}

impl Agents for AgentsService {
    fn state(&self) -> State<AgentsState> {
        self.cell.state()
    }

    async fn select(&self, cx: &Context, name: String) -> Result<(), SelectAgentError> {
        let catalogue = self.desk.catalogue();
        let Some(agent) = catalogue.get(&name) else {
            let suggestion = catalogue.suggestion(&name);
            return Err(SelectAgentError::Unknown { name, suggestion });
        };
        if let Some(message) = refusal(&name, agent.mode, self.desk.is_child()) {
            return Err(SelectAgentError::Refused { message });
        }
        let followed = self.followed.load(Ordering::Acquire);
        let recorded = self.record.switch_agent(cx, Some(name.clone())).await;
        recorded.map_err(|error| SelectAgentError::NotRecorded {
            message: error.to_string(),
        })?;
        // Where the record told of a choice meanwhile, the last that it tells of is the one.
        if self.followed.load(Ordering::Acquire) == followed {
            self.desk.choose(Some(name));
        }
        Ok(())
    }
}

/// Why an agent is not for this kind of session.
fn refusal(name: &str, mode: AgentMode, is_child: bool) -> Option<String> {
    match is_child {
        true if !mode.is_subagent() => Some(format!(
            "`{name}` is for sessions of a person's own, and this one works for another session"
        )),
        false if !mode.is_primary() => Some(format!(
            "`{name}` is for parts of another agent's work; ask the agent to use it, or set `mode: all` in its file"
        )),
        _ => None,
    }
}

/// Follows what others record for this session, until the facet ends.
pub(crate) async fn follow(desk: Arc<Desk>, record: State<WorkerRecord>, followed: Arc<AtomicU64>) {
    let mut changes = record.watch();
    let mut seen = desk.chosen();
    loop {
        // Before the first answer of the server there is no record to follow.
        let latest = changes.changed_by_owner().await;
        if latest.agent != seen {
            seen.clone_from(&latest.agent);
            followed.fetch_add(1, Ordering::AcqRel);
            desk.choose(latest.agent.clone());
        }
    }
}
