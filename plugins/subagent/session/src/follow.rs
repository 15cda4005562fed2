//! What a child does, as its parent's call shows it.

use std::sync::Arc;

use bezel_api_session::{AgentEvent, AgentEventReceiver, EventBody};
use bezel_session_types::{Progress, ToolHost};
use bezel_subagent_contract::{SubagentDetails, SubagentStatus};

/// The call's details, shown again whenever they change.
pub(crate) struct Shown {
    pub(crate) details: SubagentDetails,
    host: Arc<dyn ToolHost>,
}

impl Shown {
    pub(crate) fn new(details: SubagentDetails, host: Arc<dyn ToolHost>) -> Self {
        Shown { details, host }
    }

    pub(crate) fn status(&mut self, status: SubagentStatus) {
        self.details.status = status;
        self.show();
    }

    pub(crate) fn show(&self) {
        let details = serde_json::to_value(&self.details).expect("the details have text keys");
        self.host.progress(Progress::Details(details));
    }

    /// Shows what happens, until the child's host ends.
    pub(crate) async fn follow(&mut self, mut events: AgentEventReceiver) {
        let mut batch = Vec::new();
        while events.receive(&mut batch).await {
            if self.note(&batch) {
                self.show();
            }
            batch.clear();
        }
        std::future::pending::<()>().await;
    }

    /// Whether there is something new to show.
    fn note(&mut self, events: &[Arc<AgentEvent>]) -> bool {
        let before = self.details.tool_calls;
        for event in events {
            if let EventBody::ToolStarted { tool, .. } = &event.body {
                self.details.tool_calls += 1;
                self.details.last_tool = Some(tool.clone());
            }
        }
        self.details.tool_calls != before
    }
}
