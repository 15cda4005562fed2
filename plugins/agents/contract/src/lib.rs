//! The agents service: which agents there are, and which one a session runs.
//!
//! An agent is a way to work: a prompt, tools, permissions and a model, under a name. Definitions are files; what
//! is wrong in one is a problem beside the agents that there are.

mod catalogue;

use bezel_rpc::{Context, State, service};
use bezel_session_types::ModelRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use catalogue::{AgentCatalogue, AgentDefinition};

/// The agents of one session.
#[service("agents", version = "1.0")]
pub trait Agents {
    /// The agents, the current one, and what is wrong with definitions.
    fn state(&self) -> State<AgentsState>;

    /// Has the session run another agent, durably and from the next request on, also of a turn that runs.
    #[scope(operate)]
    async fn select(&self, cx: &Context, name: String) -> Result<(), SelectAgentError>;
}

/// The agents of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentsState {
    /// What there is: the built-in ones, then those of files by name.
    pub agents: Vec<AgentSummary>,
    /// The name of the one that the session runs. Where `agents` has none of this name, nothing runs until another
    /// one is selected.
    pub current: String,
    /// What is wrong with definitions.
    pub problems: Vec<AgentProblem>,
}

/// An agent as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSummary {
    /// 1 to 64 of a-z, 0-9 and `-`.
    pub name: String,
    /// What it is for, in a sentence; perhaps empty.
    pub description: String,
    /// What may run it.
    pub mode: AgentMode,
    /// The model that it works with; none where the session's own serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Where its definition is.
    pub source: AgentSource,
}

/// What may run an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// A person, in a session of their own.
    Primary,
    /// Another agent, for a part of its work.
    Subagent,
    /// Both.
    #[default]
    All,
}

impl AgentMode {
    /// Whether a person may choose it for a session.
    pub fn is_primary(self) -> bool {
        self != AgentMode::Subagent
    }

    /// Whether another agent may begin a session with it.
    pub fn is_subagent(self) -> bool {
        self != AgentMode::Primary
    }

    /// As it is written in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentMode::Primary => "primary",
            AgentMode::Subagent => "subagent",
            AgentMode::All => "all",
        }
    }
}

/// Where a definition is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentSource {
    /// In Bezel itself.
    BuiltIn,
    /// In a file of the user's configuration.
    User {
        /// Its absolute path.
        file: String,
    },
    /// In a file of the project.
    Project {
        /// Its absolute path.
        file: String,
    },
}

/// Something that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{file}{}: {message}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct AgentProblem {
    /// The file's absolute path.
    pub file: String,
    /// From 1; none where it is the file as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What is wrong, and what to do.
    pub message: String,
    /// Whether there is no agent from this file for it. Otherwise there is one, without what is named.
    pub refused: bool,
}

/// Why another agent was not selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum SelectAgentError {
    /// There is none of this name.
    #[error("there is no agent `{name}`{}; `bezel agents` lists what there is", suggest(.suggestion))]
    Unknown {
        /// As it was given.
        name: String,
        /// A name that is near.
        suggestion: Option<String>,
    },
    /// It cannot be what this session runs.
    #[error("{message}")]
    Refused {
        /// Why, and what to do.
        message: String,
    },
    /// The server could not record the choice.
    #[error("the choice could not be recorded: {message}")]
    NotRecorded {
        /// What happened and what to do.
        message: String,
    },
}

fn suggest(suggestion: &Option<String>) -> String {
    let did_you = |name: &String| format!(" (did you mean {name}?)");
    suggestion.as_ref().map(did_you).unwrap_or_default()
}
