//! `todo`: the agent's list of tasks, which the person sees.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bezel_api_session::SessionTree;
use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, Message, Replay, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec,
};
use bezel_tools_contract::{TodoDetails, TodoItem, TodoStatus, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

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
/// Entries that are looked through at a time.
const PAGE: usize = 100;

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

/// Finds the list that an earlier process of this session left.
pub type Earlier = Box<dyn Fn() -> BoxFuture<'static, Option<Vec<TodoItem>>> + Send + Sync>;

/// The session's list.
#[derive(Default)]
pub struct TodoList {
    // A plain mutex: held to copy or replace the list, never across an await.
    items: Mutex<Option<Vec<TodoItem>>>,
    earlier: Option<Earlier>,
}

impl TodoList {
    /// A list that `earlier` is asked for when it is wanted before it was set here.
    pub fn after(earlier: Earlier) -> Self {
        TodoList {
            earlier: Some(earlier),
            ..TodoList::default()
        }
    }

    /// The list now.
    pub async fn items(&self) -> Vec<TodoItem> {
        if let Some(items) = self.lock().clone() {
            return items;
        }
        let found = match &self.earlier {
            Some(earlier) => earlier().await,
            None => None,
        };
        self.lock().get_or_insert(found.unwrap_or_default()).clone()
    }

    fn set(&self, items: Vec<TodoItem>) {
        *self.lock() = Some(items);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<TodoItem>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for TodoList {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("TodoList")
            .field(&*self.lock())
            .finish()
    }
}

/// The list of the newest `todo` result on the session's path. Results are read a page at a time.
pub(crate) async fn newest(tree: SessionTree) -> Option<Vec<TodoItem>> {
    let mut before = None;
    loop {
        let (page, older) = match tree.recent(before.as_ref(), PAGE).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "the list of tasks of an earlier process was not found");
                return None;
            }
        };
        let found = page.iter().rev().find_map(|entry| match entry.message() {
            Some(Message::ToolResult(result)) if !result.is_error => {
                match ToolDetails::from_value(&result.details) {
                    Some(ToolDetails::Todo(list)) => Some(list.items),
                    _ => None,
                }
            }
            _ => None,
        });
        if found.is_some() || !older {
            return found;
        }
        before = Some(page.first()?.id.clone());
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
                self.shared.todos.set(items);
            }
            let items = self.shared.todos.items().await;
            let text = rendered(&items);
            Ok(ToolOutput::text(text)
                .with_details(ToolDetails::Todo(TodoDetails { items }).to_value()))
        })
    }

    fn accesses(&self, _arguments: &Value, _directory: &Path) -> Option<Vec<Access>> {
        Some(Vec::new())
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
