//! What the tools of one session share, and the list of them.

use std::sync::Arc;

use bezel_context::Spawner;
use bezel_session_types::Tool;

use crate::apply_patch::ApplyPatch;
use crate::bash::Bash;
use crate::bash_kill::BashKill;
use crate::bash_output::BashOutput;
use crate::edit::EditTool;
use crate::gone::InDirectory;
use crate::read::Read;
use crate::search::SearchLimits;
use crate::search::glob::GlobTool;
use crate::search::grep::Grep;
use crate::search::ls::Ls;
use crate::todo::{Todo, TodoList};
use crate::write::Write;
use crate::{Commands, Environment, FileLedger};

/// What the tools of one session share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolShared {
    /// The variables that commands get, and where `~` is.
    pub environment: Arc<Environment>,
    /// Which files the agent knows.
    pub ledger: Arc<FileLedger>,
    /// Running commands. Shut it down with the session.
    pub commands: Arc<Commands>,
    /// The list of tasks.
    pub todos: Arc<TodoList>,
    /// Which files a search may look into.
    pub search: SearchLimits,
}

impl ToolShared {
    /// For one session. Background commands are tasks of `spawner`'s scope and end with it.
    pub fn new(environment: Arc<Environment>, spawner: Spawner) -> Self {
        let commands = Arc::new(Commands::new(Arc::clone(&environment), spawner));
        ToolShared {
            environment,
            ledger: Arc::default(),
            commands,
            todos: Arc::default(),
            search: SearchLimits::default(),
        }
    }
}

/// The built-in tools under the names that they are registered with, in the order in which a model sees them.
pub fn tools(shared: ToolShared) -> Vec<(&'static str, Arc<dyn Tool>)> {
    let shared = || shared.clone();
    vec![
        ("read", InDirectory::tool(Read::new(shared()))),
        ("write", InDirectory::tool(Write::new(shared()))),
        ("edit", InDirectory::tool(EditTool::new(shared()))),
        ("apply_patch", InDirectory::tool(ApplyPatch::new(shared()))),
        ("bash", InDirectory::tool(Bash::new(shared()))),
        ("bash_output", Arc::new(BashOutput::new(shared()))),
        ("bash_kill", Arc::new(BashKill::new(shared()))),
        ("grep", InDirectory::tool(Grep::new(shared()))),
        ("glob", InDirectory::tool(GlobTool::new(shared()))),
        ("ls", InDirectory::tool(Ls::new(shared()))),
        ("todo", Arc::new(Todo::new(shared()))),
    ]
}
