//! An agent with all that binds it.

use std::num::NonZeroU32;

use bezel_agents_contract::AgentDefinition;
use bezel_permissions_contract::Rule;

use crate::tools::ToolFilter;

/// An agent with all that binds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    /// What others may know.
    pub(crate) public: AgentDefinition,
    /// Model requests of a turn at most; the last of them is answered without tools.
    pub(crate) steps: Option<NonZeroU32>,
    /// The tools that it has.
    pub(crate) tools: ToolFilter,
    /// Its permissions, in order.
    pub(crate) rules: Vec<Rule>,
}
