//! Attaching to a target with 50 cells while a writer changes them.

use anyhow::{Context as _, Result};

use super::{Run, Side, calls, column};
use crate::ours::CELLS;
use crate::process::Process;
use crate::report::{Report, Target};

/// Fresh clients a round.
const TIMES: usize = 20;
/// What each way takes longer where round trips are counted, in milliseconds.
const DELAY: f64 = 20.0;

pub fn run(run: &Run) -> Result<Report> {
    let mut report = Report::new(Vec::new());
    let (socket, delayed) = (run.socket("ours")?, run.socket("delayed")?);
    let mut ours = Side::new(vec![
        Process::play("server", [&socket])?,
        Process::play("worker", [&socket, "one"])?,
        Process::play("worker", [&socket, "two"])?,
        Process::play("delay", [&delayed, &socket, &DELAY.to_string()])?,
        Process::play("attacher", [&socket])?,
    ]);
    let mut raw = calls::blocking(run)?;
    let mut found = Vec::new();
    for round in 0..=run.rounds {
        ours.ask("churn on")?;
        let mut answer = ours.ask(&format!("attach {TIMES}"))?;
        let slow = ours.ask(&format!("over {delayed}"))?;
        ours.ask("churn off")?;
        let figure = |name: &str| answer.get(name).copied().context("a figure");
        let taken = slow.get("attach").copied().context("a figure")? - figure("attach")?;
        let bytes = figure("bytes")?;
        answer.insert("trips".into(), taken / (2e3 * DELAY));
        let mut copies = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            copies.extend(raw.ask(&format!("copy {bytes}"))?.into_values());
        }
        answer.insert("copy".into(), crate::samples::quantile(&mut copies, 0.5));
        if round > 0 {
            found.push(answer);
        }
    }
    let of = |name: &str| column(&found, name);
    report.against(
        format!("attach, {CELLS} cells of 4 KiB, a writer at 10,000/s"),
        "µs",
        of("attach"),
        ("one echo and a copy of the bytes", of("copy")),
        Target::AtMostTimes(1.6),
    );
    report.against(
        "the same, until each cell was read",
        "µs",
        of("read"),
        ("one echo and a copy of the bytes", of("copy")),
        Target::Shown,
    );
    report.alone("its round trips", "", of("trips"), Target::AtMost(2.1));
    report.alone("its bytes", "B", of("bytes"), Target::Shown);
    report.against(
        "switch to another target",
        "µs",
        of("switch"),
        ("the first attach", of("attach")),
        Target::AtMostTimes(1.2),
    );
    Ok(report)
}
