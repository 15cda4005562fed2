//! What a child does, as its parent's call shows it.

use std::collections::HashSet;
use std::sync::Arc;

use bezel_api_session::{AgentEvent, AgentEventReceiver, EventBody, Sessions, SessionsError};
use bezel_context::Context;
use bezel_session_types::{
    Entry, EntryId, HistoryRange, InvocationId, Message, Progress, SessionId, ToolHost,
};
use bezel_subagent_contract::{SubagentDetails, SubagentStatus};

/// Entries that are read at once of what a child did in an earlier process.
const PAGE: u32 = 200;

/// The call's details, shown again whenever they change.
pub(crate) struct Shown {
    pub(crate) details: SubagentDetails,
    host: Arc<dyn ToolHost>,
    /// The child's calls that are counted: one that is run again is the same one.
    counted: HashSet<InvocationId>,
}

impl Shown {
    pub(crate) fn new(details: SubagentDetails, host: Arc<dyn ToolHost>) -> Self {
        Shown {
            details,
            host,
            counted: HashSet::new(),
        }
    }

    pub(crate) fn status(&mut self, status: SubagentStatus) {
        self.details.status = status;
        self.show();
    }

    pub(crate) fn show(&self) {
        let details = serde_json::to_value(&self.details).expect("the details have text keys");
        self.host.progress(Progress::Details(details));
    }

    /// Counts the calls that the child has made since `prompt`, in whichever process.
    pub(crate) async fn count_since(
        &mut self,
        cx: &Context,
        sessions: &Sessions,
        child: &SessionId,
        prompt: EntryId,
    ) -> Result<(), SessionsError> {
        let mut after = Some(prompt);
        while after.is_some() {
            let range = HistoryRange {
                before: None,
                after: after.take(),
            };
            let page = sessions.history(cx, child, range, PAGE).await?;
            for result in page.entries.iter().filter_map(Entry::message) {
                if let Message::ToolResult(result) = result {
                    self.count(&result.invocation_id, &result.tool);
                }
            }
            if page.more {
                after = page.entries.last().map(|entry| entry.id.clone());
            }
        }
        Ok(())
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
            match &event.body {
                EventBody::ToolStarted {
                    invocation, tool, ..
                } => self.count(invocation, tool),
                // Interrupted by the end of a process, and not run again.
                EventBody::ToolEnded { invocation, result } => {
                    self.count(invocation, &result.tool);
                }
                _ => {}
            }
        }
        self.details.tool_calls != before
    }

    fn count(&mut self, invocation: &InvocationId, tool: &str) {
        if self.counted.insert(invocation.clone()) {
            self.details.tool_calls += 1;
            self.details.last_tool = Some(tool.to_owned());
        }
    }
}
