//! Starts the server for a client that found none.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bezel_session_types::SESSION_VARIABLE;
use serde::{Deserialize, Serialize};

use super::lock::{LockError, Owner, ServerLock, StartLock, open_elsewhere};
use crate::logging;
use crate::paths::{Paths, PathsError};

/// How long a server may take until it listens.
const DEADLINE: Duration = Duration::from_secs(20);

/// How often it is looked whether a server that took no connections takes them.
const LOOK: Duration = Duration::from_millis(200);

/// How often a server that is killed while it starts is started again.
const MOST_DEATHS: u32 = 3;

/// The running binary itself: an upgrade on disk changes nothing for what it starts.
#[cfg(target_os = "linux")]
const ITSELF: &str = "/proc/self/exe";

/// What a server writes to its standard output, once: that it listens, or why it ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Announcement {
    /// It listens.
    Ready,
    /// It does not, and why.
    Refused(String),
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No place for its files.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// No lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It could not be started at all.
    #[error("cannot start the server: {0}")]
    Spawn(#[source] io::Error),
    /// Its log cannot be written.
    #[error("cannot write the server's log {}: {error}", file.display())]
    Log {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It said why it does not serve.
    #[error("the server did not start: {0}")]
    Refused(String),
    /// It ended without a word.
    #[error("the server ended while it started{}; its log is {}", quoted(.tail), log.display())]
    Ended {
        /// The log's last lines.
        tail: String,
        /// The log.
        log: PathBuf,
    },
    /// One lives and takes no connections.
    #[error(
        "a server, process {pid}, takes no connections and does not end: `bezel server stop` ends it"
    )]
    Silent {
        /// Which process.
        pid: u32,
    },
    /// A standalone Bezel has the sessions.
    #[error("{}", open_elsewhere(.0.pid))]
    Standalone(Owner),
    /// It takes too long.
    #[error(
        "the server does not listen after {} seconds; its log is {}, `bezel server stop` ends it",
        DEADLINE.as_secs(),
        log.display()
    )]
    Deadline {
        /// The log.
        log: PathBuf,
    },
}

fn quoted(tail: &str) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!(":\n{tail}\n")
    }
}

/// Returns once a server listens; starts one where none does. Two clients at once start one server. Blocks.
pub fn ensure_running(paths: &Paths) -> Result<(), StartError> {
    let socket = paths.socket()?;
    paths.create_run()?;
    let turn = StartLock::take(&paths.start_lock())?;
    // Whoever had the turn before may have started it.
    if UnixStream::connect(&socket).is_ok() {
        return Ok(());
    }
    // One that ends has closed its socket already; its successor waits for the rest.
    match ServerLock::holder(&turn, &paths.server_lock())? {
        Some(owner) if owner.standalone => return Err(StartError::Standalone(owner)),
        Some(owner) => {
            let ended = released(paths, &owner, &socket)?;
            if !ended {
                return Ok(());
            }
        }
        None => {}
    }
    let mut deaths = 0;
    loop {
        match start(paths) {
            // Killed, not refused: it had nothing to say.
            Err(StartError::Ended { tail, .. }) if tail.is_empty() && deaths < MOST_DEATHS => {
                deaths += 1;
            }
            started => return started,
        }
    }
}

fn start(paths: &Paths) -> Result<(), StartError> {
    let log = paths.server_log();
    let wrong = |error| StartError::Log {
        file: log.clone(),
        error,
    };
    let file = logging::open(&log).map_err(wrong)?;
    let begin = file.metadata().map_err(wrong)?.len();
    match announcement(spawn(file)?) {
        Some(Some(Announcement::Ready)) => Ok(()),
        Some(Some(Announcement::Refused(reason))) => Err(StartError::Refused(reason)),
        Some(None) => Err(StartError::Ended {
            tail: logging::tail(&log, begin, 10),
            log,
        }),
        None => Err(StartError::Deadline { log }),
    }
}

/// Waits until a server that takes no connections has ended; false where it takes them after all.
fn released(paths: &Paths, owner: &Owner, socket: &Path) -> Result<bool, StartError> {
    let (sender, receiver) = mpsc::channel();
    let lock = paths.server_lock();
    std::thread::spawn(move || {
        // The receiver is gone only after its deadline.
        sender.send(ServerLock::wait_released(&lock)).ok();
    });
    let deadline = Instant::now() + DEADLINE;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(released) => {
                released?;
                return Ok(true);
            }
            Err(_) if UnixStream::connect(socket).is_ok() => return Ok(false),
            Err(_) if Instant::now() < deadline => {}
            Err(_) => return Err(StartError::Silent { pid: owner.pid }),
        }
    }
}

fn spawn(log: File) -> Result<Child, StartError> {
    let mut command = Command::new(itself().map_err(StartError::Spawn)?);
    command
        .arg0("bezel-server")
        .args(["server", "run", "--announce"])
        .current_dir("/")
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_for_the_server)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    command.spawn().map_err(StartError::Spawn)
}

/// The binary to start further processes from.
pub fn itself() -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    return Ok(PathBuf::from(ITSELF));
    #[cfg(not(target_os = "linux"))]
    std::env::current_exe()
}

/// A server needs to know where its files are and where its spans go; a shell's other variables, keys above all,
/// are not its business.
fn is_for_the_server(name: &str) -> bool {
    let whole = [
        "HOME",
        "PATH",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TMPDIR",
        "RUST_BACKTRACE",
    ];
    // A server that a session's command starts is not a process of that session.
    if name == SESSION_VARIABLE {
        return false;
    }
    whole.contains(&name)
        || ["LC_", "XDG_", "BEZEL_", "OTEL_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// What the server announces, or that it ended without a word; none when it takes too long.
///
/// A thread stays with the child to the end, for this process may live long and has to reap it.
fn announcement(mut child: Child) -> Option<Option<Announcement>> {
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    let watch = move || {
        let mut line = String::new();
        let read = output.map(|output| BufReader::new(output).read_line(&mut line));
        let announced = read
            .and_then(Result::ok)
            .and_then(|_| serde_json::from_str(&line).ok());
        let serves = matches!(announced, Some(Announcement::Ready));
        if serves {
            // The receiver is gone only after its deadline.
            sender.send(announced).ok();
            child.wait().ok();
        } else {
            child.wait().ok();
            sender.send(announced).ok();
        }
    };
    let started = std::thread::Builder::new()
        .name("server-reaper".into())
        .stack_size(64 * 1024)
        .spawn(watch);
    started.ok()?;
    receiver.recv_timeout(DEADLINE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_shell_do_not_reach_the_server() {
        assert!(
            is_for_the_server("XDG_RUNTIME_DIR")
                && is_for_the_server("BEZEL_HOME")
                && is_for_the_server("PATH")
                && is_for_the_server("OTEL_EXPORTER_OTLP_ENDPOINT")
        );
        assert!(
            !is_for_the_server("ANTHROPIC_API_KEY") && !is_for_the_server("AWS_SECRET_ACCESS_KEY")
        );
        assert!(!is_for_the_server(SESSION_VARIABLE));
    }
}
