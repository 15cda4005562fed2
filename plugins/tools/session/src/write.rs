//! `write`: makes a file or replaces a whole one that the agent knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, FileChange, Replay, Tool, ToolError, ToolInvocation, ToolOutput,
    ToolSpec,
};
use bezel_tools_contract::{ChangesDetails, FileAction, FileDiff, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::blocking::changing;
use crate::bound::{counted, size};
use crate::diff::diff;
use crate::ledger::{COMPARED_BYTES, Standing};
use crate::target::{Target, TargetError};
use crate::{ToolShared, atomic, paths, schema};

const DESCRIPTION: &str = r#"
Writes a file: makes a new one, with its missing directories, or replaces the whole content of an existing one.

- To change a part of a file use `edit`; it costs less and cannot lose the rest.
- An existing file is replaced only if you have read it in this session and nothing has changed it since. Otherwise read it first.
- `content` is the complete file, exactly: with its final newline, without line numbers, without a Markdown fence around it.
- A replaced file keeps its permissions; a symbolic link stays and its target is replaced. Either the whole new content is there afterwards or the old one.
- Make files that the task needs, and no others: no summaries or documentation that nobody asked for.
"#;

const ATTEMPT: &str = "write to";

/// Arguments of `write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file: absolute, relative to the session's directory, or under `~`.
    path: String,
    /// The complete content of the file.
    content: String,
}

/// What can go wrong with a write.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(
        "Did not write to {path}: it exists ({size}) and you have not read it in this session. Read it first, then write it again or use edit."
    )]
    Unread { path: String, size: String },
    #[error(
        "Did not write to {path}: it has changed on disk since you last read or wrote it (the user, a formatter or a command did that). Read it again, then decide how both changes go together."
    )]
    Changed { path: String },
    #[error("Did not write to {path}: something else created it in the meantime. Read it first.")]
    Appeared { path: String },
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl From<WriteError> for ToolError {
    fn from(error: WriteError) -> Self {
        ToolError::failed(error.to_string())
    }
}

/// The tool.
pub(crate) struct Write {
    spec: ToolSpec,
    shared: ToolShared,
}

impl Write {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Write", DESCRIPTION, ExecutionMode::Parallel, Replay::Never);
        Write { spec, shared }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute(
        &self,
        cx: Context,
        invocation: ToolInvocation,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = schema::arguments(&invocation)?;
            let directory: Arc<Path> = invocation.host.directory().into();
            let path = paths::resolve(&arguments.path, &directory, &self.shared.environment)?;
            let locks = self
                .shared
                .ledger
                .lock(&cx, std::slice::from_ref(&path))
                .await;
            let locks = locks.map_err(|_| ToolError::Interrupted)?;
            let shared = self.shared.clone();
            changing(&cx, move || {
                let _locks = locks;
                Ok(write(&shared, &directory, path, &arguments.content)?)
            })
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let path = paths::resolve(&arguments.path, directory, &self.shared.environment).ok()?;
        Some(vec![Access::edit(path)])
    }
}

fn write(
    shared: &ToolShared,
    directory: &Path,
    path: PathBuf,
    content: &str,
) -> Result<ToolOutput, WriteError> {
    let target = Target::find(&path, directory, ATTEMPT)?;
    let old = target
        .existing
        .as_ref()
        .map(|_| known_content(shared, &target))
        .transpose()?;
    let new = content.as_bytes();
    let lines = counted(content.lines().count() as u64, "line");
    if matches!(&old, Some(Some(old)) if old == new) {
        let details = ToolDetails::Changes(ChangesDetails::default()).to_value();
        let text = format!(
            "{} already has exactly this content; nothing was written.",
            target.shown
        );
        return Ok(ToolOutput::text(text).with_details(details));
    }
    let staged = atomic::stage(&target.path, new, target.existing.as_ref());
    let committed =
        staged
            .and_then(atomic::Staged::commit)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => WriteError::Appeared {
                    path: target.shown.clone(),
                },
                _ => target.failed(ATTEMPT, &error).into(),
            })?;
    shared.ledger.record(&target.path, &committed, Some(new));
    let shown_path = target.path.display().to_string();
    let (verb, change) = match old {
        None => ("Created", diff(&shown_path, FileAction::Added, b"", new)),
        Some(Some(old)) => (
            "Replaced",
            diff(&shown_path, FileAction::Updated, &old, new),
        ),
        Some(None) => ("Replaced", without_hunks(&shown_path, content)),
    };
    let text = format!(
        "{verb} {} ({lines}, {}).",
        target.shown,
        size(new.len() as u64)
    );
    Ok(ToolOutput {
        changes: vec![FileChange { path: target.path }],
        ..ToolOutput::text(text).with_details(
            ToolDetails::Changes(ChangesDetails {
                files: vec![change],
            })
            .to_value(),
        )
    })
}

/// The old content when the file may be replaced; inside, `None` when it is too large to compare.
fn known_content(shared: &ToolShared, target: &Target) -> Result<Option<Vec<u8>>, WriteError> {
    let large = target
        .existing
        .as_ref()
        .is_some_and(|metadata| metadata.len() > COMPARED_BYTES);
    let (content, metadata) = match &target.existing {
        Some(metadata) if large => (None, metadata.clone()),
        _ => {
            let (content, metadata) = target.load(ATTEMPT)?;
            (Some(content), metadata)
        }
    };
    match shared
        .ledger
        .standing(&target.path, &metadata, content.as_deref())
    {
        Standing::Unchanged => Ok(content),
        Standing::Changed => Err(WriteError::Changed {
            path: target.shown.clone(),
        }),
        Standing::Unread if metadata.len() == 0 => Ok(content),
        Standing::Unread => Err(WriteError::Unread {
            path: target.shown.clone(),
            size: size(metadata.len()),
        }),
    }
}

fn without_hunks(path: &str, content: &str) -> FileDiff {
    FileDiff {
        path: path.into(),
        action: FileAction::Updated,
        moved_from: None,
        added: content.lines().count() as u64,
        removed: 0,
        hunks: Vec::new(),
        truncated: true,
    }
}
