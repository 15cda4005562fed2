//! `apply_patch`: changes several files at once by a patch, all of them or none.

mod commit;
mod locate;
mod parse;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bezel_context::Context;
use bezel_session_types::{
    Access, ExecutionMode, FileChange, Replay, Tool, ToolError, ToolInvocation, ToolOutput,
    ToolSpec,
};
use bezel_tools_contract::{ChangesDetails, ToolDetails};
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::blocking::changing;
use crate::target::TargetError;
use crate::{ToolShared, diff, failure, paths, schema};
use commit::Step;
use parse::{ParseError, Section};
use plan::{Planned, Planner};

const DESCRIPTION: &str = r#"
Adds, changes, moves and deletes several files with one patch. Either the whole patch is applied or nothing.

The patch is plain text in this form:

*** Begin Patch
*** Add File: path/to/new.txt
+every line of the new file begins with a plus
*** Update File: path/to/changed.py
*** Move to: path/to/renamed.py
@@ class Account:
@@     def close(self):
 an unchanged line begins with a space
-a removed line begins with a minus
+an added line begins with a plus
*** Delete File: path/to/old.txt
*** End Patch

- One section for each file. "*** Move to:" is optional and comes right below "*** Update File:".
- An update has one chunk for each place, in the order of the file. A chunk shows about three unchanged lines above and below the change, so that its place is unmistakable. If those lines occur more than once, begin the chunk with one or more lines "@@ LINE", each naming a line above the place, such as the header of its function or class. A line "@@" alone begins a further chunk.
- Lines must be as they are in the file; small differences in whitespace are forgiven. Line numbers are not used.
- End a chunk with "*** End of File" when its place is the end of the file.
- Paths are absolute or relative to the session's directory. A file that is to be added must not exist yet.
- For a change within one file `edit` is simpler.
"#;

/// Arguments of `apply_patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole patch, from "*** Begin Patch" to "*** End Patch".
    patch: String,
}

/// What can go wrong with a patch. Nothing has changed then, unless the message says so.
#[derive(Debug, thiserror::Error)]
enum PatchError {
    #[error("Could not read the patch, so nothing was changed. {0}")]
    Parse(#[from] ParseError),
    #[error("The patch was not applied: {0}")]
    Path(#[from] paths::PathError),
    #[error("The patch was not applied. {0}")]
    Target(#[from] TargetError),
    #[error(
        "The patch was not applied: it has more than one section for {path}. Put all chunks of a file into one section."
    )]
    Twice { path: String },
    #[error(
        "The patch was not applied: {path} is to be added but exists already. Use \"*** Update File:\", or write to replace it."
    )]
    Exists { path: String },
    #[error("The patch was not applied: {path} is {kind} and no text. Use a program through bash.")]
    Binary { path: String, kind: String },
    #[error(
        "The patch was not applied: {path} holds bytes that are not valid in its encoding. Use edit, which keeps them."
    )]
    Invalid { path: String },
    #[error(
        "The patch was not applied: {path} is to be deleted but has changed on disk since you last saw it. Read it again first."
    )]
    ChangedDelete { path: String },
    #[error(
        "The patch was not applied. In {path}, chunk {chunk} (line {patch_line} of the patch): {problem}{changed}"
    )]
    Misplaced {
        path: String,
        chunk: usize,
        patch_line: usize,
        problem: String,
        changed: &'static str,
    },
    #[error("The patch was not applied. {described}{left}")]
    Commit { described: String, left: String },
    #[error("cancelled")]
    Cancelled,
}

impl From<PatchError> for ToolError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Cancelled => ToolError::Interrupted,
            error => ToolError::failed(error.to_string()),
        }
    }
}

/// The tool.
pub(crate) struct ApplyPatch {
    spec: ToolSpec,
    shared: ToolShared,
}

impl ApplyPatch {
    pub(crate) fn new(shared: ToolShared) -> Self {
        let spec =
            schema::spec::<Arguments>("Patch", DESCRIPTION, ExecutionMode::Parallel, Replay::Never);
        ApplyPatch { spec, shared }
    }
}

