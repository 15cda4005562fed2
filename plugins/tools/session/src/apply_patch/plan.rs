//! What is to be done with each file of a patch, worked out in memory before anything changes.

use std::path::Path;

use bezel_context::Context;
use bezel_tools_contract::{FileAction, FileDiff};

use super::commit::Step;
use super::locate::{self, Fuzz, Misplaced, Patched};
use super::parse::{Chunk, Section};
use super::{Located, PatchError};
use crate::diff::diff;
use crate::edit::explain::explain;
use crate::ledger::Standing;
use crate::target::Target;
use crate::{ToolShared, text};

/// Line numbers listed for a chunk that fits in several places.
const MOST_PLACES: usize = 20;

/// A step with what is said about it.
pub(super) struct Planned {
    pub(super) step: Step,
    pub(super) change: FileDiff,
    pub(super) note: String,
    pub(super) content: Option<Vec<u8>>,
    /// How the file stood to what the agent knew.
    pub(super) before: Standing,
}

/// Plans sections one by one.
pub(super) struct Planner<'a> {
    pub(super) cx: &'a Context,
    pub(super) shared: &'a ToolShared,
    pub(super) directory: &'a Path,
}

impl Planner<'_> {
    pub(super) fn plan(&self, located: Located) -> Result<Planned, PatchError> {
        match located.section {
            Section::Add { content, .. } => self.plan_add(&located.path, content),
            Section::Delete { .. } => self.plan_delete(&located.path),
            Section::Update { chunks, .. } => {
                self.plan_update(&located.path, located.move_to.as_deref(), &chunks)
            }
        }
    }

    fn plan_add(&self, path: &Path, content: String) -> Result<Planned, PatchError> {
        let target = self.free(path, "add")?;
        let change = diff(
            &target.path.display().to_string(),
            FileAction::Added,
            b"",
            content.as_bytes(),
        );
        let note = format!("added {} (+{})\n", target.shown, change.added);
        let content = content.into_bytes();
        Ok(Planned {
            step: Step::Add {
                target: target.path,
                content: content.clone(),
            },
            change,
            note,
            content: Some(content),
            before: Standing::Unchanged,
        })
    }

    fn plan_delete(&self, path: &Path) -> Result<Planned, PatchError> {
        let attempt = "delete";
        let (target, metadata) = Target::existing(self.cx, path, self.directory, attempt)?;
        let (old, _) = target.load(attempt)?;
        if self
            .shared
            .ledger
            .standing(&target.path, &metadata, Some(&old))
            == Standing::Changed
        {
            return Err(PatchError::ChangedDelete { path: target.shown });
        }
        let mut change = diff(&path.display().to_string(), FileAction::Deleted, &old, b"");
        if text::binary_kind(&old[..old.len().min(8 * 1024)]).is_some() {
            change.hunks.clear();
        }
        let note = format!("deleted {} (−{})\n", target.shown, change.removed);
        // The link itself goes, not the file that it points to.
        Ok(Planned {
            step: Step::Delete {
                target: path.into(),
            },
            change,
            note,
            content: None,
            before: Standing::Unchanged,
        })
    }

    fn plan_update(
        &self,
        path: &Path,
        move_to: Option<&Path>,
        chunks: &[Chunk],
    ) -> Result<Planned, PatchError> {
        let attempt = "update";
        let (target, _) = Target::existing(self.cx, path, self.directory, attempt)?;
        let (old, metadata) = target.load(attempt)?;
        let standing = self
            .shared
            .ledger
            .standing(&target.path, &metadata, Some(&old));
        let new = self.new_content(&target, &old, chunks, standing)?;
        let moved = move_to.map(|to| self.free(to, "move to")).transpose()?;
        let present = moved.as_ref().unwrap_or(&target);
        let mut change = diff(
            &present.path.display().to_string(),
            FileAction::Updated,
            &new.old_text,
            &new.new_text,
        );
        let mut note = match &moved {
            Some(moved) => format!("moved {} to {}", target.shown, moved.shown),
            None => format!("updated {}", target.shown),
        };
        note += &format!(" (+{} −{})", change.added, change.removed);
        if let Some(fuzz) = new.fuzz.note() {
            note += &format!(", matched {fuzz}");
        }
        if standing == Standing::Changed {
            note += "; it had changed on disk since you last saw it, and those changes are kept: read it again before you rely on the rest of it";
        }
        note.push('\n');
        let content = new.content;
        let step = match moved {
            Some(moved) => {
                change.moved_from = Some(path.display().to_string());
                Step::Move {
                    from: path.into(),
                    to: moved.path,
                    content: content.clone(),
                    metadata,
                }
            }
            None => Step::Replace {
                target: target.path,
                content: content.clone(),
                old,
                metadata,
            },
        };
        Ok(Planned {
            step,
            change,
            note,
            content: Some(content),
            before: standing,
        })
    }

    fn new_content(
        &self,
        target: &Target,
        old: &[u8],
        chunks: &[Chunk],
        standing: Standing,
    ) -> Result<NewContent, PatchError> {
        if chunks.is_empty() {
            return Ok(NewContent {
                content: old.to_vec(),
                ..NewContent::default()
            });
        }
        if let Some(kind) = text::binary_kind(&old[..old.len().min(8 * 1024)]) {
            return Err(PatchError::Binary {
                path: target.shown.clone(),
                kind: kind.into_owned(),
            });
        }
        let decoded = text::decode(old.to_vec());
        let valid = String::from_utf8(decoded.bytes)
            .ok()
            .filter(|_| !decoded.lossy);
        let old = valid.ok_or_else(|| PatchError::Invalid {
            path: target.shown.clone(),
        })?;
        let patched = locate::apply(&old, chunks)
            .map_err(|misplaced| explained(&target.shown, &old, chunks, &misplaced, standing))?;
        let Patched { text, fuzz } = patched;
        let content = text::encode(text.as_bytes(), decoded.encoding);
        Ok(NewContent {
            old_text: old.into_bytes(),
            new_text: text.into_bytes(),
            content,
            fuzz,
        })
    }

    /// A path where nothing is yet.
    fn free(&self, path: &Path, attempt: &'static str) -> Result<Target, PatchError> {
        let target = Target::find(path, self.directory, attempt)?;
        if target.existing.is_some() {
            Err(PatchError::Exists { path: target.shown })
        } else {
            Ok(target)
        }
    }
}

