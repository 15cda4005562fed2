//! Where a directory belongs: the nearest git root above it, or the directory itself.

use std::io;
use std::path::{Path, PathBuf};

/// A directory to work in, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// Canonical.
    pub(crate) directory: PathBuf,
    /// Canonical; the directory itself or one above it.
    pub(crate) root: PathBuf,
}

/// A directory that cannot be worked in.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct LocationError {
    /// What is wrong and what to do.
    pub(crate) reason: String,
}

impl Location {
    /// Resolves `directory`. Waits for the file system.
    pub(crate) fn of(directory: &Path) -> Result<Self, LocationError> {
        let wrong = |reason: &str| LocationError {
            reason: reason.into(),
        };
        if !directory.is_absolute() {
            return Err(wrong("the path is relative; give it from the root on"));
        }
        let directory = directory
            .canonicalize()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    wrong("it does not exist; create it or name another directory")
                }
                io::ErrorKind::PermissionDenied => {
                    wrong("it may not be read; change its permissions or name another directory")
                }
                _ => LocationError {
                    reason: format!("{error}; name another directory"),
                },
            })?;
        if !directory.is_dir() {
            return Err(wrong("it is a file; name the directory that it lies in"));
        }
        if directory.to_str().is_none() {
            return Err(wrong(
                "its path is not valid UTF-8; rename it or name another directory",
            ));
        }
        let root = directory
            .ancestors()
            .find(|above| above.join(".git").exists());
        let root = root.unwrap_or(&directory).to_owned();
        Ok(Location { directory, root })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(directory: &Path) -> String {
        Location::of(directory).unwrap_err().to_string()
    }

    #[test]
    fn the_root_is_the_nearest_git_root_or_the_directory_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().canonicalize().unwrap();
        let deep = base.join("project/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let plain = Location::of(&deep).unwrap();
        assert_eq!(plain.root, deep);
        std::fs::create_dir(base.join("project/.git")).unwrap();
        let inside = Location::of(&deep).unwrap();
        assert_eq!(
            inside,
            Location {
                directory: deep.clone(),
                root: base.join("project")
            }
        );
        // A worktree has a file of that name.
        std::fs::write(base.join("project/a/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(Location::of(&deep).unwrap().root, base.join("project/a"));
        std::os::unix::fs::symlink(base.join("project"), base.join("link")).unwrap();
        assert_eq!(
            Location::of(&base.join("link")).unwrap().root,
            base.join("project")
        );
    }

    #[test]
    fn a_directory_that_cannot_be_worked_in_is_refused_with_what_to_do() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(refused(&scratch.path().join("gone")).contains("does not exist; create it"));
        assert!(refused(&file).contains("it is a file"));
        assert!(refused(Path::new("relative")).contains("relative"));
    }
}
