//! State to many: a flood of updates, one small change of a large value.

use anyhow::{Context as _, Result};

use super::{Run, Side, column};
use crate::process::Process;
use crate::report::{Report, Target};
use crate::samples::Answer;

/// Replicas that read.
const READERS: usize = 7;
const UPDATES: usize = 10_000;
/// A page in its JSON form.
const PAGE: usize = 4 * 1024;
/// The new title of an entry.
const TITLE: usize = 200;
/// What a description of that change has at least: where, and what.
const CHANGE: usize = TITLE + r#"["entries",2000,"title"]"#.len();
const CLIENTS: usize = 100;

/// 10,000 updates of a page that 8 follow, one of them without reading.
pub fn fanout(run: &Run) -> Result<Report> {
    let mut report = Report::new(Vec::new());
    let socket = run.socket("ours")?;
    let mut ours = Side::new(vec![
        Process::play("counting-server", [&socket])?,
        Process::play("worker", [&socket, "one"])?,
        Process::play("replicas", [&socket, &READERS.to_string()])?,
    ]);
    let mut stalled = Process::play("replicas", [&socket, "1"])?;
    let socket = run.socket("broadcast")?;
    let readers = READERS.to_string();
    let mut raw = Side::new(vec![
        Process::play("broadcast-router", [&socket, &readers])?,
        Process::play("broadcast-worker", [&socket])?,
        Process::play("broadcast-readers", [&socket, &readers])?,
    ]);
    let mut found = Vec::new();
    for round in 0..=run.rounds {
        stalled.ask("stall")?;
        let mut answer = ours.ask(&format!("write {UPDATES}"))?;
        answer.extend(stalled.ask("held")?);
        answer.extend(ours.ask("rewrite 1000")?);
        let frames = answer
            .get("frames")
            .copied()
            .unwrap_or_default()
            .ceil()
            .max(1.0);
        let size = (answer.get("bytes").copied().unwrap_or_default() / frames).ceil();
        let bare = |answer: Answer| answer.get("everywhere").copied().context("a figure");
        answer.insert("sent".into(), bare(raw.ask(&format!("{frames} {size}"))?)?);
        answer.insert("all".into(), bare(raw.ask(&format!("{UPDATES} {PAGE}"))?)?);
        if round > 0 {
            found.push(answer);
        }
    }
    let of = |name: &str| column(&found, name);
    report.against(
        "10,000 updates of 4 KiB, last one everywhere",
        "µs",
        of("everywhere"),
        ("a bare broadcast of the values", of("all")),
        Target::AtMostTimes(1.5),
    );
    report.against(
        "10,000 updates of 4 KiB, last one everywhere",
        "µs",
        of("everywhere"),
        ("a bare broadcast of what was sent", of("sent")),
        Target::Shown,
    );
    report.alone(
        "of that, the owner's writing",
        "µs",
        of("written"),
        Target::Shown,
    );
    report.alone("sent to each replica", "B", of("bytes"), Target::Shown);
    report.alone(
        "sent for 1,000 unchanged values",
        "frames",
        of("unchanged"),
        Target::AtMost(0.0),
    );
    let limit = Target::AtMost(2.0 * PAGE as f64);
    report.alone(
        "held for the one that does not read",
        "B",
        of("held"),
        limit,
    );
    report.alone(
        "beside the kernel's buffer for it",
        "B",
        of("in kernel"),
        Target::Shown,
    );
    Ok(report)
}

/// A small change of a value of 1 MiB that 100 follow.
pub fn change(run: &Run) -> Result<Report> {
    let mut report = Report::new(Vec::new());
    let socket = run.socket("ours")?;
    let mut ours = Side::new(vec![
        Process::play("counting-server", [&socket])?,
        Process::play("worker", [&socket, "one"])?,
        Process::play("replicas", [&socket, &CLIENTS.to_string()])?,
    ]);
    let question = format!("rename {TITLE}");
    let answers: Result<Vec<Answer>> = (0..=run.rounds).map(|_| ours.ask(&question)).collect();
    let answers = answers?.split_off(1);
    let of = |name: &str| column(&answers, name);
    report.against(
        "one change of 1 MiB to 100 clients, to each",
        "B",
        of("bytes"),
        ("the change", vec![CHANGE as f64; answers.len()]),
        Target::AtMostTimes(2.0),
    );
    report.alone(
        "frames that the worker sent for it",
        "",
        of("encodings"),
        Target::AtMost(1.0),
    );
    report.alone(
        "until it is everywhere",
        "µs",
        of("everywhere"),
        Target::Shown,
    );
    Ok(report)
}
