//! The agents for facets of the same process.

use bezel_rpc::LocalService;
use bezel_session_types::{ModelRef, PermissionMode, ThinkingLevel};

use crate::{AgentMode, AgentSource, AgentSummary};

/// An agent in full, its tools and rules apart: those bind whoever runs it, and are nobody else's to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDefinition {
    /// 1 to 64 of a-z, 0-9 and `-`.
    pub name: String,
    /// What it is for, in a sentence; perhaps empty.
    pub description: String,
    /// What may run it.
    pub mode: AgentMode,
    /// The model that it works with; none where the session's own serves.
    pub model: Option<ModelRef>,
    /// How much it reasons; none where the session's own level serves.
    pub thinking: Option<ThinkingLevel>,
    /// The most that it may do unasked; none where the session's own mode serves.
    pub permission_mode: Option<PermissionMode>,
    /// Its section of the system prompt; perhaps empty.
    pub prompt: String,
    /// Where its definition is.
    pub source: AgentSource,
}

impl AgentDefinition {
    /// What a person sees of it.
    pub fn summary(&self) -> AgentSummary {
        AgentSummary {
            name: self.name.clone(),
            description: self.description.clone(),
            mode: self.mode,
            model: self.model.clone(),
            source: self.source.clone(),
        }
    }
}

type List = dyn Fn() -> Vec<AgentSummary> + Send + Sync;
type Get = dyn Fn(&str) -> Option<AgentDefinition> + Send + Sync;

/// The agents of this session's location, as its files were when a run began last. Answers at once.
pub struct AgentCatalogue {
    list: Box<List>,
    get: Box<Get>,
}

impl LocalService for AgentCatalogue {
    const ID: &'static str = "agent-catalogue";
}

impl AgentCatalogue {
    /// A catalogue that answers with these.
    pub fn new(
        list: impl Fn() -> Vec<AgentSummary> + Send + Sync + 'static,
        get: impl Fn(&str) -> Option<AgentDefinition> + Send + Sync + 'static,
    ) -> Self {
        AgentCatalogue {
            list: Box::new(list),
            get: Box::new(get),
        }
    }

    /// All agents: the built-in ones, then those of files by name.
    pub fn list(&self) -> Vec<AgentSummary> {
        (self.list)()
    }

    /// The agent of this name.
    pub fn get(&self, name: &str) -> Option<AgentDefinition> {
        (self.get)(name)
    }
}
