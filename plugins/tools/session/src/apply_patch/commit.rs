//! Puts all changes of a patch in place, or none.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::{self, Staged};

/// One step of a patch, ready to be taken.
#[derive(Debug)]
pub(crate) enum Step {
    /// A new file.
    Add { target: PathBuf, content: Vec<u8> },
    /// New content for a file that is there.
    Replace {
        target: PathBuf,
        content: Vec<u8>,
        old: Vec<u8>,
        metadata: Metadata,
    },
    /// A file that moves and may change on the way.
    Move {
        from: PathBuf,
        to: PathBuf,
        content: Vec<u8>,
        metadata: Metadata,
    },
    /// A file that goes.
    Delete { target: PathBuf },
}

/// A step that failed.
#[derive(Debug)]
pub(crate) struct StepFailed {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
    /// Files that could not be put back as they were, with the reason.
    pub(crate) left_changed: Vec<(PathBuf, io::Error)>,
}

/// What one step made: the file as it is now, `None` when it is gone.
pub(crate) type Outcome = Option<Metadata>;

/// Takes all steps. Everything is written in full beside its target first, so that a full disk or a missing
/// permission shows before anything changes; if a step then still fails, the ones before are taken back.
pub(crate) fn commit(steps: &[Step]) -> Result<Vec<Outcome>, StepFailed> {
    let mut staged = Vec::with_capacity(steps.len());
    for step in steps {
        let ready = stage(step);
        staged.push(ready.map_err(|(path, error)| StepFailed {
            path,
            error,
            left_changed: Vec::new(),
        })?);
    }
    let mut done: Vec<Undo> = Vec::with_capacity(steps.len());
    let mut outcomes = Vec::with_capacity(steps.len());
    for (step, staged) in steps.iter().zip(staged) {
        match take(step, staged, &mut done) {
            Ok(outcome) => outcomes.push(outcome),
            Err((path, error)) => {
                let back = done
                    .into_iter()
                    .rev()
                    .filter_map(|undo| undo.take_back().err());
                return Err(StepFailed {
                    path,
                    error,
                    left_changed: back.collect(),
                });
            }
        }
    }
    for undo in done {
        undo.discard();
    }
    Ok(outcomes)
}

type Failed = (PathBuf, io::Error);

fn stage(step: &Step) -> Result<Option<Staged>, Failed> {
    let staged = match step {
        Step::Add { target, content } => atomic::stage(target, content, None),
        Step::Replace {
            target,
            content,
            metadata,
            ..
        } => atomic::stage(target, content, Some(metadata)),
        Step::Move {
            to,
            content,
            metadata,
            ..
        } => atomic::stage_copy(to, content, metadata),
        Step::Delete { .. } => return Ok(None),
    };
    staged
        .map(Some)
        .map_err(|error| (step.target().into(), error))
}

impl Step {
    /// The file that is there afterwards, or gone.
    pub(crate) fn target(&self) -> &Path {
        match self {
            Step::Add { target, .. } | Step::Replace { target, .. } | Step::Delete { target } => {
                target
            }
            Step::Move { to, .. } => to,
        }
    }
}

fn take(step: &Step, staged: Option<Staged>, done: &mut Vec<Undo>) -> Result<Outcome, Failed> {
    let failed = |error| (step.target().to_owned(), error);
    let outcome = staged.map(Staged::commit).transpose().map_err(failed)?;
    match step {
        Step::Add { target, .. } => done.push(Undo::Remove(target.clone())),
        Step::Replace {
            target,
            old,
            metadata,
            ..
        } => {
            done.push(Undo::Restore {
                target: target.clone(),
                old: old.clone(),
                metadata: metadata.clone(),
            });
        }
        Step::Move { from, to, .. } => {
            done.push(Undo::Remove(to.clone()));
            done.push(set_aside(from).map_err(|error| (from.clone(), error))?);
        }
        Step::Delete { target } => done.push(set_aside(target).map_err(failed)?),
    }
    Ok(outcome)
}

/// How to take a step back.
enum Undo {
    Remove(PathBuf),
    Restore {
        target: PathBuf,
        old: Vec<u8>,
        metadata: Metadata,
    },
    PutBack {
        target: PathBuf,
        aside: PathBuf,
    },
}

/// Renames a file out of the way; it is removed only when everything has worked.
fn set_aside(target: &Path) -> io::Result<Undo> {
    let parent = target.parent().ok_or(io::ErrorKind::IsADirectory)?;
    let place = tempfile::Builder::new()
        .prefix(".bezel-")
        .suffix(".tmp")
        .tempfile_in(parent)?;
    let aside = place.into_temp_path().keep().map_err(|error| error.error)?;
    match std::fs::rename(target, &aside) {
        Ok(()) => Ok(Undo::PutBack {
            target: target.into(),
            aside,
        }),
        Err(error) => {
            remove_quietly(&aside);
            Err(error)
        }
    }
}

impl Undo {
    fn take_back(self) -> Result<(), Failed> {
        match self {
            Undo::Remove(path) => std::fs::remove_file(&path).map_err(|error| (path, error)),
            Undo::PutBack { target, aside } => {
                std::fs::rename(&aside, &target).map_err(|error| (target, error))
            }
            Undo::Restore {
                target,
                old,
                metadata,
            } => {
                let restored =
                    atomic::stage(&target, &old, Some(&metadata)).and_then(Staged::commit);
                restored.map(drop).map_err(|error| (target, error))
            }
        }
    }

    fn discard(self) {
        if let Undo::PutBack { aside, .. } = self {
            remove_quietly(&aside);
        }
    }
}

fn remove_quietly(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(%error, path = %path.display(), "could not remove a file that was set aside");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_takes_the_others_back() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path();
        for (name, text) in [("kept", "old"), ("gone", "deleted"), ("from", "moved")] {
            std::fs::write(root.join(name), text).expect("file");
        }
        let metadata = root.join("kept").metadata().expect("metadata");
        let steps = [
            Step::Add {
                target: root.join("new/file"),
                content: b"n".to_vec(),
            },
            Step::Replace {
                target: root.join("kept"),
                content: b"new".to_vec(),
                old: b"old".to_vec(),
                metadata: metadata.clone(),
            },
            Step::Move {
                from: root.join("from"),
                to: root.join("to"),
                content: b"moved".to_vec(),
                metadata,
            },
            Step::Delete {
                target: root.join("gone"),
            },
            Step::Delete {
                target: root.join("never-there"),
            },
        ];
        let failed = commit(&steps).expect_err("the last step fails");
        assert_eq!(failed.path, root.join("never-there"));
        assert!(failed.left_changed.is_empty(), "{:?}", failed.left_changed);
        let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("file");
        assert_eq!(
            [read("kept"), read("gone"), read("from")],
            ["old", "deleted", "moved"]
        );
        let mut names: Vec<_> = std::fs::read_dir(root)
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["from", "gone", "kept", "new"]);
        assert_eq!(
            std::fs::read_dir(root.join("new"))
                .expect("directory")
                .count(),
            0
        );
    }
}
