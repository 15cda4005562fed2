//! Looks at the server from outside, ends it, reads its log.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::leftovers;
use super::lock::{LockError, Owner, ServerLock, StartLock, open_elsewhere};
use super::serve::server_paths;
use crate::paths::{Paths, PathsError};

/// How long a server may take to end; its workers and clients are told first.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// Whether a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// One runs and takes connections.
    Running(Owner),
    /// One holds the lock and takes no connections: it starts, ends or hangs.
    Silent(Owner),
    /// A standalone Bezel has the sessions.
    Standalone(Owner),
    /// None runs.
    Stopped,
}

/// Why the server could not be looked at or ended.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No place for its files.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// No lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The signal was refused.
    #[error("cannot end the server, process {pid}: {error}")]
    Signal {
        /// Which process.
        pid: u32,
        /// Why.
        error: io::Error,
    },
    /// Its process is not known.
    #[error("a server holds {} but does not say which process it is; end it by hand", lock.display())]
    Nameless {
        /// The lock file.
        lock: PathBuf,
    },
    /// It is no server, and a person sits before it.
    #[error("{}", open_elsewhere(.0.pid))]
    Standalone(Owner),
    /// It did not end in time.
    #[error(
        "the server, process {pid}, does not end; sessions are safe on disk: `kill -9 {pid}` ends it"
    )]
    Stuck {
        /// Which process.
        pid: u32,
    },
    /// A log cannot be read.
    #[error("cannot read the log {}: {error}", file.display())]
    Log {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// No log of that session.
    #[error("there is no log of a session {0}; `bezel session list` shows what there is")]
    UnknownSession(String),
}

/// Whether a server runs.
pub fn status(paths: &Paths) -> Result<Status, ControlError> {
    let socket = paths.socket()?;
    if !paths.run.exists() {
        return Ok(Status::Stopped);
    }
    let turn = StartLock::take(&paths.start_lock())?;
    let Some(owner) = ServerLock::holder(&turn, &paths.server_lock())? else {
        return Ok(Status::Stopped);
    };
    if owner.standalone {
        return Ok(Status::Standalone(owner));
    }
    match UnixStream::connect(&socket) {
        Ok(_) => Ok(Status::Running(owner)),
        Err(_) => Ok(Status::Silent(owner)),
    }
}

/// Ends the server and returns who it was; none when none ran. Nobody can start another meanwhile.
pub fn stop(paths: &Paths) -> Result<Option<Owner>, ControlError> {
    if !paths.run.exists() {
        return Ok(None);
    }
    let turn = StartLock::take(&paths.start_lock())?;
    let lock = paths.server_lock();
    // Whoever holds this lock wrote the process id into it, and the kernel releases it with that process.
    let Some(owner) = ServerLock::holder(&turn, &lock)? else {
        return Ok(None);
    };
    if owner.standalone {
        return Err(ControlError::Standalone(owner));
    }
    let pid = i32::try_from(owner.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return Err(ControlError::Nameless { lock });
    };
    rustix::process::kill_process(pid, Signal::TERM).map_err(|error| ControlError::Signal {
        pid: owner.pid,
        error: error.into(),
    })?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is gone only after its deadline.
        sender.send(ServerLock::wait_released(&lock)).ok();
    });
    match receiver.recv_timeout(STOP_DEADLINE) {
        Ok(released) => released?,
        Err(_) => return Err(ControlError::Stuck { pid: owner.pid }),
    }
    Ok(Some(owner))
}

/// Ends the workers that a server has left which died, and says how many there were. For when none runs.
pub fn stop_left_workers(paths: &Paths) -> Result<usize, ControlError> {
    if !paths.run.exists() {
        return Ok(0);
    }
    // Nobody can start a server meanwhile, which would take them over.
    let turn = StartLock::take(&paths.start_lock())?;
    if ServerLock::holder(&turn, &paths.server_lock())?.is_some() {
        return Ok(0);
    }
    let sessions = server_paths(paths).sessions;
    // As the kernel tells the names of open files.
    Ok(leftovers::end_workers(
        &sessions.canonicalize().unwrap_or(sessions),
    ))
}

/// The log of the server, or of the session whose id begins or ends so.
pub fn log_file(paths: &Paths, session: Option<&str>) -> Result<PathBuf, ControlError> {
    match session {
        None => Ok(paths.server_log()),
        Some(prefix) => session_log(paths, prefix),
    }
}

/// The last `lines` lines of a log; nothing where there is no such file yet.
pub fn logs(file: &Path, lines: usize) -> Result<Vec<u8>, ControlError> {
    match last_lines(file, lines) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            let file = file.to_owned();
            Err(ControlError::Log { file, error })
        }
    }
}

fn session_log(paths: &Paths, prefix: &str) -> Result<PathBuf, ControlError> {
    let unknown = || ControlError::UnknownSession(prefix.to_owned());
    let exact = paths.session_log(prefix);
    let directory = exact.parent().ok_or_else(unknown)?;
    let entries = std::fs::read_dir(directory).map_err(|_| unknown())?;
    let named = |path: &Path| {
        path.file_stem()
            .map(|name| name.to_string_lossy())
            .is_some_and(|name| name.starts_with(prefix) || name.ends_with(prefix))
    };
    let mut found = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log") && named(path));
    match (found.next(), found.next()) {
        (Some(path), None) if !prefix.is_empty() => Ok(path),
        _ => Err(unknown()),
    }
}

fn last_lines(file: &Path, lines: usize) -> io::Result<Vec<u8>> {
    const CHUNK: u64 = 64 * 1024;
    let mut file = File::open(file)?;
    let mut begin = file.metadata()?.len();
    let mut text = Vec::new();
    while begin > 0 && text.iter().filter(|byte| **byte == b'\n').count() <= lines {
        let end = begin;
        begin = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(begin))?;
        let mut chunk = vec![0; usize::try_from(end - begin).unwrap_or_default()];
        file.read_exact(&mut chunk)?;
        chunk.append(&mut text);
        text = chunk;
    }
    let body = text.strip_suffix(b"\n").unwrap_or(&text);
    let newlines = body
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    let start = match lines {
        0 => text.len(),
        lines => newlines
            .skip(lines - 1)
            .map(|(at, _)| at + 1)
            .next()
            .unwrap_or(0),
    };
    Ok(text.split_off(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_read_from_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.log");
        let text: String = (0..20_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        std::fs::write(&file, &text).unwrap();
        assert_eq!(last_lines(&file, 2).unwrap(), b"line 19998\nline 19999\n");
        assert_eq!(last_lines(&file, 30_000).unwrap(), text.as_bytes());
        assert_eq!(last_lines(&file, 0).unwrap(), b"");
        std::fs::write(&file, "a\nb").unwrap();
        assert_eq!(last_lines(&file, 1).unwrap(), b"b");
    }

    #[test]
    fn where_nothing_ran_nothing_is_stopped() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path().to_owned());
        assert_eq!(status(&paths).unwrap(), Status::Stopped);
        assert_eq!(stop(&paths).unwrap(), None);
        let log = log_file(&paths, None).unwrap();
        assert!(logs(&log, 5).unwrap().is_empty());
        assert!(matches!(
            log_file(&paths, Some("x")),
            Err(ControlError::UnknownSession(_))
        ));
    }
}