/// A file's new content, and its text before and after for the diff.
#[derive(Default)]
struct NewContent {
    old_text: Vec<u8>,
    new_text: Vec<u8>,
    content: Vec<u8>,
    fuzz: Fuzz,
}

fn explained(
    path: &str,
    old: &str,
    chunks: &[Chunk],
    misplaced: &Misplaced,
    standing: Standing,
) -> PatchError {
    let (index, problem) = match misplaced {
        Misplaced::NoAnchor { chunk, anchor } => (
            *chunk,
            format!("no line of the file is like its \"@@ {anchor}\". Name a line that is there."),
        ),
        Misplaced::NotFound { chunk } => {
            let near = explain(
                old,
                &locate::expected(&chunks[*chunk]).join("\n"),
                "the patch",
            );
            (
                *chunk,
                format!("its unchanged and removed lines are not in the file.{near}"),
            )
        }
        Misplaced::OutOfOrder { chunk } => {
            let hint = "its lines are in the file, but not below the chunk before it or below its @@ line. Put the chunks in the order of the file and do not let them overlap.";
            (*chunk, hint.to_owned())
        }
        Misplaced::Ambiguous { chunk, lines } => {
            let lines: Vec<String> = lines.iter().take(MOST_PLACES).map(u64::to_string).collect();
            let hint = format!(
                "its lines are in the file more than once, at lines {}. Show more unchanged lines, or begin the chunk with \"@@ LINE\" naming a line above the right place.",
                lines.join(", ")
            );
            (*chunk, hint)
        }
    };
    PatchError::Misplaced {
        path: path.into(),
        chunk: index + 1,
        patch_line: chunks[index].patch_line,
        problem,
        changed: match standing {
            Standing::Changed => {
                " The file has changed on disk since you last read it: read it again."
            }
            Standing::Unread => " You have not read the file in this session: read it.",
            Standing::Unchanged => "",
        },
    }
}
