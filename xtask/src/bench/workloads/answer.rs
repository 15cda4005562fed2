//! One text answer from nothing: server and worker are started for it.

use anyhow::Result;

use crate::bench::Bench;
use crate::bench::measure::Cost;
use crate::bench::model::{Instance, ModelServer, short_answer};
use crate::bench::report::{Figure, Reference, Target};
use crate::bench::stats::{Subject, interleave, median};

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let model = ModelServer::start(bench, &short_answer())?;
    let port = model.port;
    let mut subjects: Vec<Subject<'_, Cost>> = vec![Box::new(move || {
        let instance = Instance::new(bench, port)?;
        instance
            .measured_run(&instance.project())?
            .args(["go"])
            .run()
    })];
    for peer in bench.peers.all() {
        subjects.push(Box::new(move || peer.ask(port)));
    }
    let samples = interleave(bench.rounds, subjects)?;
    let middle = |costs: &[Cost], part: fn(&Cost) -> f64| -> f64 {
        median(&costs.iter().map(part).collect::<Vec<f64>>())
    };
    let (ours, theirs) = samples
        .split_first()
        .map_or((&[][..], &[][..]), |(ours, theirs)| {
            (ours.as_slice(), theirs)
        });
    // The fastest rival is judged by in both figures.
    let rival = bench
        .peers
        .all()
        .iter()
        .zip(theirs)
        .map(|(peer, costs)| {
            let wall = middle(costs, |cost| cost.wall);
            (wall, middle(costs, |cost| cost.processor), peer.name)
        })
        .min_by(|one, other| one.0.total_cmp(&other.0));
    let wall = rival.map(|(wall, _, name)| Reference::new(name, wall * 1e3));
    let processor = rival.map(|(_, processor, name)| Reference::new(name, processor * 1e3));
    Ok(vec![
        Figure::new(
            "wall time",
            "ms",
            middle(ours, |cost| cost.wall) * 1e3,
            wall,
            Target::AtMostTimes(0.15),
        ),
        Figure::new(
            "processor time, all processes",
            "ms",
            middle(ours, |cost| cost.processor) * 1e3,
            processor,
            Target::AtMostTimes(0.15),
        ),
        Figure::new(
            "largest process",
            "MiB",
            ours.iter().map(|cost| cost.peak).max().unwrap_or_default() as f64 / 1024.0,
            None,
            Target::Shown,
        ),
    ])
}
