//! What happens in a session, as facets hear of it.

use std::sync::Arc;

use bezel_plugin::FacetScope;
use bezel_session_types::{
    AssistantMessage, Cost, EntryId, InvocationId, ModelRef, OperationId, Progress,
    ToolResultMessage, Usage, UserMessage,
};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent::Outcome;
use crate::backend::AgentBackend;

/// One thing that happened. Passive and never replayed; durable facts come after their commit.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum EventBody {
    /// An operation began.
    RunStarted(OperationId),
    /// An operation ended.
    RunEnded(Outcome),
    /// A person's or plugin's message entered the tree.
    UserMessage {
        /// Its entry.
        entry: EntryId,
        /// The message.
        message: Arc<UserMessage>,
    },
    /// An answer began; it will become `entry`.
    AnswerStarted {
        /// Its reserved entry.
        entry: EntryId,
        /// Who answers.
        model: ModelRef,
    },
    /// More answer text, in part `part` of the answer.
    Text {
        /// The answer's entry.
        entry: EntryId,
        /// The text.
        text: Arc<str>,
    },
    /// More reasoning.
    Thinking {
        /// The answer's entry.
        entry: EntryId,
        /// The text.
        text: Arc<str>,
    },
    /// The model began a tool call.
    ToolCallStarted {
        /// The answer's entry.
        entry: EntryId,
        /// Place among the answer's calls, from 0.
        index: usize,
        /// The tool.
        tool: String,
    },
    /// More of a call's arguments as raw JSON text.
    ToolCallText {
        /// The answer's entry.
        entry: EntryId,
        /// Place among the answer's calls.
        index: usize,
        /// The text.
        text: Arc<str>,
    },
    /// The answer is complete and in the tree.
    AnswerEnded {
        /// Its entry.
        entry: EntryId,
        /// The answer.
        message: Arc<AssistantMessage>,
        /// Bezel's ids of its tool calls, in their order.
        invocations: Vec<InvocationId>,
    },
    /// The answer was given up before anything of it was kept (a retry follows).
    AnswerDiscarded {
        /// Its reserved entry.
        entry: EntryId,
    },
    /// A tool call runs.
    ToolStarted {
        /// The call.
        invocation: InvocationId,
        /// The tool.
        tool: String,
        /// The arguments that it runs with.
        arguments: Arc<Value>,
    },
    /// A running call showed something.
    ToolProgress {
        /// The call.
        invocation: InvocationId,
        /// What.
        progress: Progress,
    },
    /// A call is settled.
    ToolEnded {
        /// The call.
        invocation: InvocationId,
        /// What it came to.
        result: Arc<ToolResultMessage>,
    },
    /// A summary entered the tree.
    Compacted {
        /// Its entry.
        entry: EntryId,
        /// Markdown.
        summary: String,
    },
    /// The main lane moved to another place in the tree.
    Navigated {
        /// The tip now; none before the first entry.
        tip: Option<EntryId>,
    },
    /// An entry has another label, or none any more.
    LabelSet {
        /// Which entry.
        entry: EntryId,
        /// The label now.
        label: Option<String>,
    },
    /// Something that a person should know of entered the tree: a run that goes on after a crash, one that
    /// could not go on.
    Noted {
        /// Its entry.
        entry: EntryId,
        /// Whether it tells of a failure.
        failed: bool,
        /// What happened and what to do.
        message: String,
    },
    /// A model request used tokens.
    UsageRecorded {
        /// Of which model.
        model: ModelRef,
        /// How many.
        usage: Usage,
        /// Their price, where known.
        cost: Option<Cost>,
    },
    /// A hook failed, panicked or overran its deadline.
    HandlerFailed {
        /// Whose.
        plugin: String,
        /// Which.
        hook: String,
        /// What happened.
        message: String,
    },
    /// Something that a plugin contributes is not in place: it is broken, or another plugin has the name.
    ContributionRefused {
        /// Whose.
        plugin: String,
        /// What is wrong, with everybody's name in it.
        message: String,
    },
    /// An entry was committed under this sequence number.
    Committed {
        /// The newest.
        seq: u64,
    },
    /// Something was committed, an entry or another fact of the session's life. Told once for several commits where
    /// they come fast.
    Journalled {
        /// The newest sequence number.
        seq: u64,
    },
}

/// Events as they come; read on a task of the facet.
#[derive(Debug)]
pub struct AgentEventReceiver(mpsc::UnboundedReceiver<Arc<AgentEvent>>);

impl AgentEventReceiver {
    pub(crate) fn new(events: mpsc::UnboundedReceiver<Arc<AgentEvent>>) -> Self {
        AgentEventReceiver(events)
    }

    /// Waits for events and puts what has come in into `batch`. False once the session has ended.
    pub async fn receive(&mut self, batch: &mut Vec<Arc<AgentEvent>>) -> bool {
        self.0.recv_many(batch, 1024).await > 0
    }
}

/// Subscriptions that end with the facet.
#[derive(Clone)]
pub struct AgentEvents {
    backend: Arc<dyn AgentBackend>,
    scope: FacetScope,
}

impl AgentEvents {
    pub(crate) fn new(backend: Arc<dyn AgentBackend>, scope: FacetScope) -> Self {
        AgentEvents { backend, scope }
    }

    /// Everything from now on, in order, for a facet that waits between batches.
    pub fn receiver(&self) -> AgentEventReceiver {
        AgentEventReceiver(self.backend.subscribe())
    }

    /// Calls `listener` for everything from now on, in order, on a task of the facet. What has come in
    /// while the listener ran is handed over together.
    pub fn subscribe(&self, mut listener: impl FnMut(&[Arc<AgentEvent>]) + Send + 'static) {
        let mut receiver = self.backend.subscribe();
        self.scope
            .spawner()
            .spawn("agent event subscriber", async move {
                let mut batch = Vec::new();
                while receiver.recv_many(&mut batch, 1024).await > 0 {
                    listener(&batch);
                    batch.clear();
                }
            });
    }
}
