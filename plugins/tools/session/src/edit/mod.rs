//! `edit`: replaces exact pieces of a file, all of them or none.

pub(crate) mod apply;
pub(crate) mod explain;

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
use crate::bound::counted;
use crate::diff::diff;
use crate::ledger::Standing;
use crate::target::{Target, TargetError};
use crate::{ToolShared, atomic, paths, schema, text};
use apply::{Edit, Problem};

const DESCRIPTION: &str = r#"
Changes a file by replacing exact pieces of its text.

- Each edit names `old_text`, which must be in the file exactly once, and `new_text`, which takes its place. Whitespace and indentation count. Leave out the line numbers that `read` shows.
- Take as much of the surrounding lines into `old_text` as it needs to be unique, and no more. To change every occurrence (renaming a variable, say) set `replace_all`.
- Several edits of one file go into one call. They apply in order, each to the result of the one before, and all of them or none: if one fails, the file stays as it was and you learn which one and why.
- Look at the file with `read` first, so that `old_text` is what is really there.
- An empty `new_text` removes the piece; take a whole line's newline along when you remove a line.
- The file keeps its line endings (write plain newlines), its byte order mark and its permissions. New files are made with `write`.
"#;

const ATTEMPT: &str = "edit";
/// Line numbers listed for a text that is in several places.
const MOST_PLACES: usize = 20;

/// Arguments of `edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file: absolute, relative to the session's directory, or under `~`.
    path: String,
    /// The replacements, in order; at least one.
    #[schemars(length(min = 1))]
    edits: Vec<Replacement>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replacement {
    /// The text to replace, exactly as it is in the file. It must occur exactly once unless `replace_all` is set.
    old_text: String,
    /// The text to put there instead. It must differ from `old_text`.
    new_text: String,
    /// Replace every occurrence instead of the only one. Default: false.
    replace_all: Option<bool>,
}

/// What can go wrong with an edit.
#[derive(Debug, thiserror::Error)]
enum EditError {
    #[error("Did not edit {path}: no edits were given. Give at least one.")]
    NoEdits { path: String },
    #[error(
        "Did not edit {path}: old_text of {which} is empty. Name the text to replace; to add text, replace a piece beside it. A new file is made with write."
    )]
    Empty { path: String, which: String },
    #[error(
        "Did not edit {path}: old_text and new_text of {which} are the same. Leave that edit out or correct it."
    )]
    Same { path: String, which: String },
    #[error("Did not edit {path}: old_text of {which} is not in the file{after}.{changed}{near}")]
    NotFound {
        path: String,
        which: String,
        after: &'static str,
        changed: &'static str,
        near: String,
    },
    #[error(
        "Did not edit {path}: old_text of {which} is in the file {times} times, at lines {lines}. Add surrounding lines until it is unique, or set replace_all to change every one."
    )]
    Ambiguous {
        path: String,
        which: String,
        times: usize,
        lines: String,
    },
    #[error("Did not edit {path}: it is {kind} and no text. Use a program through bash.")]
    Binary { path: String, kind: String },
    #[error(
        "Did not edit {path}: its UTF-16 text is damaged and would not survive. Repair it with iconv through bash first."
    )]
    Damaged { path: String },
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl From<EditError> for ToolError {
    fn from(error: EditError) -> Self {
        ToolError::failed(error.to_string())
    }
}

/// The tool.
pub(crate) struct EditTool {
    spec: ToolSpec,
    shared: ToolShared,
}

impl EditTool {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Edit", DESCRIPTION, ExecutionMode::Parallel, Replay::Never);
        EditTool { spec, shared }
    }
}

