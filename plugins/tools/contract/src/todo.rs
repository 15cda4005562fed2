//! The session's list of tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The list after a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoDetails {
    /// In the model's order.
    pub items: Vec<TodoItem>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// What is to be done, one short imperative sentence such as "Add a test for the empty prompt".
    pub content: String,
    /// Where it stands: `pending`, `in_progress` or `completed`.
    pub status: TodoStatus,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being worked on; normally one at a time.
    InProgress,
    /// Done and checked.
    Completed,
}
