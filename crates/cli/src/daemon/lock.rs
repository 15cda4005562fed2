//! Who is the server, and who may start one: two locks that the kernel releases when their holder dies.
//!
//! A standalone Bezel holds the first one too: it has the sessions open, and whoever finds no server has to
//! be told why none can be started.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The process that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// Whether it is a standalone Bezel: it has the sessions and serves nobody else.
    #[serde(default)]
    pub standalone: bool,
}

/// Held by the server while it lives. Processes that it starts do not inherit it.
#[derive(Debug)]
pub struct ServerLock {
    file: File,
}

/// Held while one process starts, stops or looks for the server, so that these never overlap.
#[derive(Debug)]
pub struct StartLock {
    _file: File,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server lives, or a standalone Bezel.
    #[error("{}", held(.owner))]
    Held {
        /// Which, where its file tells.
        owner: Option<Owner>,
    },
    /// Nothing can be written where the lock file has to be.
    #[error(
        "{} cannot be written ({error}): every command works through a server, which writes there, also where the command itself only reads; make it writable, or copy what is in it and set BEZEL_HOME to the copy",
        file.parent().unwrap_or(file).display()
    )]
    ReadOnly {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}: {error}; make its directory writable or set BEZEL_HOME to one that is", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn held(owner: &Option<Owner>) -> String {
    match owner {
        Some(owner) if owner.standalone => open_elsewhere(owner.pid),
        owner => format!(
            "a server already runs{}; `bezel server status` says more, `bezel server stop` ends it",
            named(owner)
        ),
    }
}

/// What to do while a standalone Bezel has the sessions.
pub fn open_elsewhere(pid: u32) -> String {
    format!(
        "a standalone Bezel (process {pid}) has the sessions open, so that no server can run: leave it first (Ctrl+D)"
    )
}

fn named(owner: &Option<Owner>) -> String {
    owner
        .as_ref()
        .map(|owner| format!(" (process {}, version {})", owner.pid, owner.version))
        .unwrap_or_default()
}

impl ServerLock {
    /// Makes this process the server, or says who is.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        Self::take_as(path, false)
    }

    /// Keeps servers away while this process has the sessions itself, or says who has them.
    pub fn take_standalone(_start: &StartLock, path: &Path) -> Result<Self, LockError> {
        Self::take_as(path, true)
    }

    fn take_as(path: &Path, standalone: bool) -> Result<Self, LockError> {
        let wrong = |error: io::Error| LockError::File {
            file: path.to_owned(),
            error,
        };
        let mut file = open(path).map_err(wrong)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    owner: read(&mut file),
                });
            }
            Err(error) => return Err(wrong(error.into())),
        }
        let owner = Owner {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            standalone,
        };
        let text = serde_json::to_vec(&owner).map_err(|error| wrong(error.into()))?;
        file.set_len(0)
            .and_then(|()| file.write_all(&text))
            .map_err(wrong)?;
        Ok(ServerLock { file })
    }

    /// The server that holds the lock at `path`, if one does.
    pub fn holder(_start: &StartLock, path: &Path) -> Result<Option<Owner>, LockError> {
        let wrong = |error: io::Error| LockError::File {
            file: path.to_owned(),
            error,
        };
        let mut file = match OpenOptions::new().read(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => Ok(Some(read(&mut file).unwrap_or(Owner {
                pid: 0,
                version: String::new(),
                started_at: String::new(),
                standalone: false,
            }))),
            Err(error) => Err(wrong(error.into())),
        }
    }

    /// Blocks until no server holds the lock at `path`.
    pub fn wait_released(path: &Path) -> Result<(), LockError> {
        let wrong = |error: io::Error| LockError::File {
            file: path.to_owned(),
            error,
        };
        let file = open(path).map_err(wrong)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))
    }
}

impl Drop for ServerLock {
    fn drop(&mut self) {
        // Whoever reads the file next must not take this process for the server.
        self.file.set_len(0).ok();
    }
}

impl StartLock {
    /// Waits for its turn. Whoever holds the lock has deadlines for all that it does meanwhile.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let wrong = |error: io::Error| LockError::File {
            file: path.to_owned(),
            error,
        };
        let file = open(path).map_err(|error| not_opened(path, error))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
        Ok(StartLock { _file: file })
    }
}

/// Why the first file that every command writes is not open.
fn not_opened(path: &Path, error: io::Error) -> LockError {
    let file = path.to_owned();
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            LockError::ReadOnly { file, error }
        }
        _ => LockError::File { file, error },
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn read(file: &mut File) -> Option<Owner> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.lock");
        let start = StartLock::take(&directory.path().join("start.lock")).unwrap();
        assert_eq!(ServerLock::holder(&start, &path).unwrap(), None);
        let first = ServerLock::take(&path).unwrap();
        let error = ServerLock::take(&path).unwrap_err().to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        assert_eq!(
            ServerLock::holder(&start, &path)
                .unwrap()
                .map(|owner| owner.pid),
            Some(std::process::id())
        );
        drop(first);
        assert_eq!(ServerLock::holder(&start, &path).unwrap(), None);
    }

    #[test]
    fn whoever_finds_a_standalone_bezel_is_told_to_leave_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.lock");
        let start = StartLock::take(&directory.path().join("start.lock")).unwrap();
        let _standalone = ServerLock::take_standalone(&start, &path).unwrap();
        let error = ServerLock::take(&path).unwrap_err().to_string();
        assert!(
            error.contains("standalone") && error.contains("leave it"),
            "{error}"
        );
        let holder = ServerLock::holder(&start, &path).unwrap();
        assert!(holder.is_some_and(|owner| owner.standalone));
    }

    #[test]
    fn a_home_that_cannot_be_written_is_named_with_what_to_do() {
        let file = Path::new("/home/bezel/run/start.lock");
        for kind in [
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::PermissionDenied,
        ] {
            let told = not_opened(file, kind.into()).to_string();
            assert!(
                told.starts_with("/home/bezel/run cannot be written"),
                "{told}"
            );
            assert!(told.contains("set BEZEL_HOME to the copy"), "{told}");
        }
        let told = not_opened(file, io::ErrorKind::NotFound.into()).to_string();
        assert!(told.starts_with("cannot lock"), "{told}");
    }

    #[test]
    fn what_a_dead_server_left_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.lock");
        std::fs::write(
            &path,
            r#"{"pid":1,"version":"0.0.0","started_at":"2020-01-01T00:00:00Z"}"#,
        )
        .unwrap();
        let start = StartLock::take(&directory.path().join("start.lock")).unwrap();
        assert_eq!(ServerLock::holder(&start, &path).unwrap(), None);
        assert!(ServerLock::take(&path).is_ok());
    }
}
