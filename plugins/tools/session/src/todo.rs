//! `todo`: the agent's list of tasks, which the person sees.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bezel_context::Context;
use bezel_session_types::{
    ExecutionMode, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{TodoDetails, TodoItem, TodoStatus, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{ToolShared, schema};

const DESCRIPTION: &str = r#"
Keeps your list of tasks for this session. The user sees it as your plan and progress.

- Use it for work of three steps or more, and when the user gives several tasks. Leave it alone for a single simple step or a question.
- Send the complete list each time; it replaces the one before. Without `items` you get the list as it is.
- One task is `in_progress` at a time: set it before you begin, and set it to `completed` at once when it is done, before the next one. A task is done when it is finished and checked; one that failed or is blocked is not.
- Add tasks that turn up on the way, and take out those that no longer make sense.
"#;

/// Characters of one task.
const MOST_CHARACTERS: usize = 500;
/// Tasks of a list.
const MOST_ITEMS: usize = 200;

/// Arguments of `todo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The complete new list, in order. Leave it out to see the present list; an empty one clears it.
    items: Option<Vec<TodoItem>>,
}

/// What can be wrong with a list.
#[derive(Debug, thiserror::Error)]
enum TodoError {
    #[error("The list was not changed: task {number} has no text. Say what is to be done.")]
    Empty { number: usize },
    #[error(
        "The list was not changed: task {number} has more than {MOST_CHARACTERS} characters. Say it in one short sentence."
    )]
    TooLong { number: usize },
    #[error(
        "The list was not changed: it has {count} tasks, more than {MOST_ITEMS}. Put related ones together."
    )]
    TooMany { count: usize },
}

/// The session's list.
#[derive(Debug, Default)]
pub struct TodoList {
    // A plain mutex: held to copy or replace the list, never across an await.
    items: Mutex<Vec<TodoItem>>,
}

impl TodoList {
    /// The list now.
    pub fn items(&self) -> Vec<TodoItem> {
        self.lock().clone()
    }

    /// Sets the list, as after a restart from the details of the last `todo` result of the branch.
    pub fn restore(&self, items: Vec<TodoItem>) {
        *self.lock() = items;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TodoItem>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool.
pub(crate) struct Todo {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Todo {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Todo", DESCRIPTION, ExecutionMode::Parallel, Replay::Safe);
        Todo { spec, shared }
    }
}

impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        _cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = schema::arguments(&invocation)?;
            if let Some(items) = arguments.items {
                let items = checked(items).map_err(|error| ToolError::failed(error.to_string()))?;
                self.shared.todos.restore(items);
            }
            let items = self.shared.todos.items();
            let text = rendered(&items);
            Ok(ToolOutput::text(text)
                .with_details(ToolDetails::Todo(TodoDetails { items }).to_value()))
        })
    }
}

fn checked(mut items: Vec<TodoItem>) -> Result<Vec<TodoItem>, TodoError> {
    if items.len() > MOST_ITEMS {
        return Err(TodoError::TooMany { count: items.len() });
    }
    for (index, item) in items.iter_mut().enumerate() {
        item.content = item.content.trim().to_owned();
        if item.content.is_empty() {
            return Err(TodoError::Empty { number: index + 1 });
        }
        if item.content.chars().count() > MOST_CHARACTERS {
            return Err(TodoError::TooLong { number: index + 1 });
        }
    }
    Ok(items)
}

fn rendered(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return "The list is empty.".into();
    }
    let done = items
        .iter()
        .filter(|item| item.status == TodoStatus::Completed)
        .count();
    let mut text = format!("{done} of {} done.\n", items.len());
    for item in items {
        let mark = match item.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        text += &format!("[{mark}] {}\n", item.content);
    }
    text
}
