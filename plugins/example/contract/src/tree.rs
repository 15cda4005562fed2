//! The project's directory, for facets of the same process only.

use std::path::PathBuf;
use std::sync::Arc;

use bezel_rpc::LocalService;

/// A file of the project could not be listed or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not read {path} of the project: {reason}")]
pub struct TreeError {
    /// Relative to the project.
    pub path: String,
    /// What the system said.
    pub reason: String,
}

type List = dyn Fn() -> Result<Vec<String>, TreeError> + Send + Sync;
type Read = dyn Fn(&str) -> Result<String, TreeError> + Send + Sync;

/// Reads any file of the project.
///
/// It holds an absolute path and functions, neither of which has a JSON form: as a [`LocalService`] it
/// can be used by its own process alone. A peer that asks for its id learns that there is no such service.
pub struct ProjectTree {
    directory: PathBuf,
    list: Arc<List>,
    read: Arc<Read>,
}

impl LocalService for ProjectTree {
    const ID: &'static str = "project-tree";
}

impl ProjectTree {
    /// A tree at `directory`, read through two functions that may block.
    pub fn new(
        directory: PathBuf,
        list: impl Fn() -> Result<Vec<String>, TreeError> + Send + Sync + 'static,
        read: impl Fn(&str) -> Result<String, TreeError> + Send + Sync + 'static,
    ) -> Self {
        ProjectTree {
            directory,
            list: Arc::new(list),
            read: Arc::new(read),
        }
    }

    /// The project's absolute directory.
    pub fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// All files, relative and sorted. Blocks.
    pub fn files(&self) -> Result<Vec<String>, TreeError> {
        (self.list)()
    }

    /// A file's text. Blocks.
    pub fn text(&self, path: &str) -> Result<String, TreeError> {
        (self.read)(path)
    }
}
