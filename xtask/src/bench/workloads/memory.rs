//! What an open session holds, and what it does while nobody asks anything of it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::terminal::open_and_prompt;
use crate::bench::model::{Instance, ModelServer, short_answer};
use crate::bench::report::{Figure, Target};
use crate::bench::{Bench, processes};

const MIB: f64 = 1024.0;

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    const FURTHER: usize = 3;
    let model = ModelServer::start(bench, &short_answer())?;
    let instance = Instance::new(bench, model.port)?;
    let mut pty = open_and_prompt(&instance, "answer.")?;
    pty.drain(Duration::from_secs(1))?;
    let running = instance.processes()?;
    ensure!(
        running.len() == 3,
        "{} processes instead of three",
        running.len()
    );
    let together = processes::memory(&running)?.pss;
    let first = instance.workers()?;
    for _ in 0..FURTHER {
        instance.run(&instance.project(), &["go"])?;
    }
    let mut further = instance.workers()?;
    further.retain(|pid| !first.contains(pid));
    ensure!(
        further.len() == FURTHER,
        "{} further workers instead of {FURTHER}",
        further.len()
    );
    let private = processes::memory(&further)?.private as f64 / FURTHER as f64;
    Ok(vec![
        Figure::new(
            "server, interface and one worker, proportional",
            "MiB",
            together as f64 / MIB,
            None,
            Target::AtMost(20.0),
        ),
        Figure::new(
            "each further idle worker, private",
            "MiB",
            private / MIB,
            None,
            Target::AtMost(3.0),
        ),
    ])
}

pub(super) fn idle(bench: &Bench) -> Result<Vec<Figure>> {
    let watched = Duration::from_secs(20);
    let model = ModelServer::start(bench, &short_answer())?;
    let instance = Instance::new(bench, model.port)?;
    let mut pty = open_and_prompt(&instance, "answer.")?;
    // What a turn leaves to do is done by then.
    pty.drain(Duration::from_secs(10))?;
    let interface = pty.process();
    let running = instance.processes()?;
    let others: Vec<_> = running
        .iter()
        .copied()
        .filter(|pid| *pid != interface)
        .collect();
    let before = (
        processes::wakeups(&[interface])?,
        processes::wakeups(&others)?,
    );
    pty.drain(watched)?;
    let after = (
        processes::wakeups(&[interface])?,
        processes::wakeups(&others)?,
    );
    let grown = |before: u64, after: u64| -> Result<f64> {
        let count = after
            .checked_sub(before)
            .context("a thread ended while it was watched")?;
        Ok(count as f64)
    };
    let name = format!("wake-ups in {} s", watched.as_secs());
    Ok(vec![
        Figure::new(
            format!("{name}, interface"),
            "",
            grown(before.0, after.0)?,
            None,
            Target::AtMost(0.0),
        ),
        Figure::new(
            format!("{name}, server and worker"),
            "",
            grown(before.1, after.1)?,
            None,
            Target::AtMost(0.0),
        ),
    ])
}
