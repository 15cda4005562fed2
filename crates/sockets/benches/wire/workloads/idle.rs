//! What clients cost that do nothing.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Run;
use crate::process::Process;
use crate::report::{Report, Target};

const CLIENTS: usize = 1_000;
const WATCHED: Duration = Duration::from_secs(5);

/// Memory of a process, in KiB.
struct Memory {
    proportional: f64,
    /// What it made itself, mapped files apart.
    anonymous: f64,
}

fn memory(process: u32) -> Result<Memory> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let field = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("{path} has no {name}"))
    };
    Ok(Memory {
        proportional: field("Pss:")?,
        anonymous: field("Anonymous:")?,
    })
}

/// Milliseconds that the threads of a process have run.
fn processor(process: u32) -> Result<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let nanoseconds: f64 = text.split(' ').next().context("a first number")?.parse()?;
        sum += nanoseconds / 1e6;
    }
    Ok(sum)
}

/// 1,000 clients, connected, attached and subscribed. Each round has a server of its own.
pub fn run(run: &Run) -> Result<Report> {
    let mut report = Report::new(Vec::new());
    let (mut proportional, mut anonymous, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..run.rounds {
        let socket = run.socket(&format!("ours-{round}"))?;
        let server = Process::play("server", [&socket])?;
        let _worker = Process::play("worker", [&socket, "one"])?;
        let before = memory(server.id())?;
        let _clients = Process::play("replicas", [&socket, &CLIENTS.to_string()])?;
        let after = memory(server.id())?;
        let each = |before: f64, after: f64| (after - before) / CLIENTS as f64;
        proportional.push(each(before.proportional, after.proportional));
        anonymous.push(each(before.anonymous, after.anonymous));
        let begun = processor(server.id())?;
        std::thread::sleep(WATCHED);
        busy.push(processor(server.id())? - begun);
    }
    let limit = Target::AtMost(25.0);
    report.alone(
        "each of 1,000 idle clients, server's own memory",
        "KiB",
        anonymous,
        limit,
    );
    report.alone("the same, proportional", "KiB", proportional, Target::Shown);
    let name = format!("the server's processor time in {} s", WATCHED.as_secs());
    report.alone(name, "ms", busy, Target::AtMost(1.0));
    Ok(report)
}
