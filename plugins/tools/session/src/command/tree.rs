//! All processes that a command has started, found and ended.
//!
//! A command's processes are those of its process group, the descendants of its leader, and whatever carries
//! the command's mark in its environment: a child that called `setsid` and whose parents are gone has
//! nothing else left of its origin.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use bezel_session_types::{InvocationId, SESSION_VARIABLE, SessionId};
use rustix::process::{Pid, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::Instant;

/// Environment variable that names the call.
pub(crate) const INVOCATION_VARIABLE: &str = "BEZEL_INVOCATION_ID";

/// Time between the polite signal and the other one.
const GRACE: Duration = Duration::from_millis(700);
/// Time that killed processes get to disappear.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Pause between two looks at the process list.
const LOOK_AGAIN: Duration = Duration::from_millis(8);

/// How to recognise the processes of one command.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    leader: i32,
    marks: Vec<Vec<u8>>,
}

/// A process as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// Clock ticks since boot: with the pid, unique.
    started: u64,
}

/// The environment entry that marks a process of `session`.
fn session_mark(session: &SessionId) -> Vec<u8> {
    format!("{SESSION_VARIABLE}={session}").into_bytes()
}

impl ProcessTree {
    /// The processes below `leader`, which leads its own process group and carries both variables.
    pub(crate) fn new(leader: i32, session: &SessionId, invocation: &InvocationId) -> Self {
        let invocation = format!("{INVOCATION_VARIABLE}={invocation}").into_bytes();
        ProcessTree {
            leader,
            marks: vec![session_mark(session), invocation],
        }
    }

    /// The process group, also after the leader has ended.
    pub(crate) fn group(&self) -> i32 {
        self.leader
    }

    /// Ends every process: asks first, then kills. `reaped` says whether the leader's exit status has been
    /// taken, after which its number may belong to somebody else. Returns the processes that could not be
    /// ended, normally none.
    pub(crate) async fn end(&self, reaped: bool) -> Vec<i32> {
        let mut asked = HashSet::new();
        let patience = Instant::now() + GRACE;
        let mut members = self.members(reaped);
        while !members.is_empty() && Instant::now() < patience {
            for process in &members {
                if asked.insert(*process) {
                    process.signal(Signal::TERM);
                    // A stopped process acts on the signal only when it goes on.
                    process.signal(Signal::CONT);
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            self.left_of(&mut members, reaped);
        }
        let patience = Instant::now() + LAST_WAIT;
        while !members.is_empty() && Instant::now() < patience {
            for process in &members {
                process.signal(Signal::KILL);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            self.left_of(&mut members, reaped);
        }
        members.into_iter().map(|process| process.pid).collect()
    }

    /// Leaves the members that still run. Only when none does, the whole process list is looked through again,
    /// for those that were started meanwhile: that costs more on a busy machine.
    fn left_of(&self, members: &mut Vec<Process>, reaped: bool) {
        members.retain(|process| {
            read_process(process.pid).is_some_and(|now| now.started == process.started)
        });
        if members.is_empty() {
            *members = self.members(reaped);
        }
    }

    /// Kills what can be found now, without waiting.
    pub(crate) fn kill_now(&self, reaped: bool) {
        // Twice, for children that were being made during the first look.
        for _ in 0..2 {
            for process in self.members(reaped) {
                process.signal(Signal::KILL);
            }
        }
    }

    /// Processes that run, zombies apart.
    fn members(&self, reaped: bool) -> Vec<Process> {
        let all = processes();
        let marked = |process: &Process| {
            marks_of(process.pid).is_some_and(|marks| self.marks.iter().all(|mark| marks.has(mark)))
        };
        let mut members: HashSet<i32> = all
            .iter()
            .filter(|process| marked(process))
            .map(|process| process.pid)
            .collect();
        // A group's number passes to nobody else while a member lives.
        let own_group = !reaped
            || all
                .iter()
                .any(|process| process.group == self.leader && members.contains(&process.pid));
        if own_group {
            members.extend(
                all.iter()
                    .filter(|process| process.group == self.leader)
                    .map(|process| process.pid),
            );
        }
        loop {
            let children: Vec<i32> = all
                .iter()
                .filter(|process| {
                    members.contains(&process.parent) && !members.contains(&process.pid)
                })
                .map(|process| process.pid)
                .collect();
            if children.is_empty() {
                break;
            }
            members.extend(children);
        }
        all.into_iter()
            .filter(|process| members.contains(&process.pid))
            .collect()
    }
}

/// Whether any process of a group is left.
pub(crate) fn group_lives(group: i32) -> bool {
    Pid::from_raw(group)
        .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

/// Ends the processes of these groups that still carry the session's mark: a group's number may have passed
/// to somebody else. Asks first and kills those that have not ended after a short while.
pub(crate) async fn end_groups(session: &SessionId, groups: &HashSet<i32>) {
    let patience = Instant::now() + GRACE;
    let mut asked = HashSet::new();
    loop {
        let left = in_groups(session, groups);
        if left.is_empty() {
            return;
        }
        if Instant::now() >= patience {
            break;
        }
        for process in left.into_iter().filter(|process| asked.insert(*process)) {
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    kill_groups(session, groups);
}

/// The same without asking or waiting.
pub(crate) fn kill_groups(session: &SessionId, groups: &HashSet<i32>) {
    for process in in_groups(session, groups) {
        process.signal(Signal::KILL);
    }
}

fn in_groups(session: &SessionId, groups: &HashSet<i32>) -> Vec<Process> {
    let mark = session_mark(session);
    let members = processes()
        .into_iter()
        .filter(|process| groups.contains(&process.group));
    members
        .filter(|process| marks_of(process.pid).is_some_and(|marks| marks.has(&mark)))
        .collect()
}

impl Process {
    /// Sends a signal to exactly this process, not to a later one with its number.
    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let sent = pidfd_open(pid, rustix::process::PidfdFlags::empty()).and_then(|process| {
            match read_process(self.pid) {
                Some(now) if now.started == self.started => pidfd_send_signal(process, signal),
                _ => Ok(()),
            }
        });
        if let Err(error) = sent
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(%error, pid = self.pid, ?signal, "a process could not be signalled");
        }
    }
}

/// A process's environment at its start.
struct Marks(Vec<u8>);

impl Marks {
    fn has(&self, mark: &[u8]) -> bool {
        self.0.split(|byte| *byte == 0).any(|entry| entry == mark)
    }
}

fn proc(pid: i32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

fn marks_of(pid: i32) -> Option<Marks> {
    // Other users' processes cannot be read and are none of ours.
    std::fs::read(proc(pid, "environ")).ok().map(Marks)
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| read_process(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// One process; `None` when it is gone or a zombie.
fn read_process(pid: i32) -> Option<Process> {
    let stat = std::fs::read(proc(pid, "stat")).ok()?;
    // The name is in parentheses and may hold anything; the fields after it are numbers, see proc(5).
    let after_name = stat.get(memchr::memrchr(b')', &stat)? + 2..)?;
    let fields: Vec<&str> = std::str::from_utf8(after_name).ok()?.split(' ').collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.trim_end().parse().ok()?,
    })
}
