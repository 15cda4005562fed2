//! One server per record file: a `flock` on a file beside it, gone when its holder dies.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Why this server may not use the records.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server has them.
    #[error("another server uses {database}{}: connect to that one, or end it with `bezel server stop`", holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Held {
        /// The record file.
        database: PathBuf,
        /// The other server, where the lock file says so.
        holder: Option<u32>,
    },
    /// The file system refused.
    #[error("cannot lock {path}: {source}; check that its directory exists and is writable")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// The held lock. The file stays: removing it would let two servers lock two files.
#[derive(Debug)]
pub(crate) struct ServerLock {
    _file: File,
}

impl ServerLock {
    pub(crate) fn acquire(database: &Path) -> Result<Self, LockError> {
        let mut path = database.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let io = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = options.open(&path).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let read = file.read_to_string(&mut text);
                let holder = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(LockError::Held {
                    database: database.to_owned(),
                    holder,
                });
            }
            Err(errno) => return Err(io(errno.into())),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(ServerLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_who_the_first_is_until_that_one_is_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let database = scratch.path().join("server.db");
        let first = ServerLock::acquire(&database).unwrap();
        let refused = ServerLock::acquire(&database).unwrap_err().to_string();
        assert!(
            refused.contains(&std::process::id().to_string()),
            "{refused}"
        );
        assert!(refused.contains("bezel server stop"), "{refused}");
        drop(first);
        ServerLock::acquire(&database).unwrap();
    }

    #[test]
    fn a_missing_directory_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let error = ServerLock::acquire(&scratch.path().join("gone/server.db")).unwrap_err();
        assert!(error.to_string().contains("gone/server.db.lock"), "{error}");
    }
}
