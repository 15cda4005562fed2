//! Tool calls one after another in one turn: what the agent itself adds to each.

use anyhow::{Result, ensure};

use crate::bench::Bench;
use crate::bench::floors::{self, Echo};
use crate::bench::model::{Instance, ModelServer, Tap, commands};
use crate::bench::report::{Figure, Reference, Target};
use crate::bench::stats::{Subject, interleave, median, quantile};

const CALLS: usize = 20;

/// One round of one side.
#[derive(Default)]
struct Round {
    /// Milliseconds between an answer and the next request.
    gaps: Vec<f64>,
    /// Milliseconds of the bare steps.
    spawn: Vec<f64>,
    request: Vec<f64>,
    sync: Vec<f64>,
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    // Each command differs, as a model's would.
    let lines: Vec<String> = (0..CALLS).map(|call| format!("true {call}")).collect();
    let script = commands(lines.iter().map(String::as_str));
    let ours = || -> Result<Round> {
        let model = ModelServer::start(bench, &script)?;
        let tap = Tap::start(model.port)?;
        let instance = Instance::new(bench, tap.port)?;
        instance.run(&instance.project(), &["go"])?;
        let gaps = tap.gaps();
        ensure!(
            gaps.len() >= CALLS,
            "{} gaps for {CALLS} tool calls",
            gaps.len()
        );
        Ok(Round {
            gaps,
            ..Round::default()
        })
    };
    let mut echo = Echo::start()?;
    let floor = move || -> Result<Round> {
        let folder = crate::bench::scratch()?;
        let mut round = Round::default();
        for _ in 0..CALLS {
            round.spawn.push(floors::spawn()?);
            round.request.push(echo.request()?);
            round.sync.push(floors::sync(folder.path())?);
        }
        Ok(round)
    };
    let subjects: Vec<Subject<'_, Round>> = vec![Box::new(ours), Box::new(floor)];
    let samples = interleave(bench.rounds, subjects)?;
    let all = |part: fn(&Round) -> &Vec<f64>| -> Vec<f64> {
        samples.iter().flatten().flat_map(part).copied().collect()
    };
    let gaps = all(|round| &round.gaps);
    let spawn = median(&all(|round| &round.spawn));
    let request = median(&all(|round| &round.request));
    let sync = median(&all(|round| &round.sync));
    Ok(vec![
        Figure::new(
            "median gap, one synced commit apart",
            "ms",
            (median(&gaps) - sync).max(0.0),
            Some(Reference::new(
                "`sh -c true` and a bare request",
                spawn + request,
            )),
            Target::AtMostTimes(1.8),
        ),
        Figure::new(
            "median gap as measured",
            "ms",
            median(&gaps),
            None,
            Target::Shown,
        ),
        Figure::new(
            "90 of 100 gaps within",
            "ms",
            quantile(&gaps, 0.9),
            None,
            Target::Shown,
        ),
        Figure::new("one synced commit", "ms", sync, None, Target::Shown),
    ])
}
