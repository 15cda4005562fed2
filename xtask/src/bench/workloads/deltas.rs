//! A long streamed answer through worker, server and presentation.

use anyhow::Result;
use serde_json::{Value, json};

use super::Turn;
use crate::bench::app_server::AppServer;
use crate::bench::model::{Instance, ModelServer, short_answer};
use crate::bench::report::{Figure, Reference, Target};
use crate::bench::stats::{Subject, interleave, median};
use crate::bench::{Bench, floors, processes};

const DELTAS: usize = 20_000;

fn flood() -> Value {
    json!({ "repeat": { "flood": { "deltas": DELTAS, "text": "word " } } })
}

/// One turn of a session whose server and worker run already.
fn turn(instance: &Instance) -> Result<Turn> {
    let running = instance.processes()?;
    let before = processes::processor_seconds_of(&running);
    let cost = instance
        .measured_run(&instance.project())?
        .args(["--continue", "go"])
        .run()?;
    Ok(Turn {
        wall: cost.wall,
        processor: cost.processor + processes::processor_seconds_of(&running) - before,
    })
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let short_model = ModelServer::start(bench, &short_answer())?;
    let long_model = ModelServer::start(bench, &flood())?;
    let short = Instance::new(bench, short_model.port)?;
    let long = Instance::new(bench, long_model.port)?;
    short.run(&short.project(), &["go"])?;
    long.run(&long.project(), &["go"])?;
    let settled = processes::memory(&long.processes()?)?.pss;
    let bare = |port: u16| -> Result<Turn> {
        let (wall, _) = floors::stream(port)?;
        Ok(Turn {
            wall,
            processor: 0.0,
        })
    };
    let (short_port, long_port) = (short_model.port, long_model.port);
    let mut subjects: Vec<Subject<'_, Turn>> = vec![
        Box::new(|| turn(&short)),
        Box::new(|| turn(&long)),
        Box::new(move || bare(long_port)),
    ];
    if let Some(codex) = bench.peers.named("codex") {
        for port in [short_port, long_port] {
            let mut host = AppServer::start(codex, port)?;
            host.turn()?;
            subjects.push(Box::new(move || host.turn()));
        }
    }
    let samples = interleave(bench.rounds, subjects)?;
    let middle = |side: usize, part: fn(&Turn) -> f64| -> f64 {
        let turns = samples.get(side).map_or(&[][..], Vec::as_slice);
        median(&turns.iter().map(part).collect::<Vec<f64>>())
    };
    let wall = |turn: &Turn| turn.wall;
    let processor = |turn: &Turn| turn.processor;
    let grown = processes::memory(&long.processes()?)?.pss;
    // What the answer itself costs: a turn with it less a turn with a short one.
    let rival = |part| {
        let added = middle(4, part) - middle(3, part);
        (samples.len() > 4).then(|| Reference::new("codex app-server", added * 1e3))
    };
    Ok(vec![
        Figure::new(
            "wall time of the answer",
            "ms",
            (middle(1, wall) - middle(0, wall)) * 1e3,
            Some(Reference::new("the bare read", middle(2, wall) * 1e3)),
            Target::AtMostTimes(2.0),
        ),
        Figure::new(
            "processor time of the answer, all processes",
            "ms",
            (middle(1, processor) - middle(0, processor)) * 1e3,
            rival(processor),
            Target::AtMostTimes(0.06),
        ),
        Figure::new(
            "wall time against a rival's",
            "ms",
            (middle(1, wall) - middle(0, wall)) * 1e3,
            rival(wall),
            Target::Shown,
        ),
        Figure::new(
            "growth over the rounds",
            "MiB",
            grown.saturating_sub(settled) as f64 / 1024.0,
            None,
            Target::AtMost(8.0),
        ),
    ])
}