impl Tool for ApplyPatch {
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
            let patch = parse::parse(&arguments.patch).map_err(PatchError::from)?;
            let sections = located(patch.sections, &directory, &self.shared)?;
            let touched: Vec<PathBuf> = sections.iter().flat_map(Located::paths).cloned().collect();
            let locks = self
                .shared
                .ledger
                .lock(&cx, &touched)
                .await
                .map_err(|_| ToolError::Interrupted)?;
            let shared = self.shared.clone();
            changing(&cx.clone(), move || {
                let _locks = locks;
                Ok(apply(&cx, &shared, &directory, sections)?)
            })
            .await
        })
    }

    fn accesses(&self, arguments: &Value, directory: &Path) -> Option<Vec<Access>> {
        let arguments = Arguments::deserialize(arguments).ok()?;
        let patch = parse::parse(&arguments.patch).ok()?;
        let sections = located(patch.sections, directory, &self.shared).ok()?;
        let touched = sections.iter().flat_map(Located::paths);
        Some(touched.map(Access::edit).collect())
    }
}

/// A section with absolute paths.
struct Located {
    path: PathBuf,
    move_to: Option<PathBuf>,
    section: Section,
}

impl Located {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.move_to)
    }
}

fn located(
    sections: Vec<Section>,
    directory: &Path,
    shared: &ToolShared,
) -> Result<Vec<Located>, PatchError> {
    let mut seen = std::collections::HashSet::new();
    let mut located = Vec::with_capacity(sections.len());
    for section in sections {
        let (path, move_to) = match &section {
            Section::Add { path, .. } | Section::Delete { path } => (path, None),
            Section::Update { path, move_to, .. } => (path, move_to.as_ref()),
        };
        let path = paths::resolve(path, directory, &shared.environment)?;
        let move_to = move_to
            .map(|to| paths::resolve(to, directory, &shared.environment))
            .transpose()?;
        let move_to = move_to.filter(|to| *to != path);
        let entry = Located {
            path,
            move_to,
            section,
        };
        for path in entry.paths() {
            if !seen.insert(paths::canonical(path)) {
                return Err(PatchError::Twice {
                    path: paths::shown(path, directory),
                });
            }
        }
        located.push(entry);
    }
    Ok(located)
}

fn apply(
    cx: &Context,
    shared: &ToolShared,
    directory: &Path,
    sections: Vec<Located>,
) -> Result<ToolOutput, PatchError> {
    let planner = Planner {
        cx,
        shared,
        directory,
    };
    let planned: Result<Vec<Planned>, PatchError> = sections
        .into_iter()
        .map(|section| planner.plan(section))
        .collect();
    let planned = planned?;
    if cx.is_cancelled() {
        return Err(PatchError::Cancelled);
    }
    let (steps, said): (Vec<Step>, Vec<_>) = planned
        .into_iter()
        .map(|planned| {
            (
                planned.step,
                (
                    planned.change,
                    planned.note,
                    planned.content,
                    planned.before,
                ),
            )
        })
        .unzip();
    let outcomes = commit::commit(&steps).map_err(|failed| failed_step(shared, &failed))?;
    let mut changes = Vec::new();
    let mut text = String::from("Applied the patch:\n");
    let mut files = Vec::with_capacity(steps.len());
    for ((step, (change, note, content, before)), outcome) in steps.iter().zip(said).zip(outcomes) {
        if let Step::Move { from, .. } = step {
            shared.ledger.forget(from);
            changes.push(FileChange { path: from.clone() });
        }
        match (outcome, content) {
            (Some(metadata), Some(content)) => {
                shared
                    .ledger
                    .amend(before, step.target(), &metadata, &content);
            }
            _ => shared.ledger.forget(step.target()),
        }
        changes.push(FileChange {
            path: step.target().into(),
        });
        text += &note;
        files.push(change);
    }
    diff::fit(&mut files);
    let details = ToolDetails::Changes(ChangesDetails { files }).to_value();
    Ok(ToolOutput {
        changes,
        ..ToolOutput::text(text).with_details(details)
    })
}

fn failed_step(shared: &ToolShared, failed: &commit::StepFailed) -> PatchError {
    let mut left = String::new();
    for (path, error) in &failed.left_changed {
        shared.ledger.forget(path);
        left += &format!(
            " {} could not be put back as it was ({error}): look at it before you go on.",
            path.display()
        );
    }
    PatchError::Commit {
        described: failure::describe("write to", &failed.path, &failed.error),
        left,
    }
}
