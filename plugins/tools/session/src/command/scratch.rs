//! The directory in which a session keeps what its commands need: nobody else's to read, and gone with its owner.
//!
//! The owner holds a lock on it, which the kernel lets go of when the owner dies, however it does: whoever gets the
//! lock of another session's directory may remove it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use bezel_session_types::{SCRATCH_PREFIX, SessionId};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// A directory that is younger may not be locked yet.
const YOUNG: Duration = Duration::from_secs(10);

/// A session's directory, until this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: TempDir,
    _lock: File,
}

/// How the names of a session's scratch directories begin.
fn prefix(session: &SessionId) -> String {
    format!("{SCRATCH_PREFIX}{session}-")
}

impl Scratch {
    /// Makes one in `within`.
    pub(super) fn make(within: &Path, session: &SessionId) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&prefix(session))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(within)?;
        let lock = File::open(directory.path())?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            // No file system that cannot lock lets another lock it.
            tracing::debug!(%error, "a scratch directory could not be locked");
        }
        Ok(Scratch {
            directory,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the scratch directories that dead owners have left: of this session, which nobody else runs, and of others.
pub(crate) fn remove_left_over_scratch(session: &SessionId) {
    remove_left_over(&std::env::temp_dir(), session);
}

fn remove_left_over(within: &Path, session: &SessionId) {
    let own = prefix(session);
    let Ok(entries) = std::fs::read_dir(within) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        let dead = name.starts_with(&own)
            || (name.starts_with(SCRATCH_PREFIX) && is_left(&path).unwrap_or(false));
        if dead && let Err(error) = std::fs::remove_dir_all(&path) {
            tracing::debug!(%error, directory = %path.display(), "a scratch directory stays");
        }
    }
}

/// Whether nobody holds a directory of this user any more.
fn is_left(path: &Path) -> io::Result<bool> {
    let metadata = path.symlink_metadata()?;
    let old = metadata.modified()?.elapsed().is_ok_and(|age| age > YOUNG);
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_dir() || !old || !own {
        return Ok(false);
    }
    let lock = File::open(path)?;
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_dead_owner_left_goes_and_what_a_living_one_has_stays() {
        let temporary = tempfile::tempdir().expect("temporary directory");
        let within = temporary.path();
        let living = Scratch::make(within, &SessionId::new("living")).expect("made");
        let young = within.join(format!("{SCRATCH_PREFIX}young-x"));
        let dead = within.join(format!("{SCRATCH_PREFIX}dead-x"));
        let own = within.join(format!("{SCRATCH_PREFIX}own-x"));
        let other = within.join("other");
        for directory in [&young, &dead, &own, &other] {
            std::fs::create_dir(directory).expect("made");
        }
        for old in [living.path(), &dead, &other] {
            let past = SystemTime::now() - Duration::from_secs(60);
            let opened = File::open(old).expect("opened");
            opened.set_modified(past).expect("older");
        }
        remove_left_over(within, &SessionId::new("own"));
        assert!(living.path().is_dir() && young.is_dir() && other.is_dir());
        assert!(!dead.exists() && !own.exists());
        let mode = living.path().metadata().expect("there").mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
