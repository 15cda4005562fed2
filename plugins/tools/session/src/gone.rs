//! The session's directory, which somebody may delete, move or unmount while its worker lives: then nothing is done,
//! and above all nothing is made again in its place.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{Access, Tool, ToolError, ToolInvocation, ToolOutput, ToolSpec};
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The session's directory is not there.
#[derive(Debug, thiserror::Error)]
#[error(
    "Nothing was done: the session's directory {directory} is gone. It was deleted or moved, or its file system is not mounted. Do not make it again: ask the user to put it back, or to begin a session elsewhere.",
    directory = directory.display()
)]
struct DirectoryGone {
    directory: PathBuf,
}

impl From<DirectoryGone> for ToolError {
    fn from(gone: DirectoryGone) -> Self {
        ToolError::Failed {
            message: gone.to_string(),
            details: json!({ "code": "directory.gone", "directory": gone.directory }),
        }
    }
}

/// A tool that works in the session's directory, and does nothing where that is gone.
pub(crate) struct InDirectory<T>(T);

impl<T: Tool + 'static> InDirectory<T> {
    pub(crate) fn tool(tool: T) -> Arc<dyn Tool> {
        Arc::new(InDirectory(tool))
    }
}

impl<T: Tool> Tool for InDirectory<T> {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            check(invocation.host.directory())?;
            self.0.execute(cx, invocation).await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        self.0.accesses(arguments, directory)
    }
}

fn check(directory: &Path) -> Result<(), DirectoryGone> {
    let is_gone = match directory.metadata() {
        Ok(metadata) => !metadata.is_dir(),
        // What may not be looked at may be there.
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    match is_gone {
        true => Err(DirectoryGone {
            directory: directory.into(),
        }),
        false => Ok(()),
    }
}
