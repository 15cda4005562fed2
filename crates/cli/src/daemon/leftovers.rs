//! Processes whose owner has died: commands of a dead worker, found by the mark in their environment, and
//! workers of a dead server, found by the session that they hold open.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use bezel_session_types::{SCRATCH_PREFIX, SESSION_VARIABLE, SessionId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::paths::Paths;

/// Kills every process that carries the session's mark and says how many there were. This process and those
/// above it stay.
pub fn end(session: &SessionId) -> usize {
    let mark = format!("{SESSION_VARIABLE}={session}");
    let spared = above();
    // Twice, for children that were being made during the first look.
    (0..2).map(|_| end_marked(mark.as_bytes(), &spared)).sum()
}

fn end_marked(mark: &[u8], spared: &HashSet<i32>) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|process| !spared.contains(process) && kill(*process, mark))
        .count()
}

/// Kills the process where it carries the mark. First the handle, then the look: what the handle names cannot
/// change any more.
fn kill(process: i32, mark: &[u8]) -> bool {
    let environment =
        || std::fs::read(Path::new("/proc").join(process.to_string()).join("environ"));
    let marked = || {
        environment().is_ok_and(|variables| {
            variables
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark)
        })
    };
    if !marked() {
        return false;
    }
    let handle = Pid::from_raw(process).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match handle {
        Some(Ok(handle)) if marked() => pidfd_send_signal(handle, Signal::KILL).is_ok(),
        _ => false,
    }
}

/// Removes the files that a deleted session has outside of its folder: the scratch directories of its commands
/// and its log. Tries all of them; the first that stays is the error.
pub fn remove_files(session: &SessionId, paths: &Paths) -> io::Result<()> {
    let prefix = format!("{SCRATCH_PREFIX}{session}-");
    let mut outcome = Ok(());
    let mut keep = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound && outcome.is_ok() => {
            outcome = Err(error);
        }
        _ => {}
    };
    for entry in std::fs::read_dir(std::env::temp_dir())?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            keep(std::fs::remove_dir_all(entry.path()));
        }
    }
    keep(std::fs::remove_file(paths.session_log(session.as_str())));
    outcome
}

/// How long a worker may take to settle what it must.
const WORKER_END: Duration = Duration::from_secs(10);

/// Asks the workers that have a file under `sessions` open to end, waits for that, and says how many there
/// were. For when no server runs that could.
pub fn end_workers(sessions: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let processes = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let workers: Vec<OwnedFd> = processes
        .filter_map(|process| {
            let handle = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
            is_worker(process, sessions).then_some(handle)
        })
        .collect();
    for worker in &workers {
        if let Err(error) = pidfd_send_signal(worker, Signal::TERM) {
            tracing::debug!(%error, "a worker has ended by itself");
        }
    }
    let deadline = Instant::now() + WORKER_END;
    for worker in &workers {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        // Readable once the process has ended.
        if let Err(error) = poll(&mut [PollFd::new(worker, PollFlags::IN)], left.as_ref()) {
            tracing::debug!(%error, "a worker could not be waited for");
        }
    }
    workers.len()
}

fn is_worker(process: i32, sessions: &Path) -> bool {
    let folder = Path::new("/proc").join(process.to_string());
    let named =
        std::fs::read(folder.join("cmdline")).is_ok_and(|line| line.starts_with(b"bezel-worker\0"));
    named
        && std::fs::read_dir(folder.join("fd")).is_ok_and(|open| {
            let mut files = open
                .flatten()
                .filter_map(|file| std::fs::read_link(file.path()).ok());
            files.any(|file| file.starts_with(sessions))
        })
}

/// This process and those that it comes from.
fn above() -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut process = i32::try_from(std::process::id()).ok();
    while let Some(id) = process.filter(|id| *id > 0 && found.insert(*id)) {
        process = parent(id);
    }
    found
}

fn parent(process: i32) -> Option<i32> {
    let stat = std::fs::read(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // The name is in parentheses and may hold anything; the parent is the second field after it.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    fields.split(' ').nth(1)?.parse().ok()
}
