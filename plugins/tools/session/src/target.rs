//! A file that a tool is about to change, as it is on disk now.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bezel_context::Context;

use crate::bound::size;
use crate::{failure, paths};

/// Larger files are not changed by these tools: they are held in memory several times over.
pub(crate) const EDITABLE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{described}{suggestion}")]
    Io {
        described: String,
        suggestion: String,
    },
    #[error("Could not {attempt} {path}: it is a directory. Name a file.")]
    Directory { attempt: &'static str, path: String },
    #[error("Could not {attempt} {path}: it is {kind} and no regular file.")]
    Special {
        attempt: &'static str,
        path: String,
        kind: &'static str,
    },
    #[error(
        "Could not {attempt} {path}: it has {size}, more than these tools change in place. Use a program through bash."
    )]
    TooLarge {
        attempt: &'static str,
        path: String,
        size: String,
    },
}

/// A path with what is there.
#[derive(Debug)]
pub(crate) struct Target {
    /// The file itself: links are followed, so that a link stays a link.
    pub(crate) path: PathBuf,
    /// For messages.
    pub(crate) shown: String,
    /// `None` when nothing is there.
    pub(crate) existing: Option<Metadata>,
}

impl Target {
    /// Looks at `path`, which may not exist yet. `attempt` is a verb phrase such as "write to".
    pub(crate) fn find(
        path: &Path,
        directory: &Path,
        attempt: &'static str,
    ) -> Result<Self, TargetError> {
        let shown = paths::shown(path, directory);
        let failed = |error: io::Error| TargetError::Io {
            described: failure::describe(attempt, path, &error),
            suggestion: String::new(),
        };
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                return Ok(Target {
                    path: paths::canonical(path),
                    shown,
                    existing: None,
                });
            }
            Err(error) => return Err(failed(error)),
        };
        if metadata.is_dir() {
            return Err(TargetError::Directory {
                attempt,
                path: shown,
            });
        }
        if let Some(kind) = failure::special_kind(&metadata) {
            return Err(TargetError::Special {
                attempt,
                path: shown,
                kind,
            });
        }
        let path = path.canonicalize().map_err(failed)?;
        Ok(Target {
            path,
            shown,
            existing: Some(metadata),
        })
    }

    /// The same for a file that must exist; a missing one suggests near names.
    pub(crate) fn existing(
        cx: &Context,
        path: &Path,
        directory: &Path,
        attempt: &'static str,
    ) -> Result<(Self, Metadata), TargetError> {
        let target = Self::find(path, directory, attempt)?;
        match target.existing.clone() {
            Some(metadata) => Ok((target, metadata)),
            None => Err(TargetError::Io {
                described: failure::describe(attempt, path, &io::ErrorKind::NotFound.into()),
                suggestion: paths::suggestion(cx, path, directory),
            }),
        }
    }

    /// The whole content, with the metadata of exactly that content's file.
    pub(crate) fn load(&self, attempt: &'static str) -> Result<(Vec<u8>, Metadata), TargetError> {
        let failed = |error: io::Error| self.failed(attempt, &error);
        let mut file = File::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() > EDITABLE_BYTES {
            return Err(TargetError::TooLarge {
                attempt,
                path: self.shown.clone(),
                size: size(metadata.len()),
            });
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        Ok((content, metadata))
    }

    /// An error of a later step, in words.
    pub(crate) fn failed(&self, attempt: &'static str, error: &io::Error) -> TargetError {
        let mut described = failure::describe(attempt, &self.path, error);
        if error.kind() == io::ErrorKind::PermissionDenied
            && let Some(parent) = self
                .path
                .ancestors()
                .skip(1)
                .find(|ancestor| ancestor.is_dir())
            && rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_err()
        {
            described = format!(
                "Could not {attempt} {}: the directory {} is not writable. Ask the user to change its permissions or choose another path.",
                self.path.display(),
                parent.display()
            );
        }
        TargetError::Io {
            described,
            suggestion: String::new(),
        }
    }
}