impl Tool for EditTool {
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
            changing(&cx.clone(), move || {
                let _locks = locks;
                Ok(edit(&cx, &shared, &directory, path, arguments.edits)?)
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

fn edit(
    cx: &Context,
    shared: &ToolShared,
    directory: &Path,
    path: PathBuf,
    edits: Vec<Replacement>,
) -> Result<ToolOutput, EditError> {
    let (target, _) = Target::existing(cx, &path, directory, ATTEMPT)?;
    let (file, metadata) = target.load(ATTEMPT)?;
    if edits.is_empty() {
        return Err(EditError::NoEdits { path: target.shown });
    }
    if let Some(kind) = text::binary_kind(&file[..file.len().min(8 * 1024)]) {
        return Err(EditError::Binary {
            path: target.shown,
            kind: kind.into_owned(),
        });
    }
    let standing = shared.ledger.standing(&target.path, &metadata, Some(&file));
    let decoded = text::decode(file);
    if decoded.lossy {
        return Err(EditError::Damaged { path: target.shown });
    }
    let (new_text, replacements) = apply_all(&target.shown, &decoded.bytes, edits, standing)?;
    let content = text::encode(&new_text, decoded.encoding);
    let staged = atomic::stage(&target.path, &content, Some(&metadata));
    let committed = staged
        .and_then(atomic::Staged::commit)
        .map_err(|error| target.failed(ATTEMPT, &error))?;
    shared
        .ledger
        .amend(standing, &target.path, &committed, &content);
    let change = diff(
        &target.path.display().to_string(),
        FileAction::Updated,
        &decoded.bytes,
        &new_text,
    );
    let mut said = format!(
        "Edited {}: {}{}.",
        target.shown,
        counted(replacements as u64, "replacement"),
        lines(&change)
    );
    if standing == Standing::Changed {
        said += " The file had changed on disk since you last saw it; the edit was made in its present text, and the other changes are kept. Read it again before you rely on the rest of it.";
    }
    Ok(ToolOutput {
        changes: vec![FileChange { path: target.path }],
        ..ToolOutput::text(said).with_details(
            ToolDetails::Changes(ChangesDetails {
                files: vec![change],
            })
            .to_value(),
        )
    })
}

fn apply_all(
    path: &str,
    old: &[u8],
    edits: Vec<Replacement>,
    standing: Standing,
) -> Result<(Vec<u8>, usize), EditError> {
    let count = edits.len();
    let mut text = old.to_vec();
    let mut replacements = 0;
    for (index, edit) in edits.into_iter().enumerate() {
        let edit = Edit {
            old: edit.old_text,
            new: edit.new_text,
            replace_all: edit.replace_all.unwrap_or(false),
        };
        match apply::apply(&text, &edit) {
            Ok(applied) => {
                text = applied.text;
                replacements += applied.replacements;
            }
            Err(problem) => {
                let which = if count == 1 {
                    "the edit".into()
                } else {
                    format!("edit {} of {count}", index + 1)
                };
                return Err(explained(
                    path,
                    which,
                    problem,
                    &text,
                    &edit,
                    index > 0,
                    standing,
                ));
            }
        }
    }
    Ok((text, replacements))
}

fn explained(
    path: &str,
    which: String,
    problem: Problem,
    text: &[u8],
    edit: &Edit,
    later: bool,
    standing: Standing,
) -> EditError {
    let path = path.to_owned();
    match problem {
        Problem::Empty => EditError::Empty { path, which },
        Problem::Same => EditError::Same { path, which },
        Problem::NotFound => {
            let text = String::from_utf8_lossy(text);
            let near = explain::explain(&text, &edit.old, "old_text");
            EditError::NotFound {
                path,
                which,
                after: if later {
                    " as the edits before it leave it"
                } else {
                    ""
                },
                changed: match standing {
                    Standing::Changed => {
                        " The file has changed on disk since you last read it: read it again."
                    }
                    Standing::Unread => " You have not read the file in this session: read it.",
                    Standing::Unchanged => "",
                },
                near: if near.is_empty() {
                    " Nothing in it is similar; check that it is the right file.".into()
                } else {
                    near
                },
            }
        }
        Problem::Ambiguous { lines } => {
            let mut listed: Vec<String> =
                lines.iter().take(MOST_PLACES).map(u64::to_string).collect();
            if lines.len() > MOST_PLACES {
                listed.push("…".into());
            }
            EditError::Ambiguous {
                path,
                which,
                times: lines.len(),
                lines: listed.join(", "),
            }
        }
    }
}

/// Where the changes are now, for the model's next look.
fn lines(change: &FileDiff) -> String {
    let changed = change
        .hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .filter_map(|line| line.new_line.filter(|_| line.old_line.is_none()));
    let (Some(first), Some(last)) = (changed.clone().min(), changed.max()) else {
        return format!(" (+{} −{} lines)", change.added, change.removed);
    };
    let place = if first == last {
        format!("line {first}")
    } else {
        format!("lines {first}–{last}")
    };
    format!(" at {place} (+{} −{} lines)", change.added, change.removed)
}
