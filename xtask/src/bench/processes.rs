//! What the kernel knows of running processes: who descends from whom, processor time, memory,
//! wake-ups. Linux only, as `bench` is.

use std::path::Path;

use anyhow::{Context as _, Result};
use nix::time::ClockId;
use nix::unistd::Pid;

/// Memory of one or more processes, in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Proportional: what is shared counts in parts.
    pub(super) pss: u64,
    /// What ends with the process.
    pub(super) private: u64,
}

/// Every living process with its parent.
fn all() -> Result<Vec<(i32, i32)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("list /proc")? {
        let name = entry.context("list /proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // The name, in parentheses, may hold anything; the state and the parent follow it.
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1))
            .and_then(|parent| parent.parse().ok());
        if let Some(parent) = parent {
            found.push((pid, parent));
        }
    }
    Ok(found)
}

/// All living descendants of a process, itself apart.
pub(super) fn descendants(root: Pid) -> Result<Vec<Pid>> {
    let all = all()?;
    let mut found = vec![root.as_raw()];
    let mut index = 0;
    while let Some(parent) = found.get(index).copied() {
        found.extend(
            all.iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        index += 1;
    }
    Ok(found.into_iter().skip(1).map(Pid::from_raw).collect())
}

/// Living processes whose environment sets `name` to `value`: what one instance of the product
/// consists of, whoever started it.
pub(super) fn with_environment(name: &str, value: &Path) -> Result<Vec<Pid>> {
    let entry = format!("{name}={}", value.display());
    let carries = |pid: i32| {
        std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| {
            bytes
                .split(|byte| *byte == 0)
                .any(|found| found == entry.as_bytes())
        })
    };
    Ok(all()?
        .into_iter()
        .filter(|(pid, _)| carries(*pid))
        .map(|(pid, _)| Pid::from_raw(pid))
        .collect())
}

/// The command line of a process, its arguments joined by blanks.
pub(super) fn command_line(pid: Pid) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .replace('\0', " ")
        .trim()
        .to_owned()
}

/// Processor seconds that a living process has used, all its threads, ended ones too.
pub(super) fn processor_seconds(pid: Pid) -> Result<f64> {
    let time = ClockId::pid_cpu_clock_id(pid)
        .and_then(ClockId::now)
        .with_context(|| format!("read the processor clock of process {pid}"))?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Processor seconds of several processes together; one that has ended meanwhile counts nothing.
pub(super) fn processor_seconds_of(pids: &[Pid]) -> f64 {
    pids.iter()
        .filter_map(|pid| processor_seconds(*pid).ok())
        .sum()
}

/// Memory of several processes together.
pub(super) fn memory(pids: &[Pid]) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let rollup = parse_rollup(&text);
        sum.pss += rollup.pss;
        sum.private += rollup.private;
    }
    Ok(sum)
}

fn parse_rollup(text: &str) -> Memory {
    let field = |name: &str| -> u64 {
        text.lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .sum()
    };
    Memory {
        pss: field("Pss"),
        private: field("Private_Clean") + field("Private_Dirty"),
    }
}

/// How often threads of these processes have gone to sleep by themselves: each is a wake-up later.
pub(super) fn wakeups(pids: &[Pid]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        let folder = format!("/proc/{pid}/task");
        for task in std::fs::read_dir(&folder).with_context(|| format!("list {folder}"))? {
            let path = task.with_context(|| format!("list {folder}"))?.path();
            // A thread may end while it is looked at.
            let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            sum += text
                .lines()
                .filter_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
                .filter_map(|count| count.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
