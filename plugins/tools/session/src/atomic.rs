//! Replaces files as a whole: a reader sees the old text or the new one, never half of it.

use std::fs::{Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// New content, complete on disk beside its target, that takes the target's place on [`Staged::commit`].
/// Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Staged {
    file: NamedTempFile,
    target: PathBuf,
    replaces: bool,
    directories: NewDirectories,
}

/// Directories made for a file; removed again when the file does not come to be.
#[derive(Debug, Default)]
struct NewDirectories(Vec<PathBuf>);

impl Drop for NewDirectories {
    fn drop(&mut self) {
        for directory in self.0.iter().rev() {
            if let Err(error) = std::fs::remove_dir(directory) {
                tracing::debug!(%error, directory = %directory.display(), "kept a new directory that is in use");
            }
        }
    }
}

/// Writes `bytes` beside `target`, which must be no symbolic link. `existing` is the metadata of the file
/// to replace: its permissions, and its owner where allowed, are kept. Without it the target must not
/// exist when the content is committed; missing directories are made.
pub(crate) fn stage(
    target: &Path,
    bytes: &[u8],
    existing: Option<&Metadata>,
) -> io::Result<Staged> {
    stage_with(target, existing, existing.is_some(), |file| {
        file.write_all(bytes)
    })
}

/// The same for a file that must not exist yet and takes over the permissions of another.
pub(crate) fn stage_copy(target: &Path, bytes: &[u8], like: &Metadata) -> io::Result<Staged> {
    stage_with(target, Some(like), false, |file| file.write_all(bytes))
}

fn stage_with(
    target: &Path,
    like: Option<&Metadata>,
    replaces: bool,
    fill: impl FnOnce(&mut NamedTempFile) -> io::Result<()>,
) -> io::Result<Staged> {
    let parent = target.parent().ok_or(io::ErrorKind::IsADirectory)?;
    let directories = make_directories(parent)?;
    let mut file = tempfile::Builder::new()
        .prefix(".bezel-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent)?;
    fill(&mut file)?;
    if let Some(like) = like {
        keep_owner(&file, like);
        file.as_file().set_permissions(like.permissions())?;
    }
    Ok(Staged {
        file,
        target: target.into(),
        replaces,
        directories,
    })
}

impl Staged {
    /// Puts the content in its place in one step and says what the file is now.
    pub(crate) fn commit(mut self) -> io::Result<Metadata> {
        let metadata = self.file.as_file().metadata()?;
        let placed = if self.replaces {
            self.file.persist(&self.target)
        } else {
            self.file.persist_noclobber(&self.target)
        };
        placed.map_err(|error| error.error)?;
        self.directories.0.clear();
        Ok(metadata)
    }
}

fn make_directories(directory: &Path) -> io::Result<NewDirectories> {
    let mut missing: Vec<&Path> = directory
        .ancestors()
        .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
        .collect();
    missing.reverse();
    let mut made = NewDirectories::default();
    for directory in missing {
        match std::fs::create_dir(directory) {
            Ok(()) => made.0.push(directory.into()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

/// Only root may give a file away, so a failure is normal and leaves the file to its writer.
fn keep_owner(file: &NamedTempFile, existing: &Metadata) {
    let Ok(new) = file.as_file().metadata() else {
        return;
    };
    if (new.uid(), new.gid()) != (existing.uid(), existing.gid())
        && let Err(error) =
            std::os::unix::fs::fchown(file.as_file(), Some(existing.uid()), Some(existing.gid()))
    {
        tracing::debug!(%error, path = %file.path().display(), "the replaced file's owner could not be kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("directory");
        entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_no_other() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let target = directory.path().join("file");
        std::fs::write(&target, "old").expect("file");
        let existing = target.metadata().expect("metadata");
        let full = stage_with(&target, Some(&existing), true, |file| {
            file.write_all(b"half of the ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(
            full.expect_err("a full disk").kind(),
            io::ErrorKind::StorageFull
        );
        assert_eq!(names(directory.path()), ["file"]);
        assert_eq!(std::fs::read(&target).expect("file"), b"old");
    }

    #[test]
    fn what_is_staged_and_dropped_leaves_no_directory() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let target = directory.path().join("a/b/c/file");
        drop(stage(&target, b"new", None).expect("staged"));
        assert!(names(directory.path()).is_empty());
        stage(&target, b"new", None)
            .expect("staged")
            .commit()
            .expect("committed");
        assert_eq!(std::fs::read(&target).expect("file"), b"new");
        assert_eq!(names(target.parent().expect("parent")), ["file"]);
    }

    #[test]
    fn a_file_that_came_to_be_meanwhile_is_not_overwritten() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let target = directory.path().join("file");
        let staged = stage(&target, b"new", None).expect("staged");
        std::fs::write(&target, "another's").expect("file");
        assert_eq!(
            staged.commit().expect_err("taken").kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(&target).expect("file"), b"another's");
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[test]
    fn permissions_are_kept() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let target = directory.path().join("file");
        std::fs::write(&target, "old").expect("file");
        std::fs::set_permissions(&target, Permissions::from_mode(0o754)).expect("permissions");
        let existing = target.metadata().expect("metadata");
        stage(&target, b"new", Some(&existing))
            .expect("staged")
            .commit()
            .expect("committed");
        assert_eq!(target.metadata().expect("metadata").mode() & 0o7777, 0o754);
    }
}
