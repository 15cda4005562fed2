//! A command that writes a great deal: the whole of it into the saved file, a bounded part to the
//! model.

use anyhow::{Result, ensure};

use crate::bench::floors::{OUTPUT_COMMAND, OUTPUT_MIB, pipe};
use crate::bench::model::{Instance, ModelServer, commands};
use crate::bench::report::{Figure, Reference, Target};
use crate::bench::stats::{Subject, interleave, median};
use crate::bench::{Bench, scratch};

/// Seconds for a turn with one command, on a server and a worker that run already.
fn turn(bench: &Bench, command: &str) -> Result<f64> {
    // The first prompt is answered with a short text: the server and the worker run from then on.
    let mut script = commands([command]);
    let text = script["repeat"].clone();
    if let Some(turns) = script["turns"].as_array_mut() {
        turns.insert(0, text);
    }
    let model = ModelServer::start(bench, &script)?;
    let instance = Instance::new(bench, model.port)?;
    instance.run(&instance.project(), &["go"])?;
    let measured = instance.measured_run(&instance.project())?;
    Ok(measured.args(["--continue", "go"]).run()?.wall)
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let folder = scratch()?;
    let subjects: Vec<Subject<'_, f64>> = vec![
        Box::new(|| turn(bench, "true")),
        Box::new(|| turn(bench, OUTPUT_COMMAND)),
        Box::new(|| pipe(folder.path())),
    ];
    let samples = interleave(bench.rounds, subjects)?;
    let middle = |side: usize| median(samples.get(side).map_or(&[][..], Vec::as_slice));
    // What the output itself costs: a turn with it less a turn without.
    let ours = middle(1) - middle(0);
    ensure!(
        ours > 0.0,
        "a turn with {OUTPUT_MIB} MiB of output was as short as one without"
    );
    Ok(vec![Figure::new(
        "rate into the saved file",
        "MiB/s",
        OUTPUT_MIB / ours,
        Some(Reference::new(
            "a bare pipe into a file",
            OUTPUT_MIB / middle(2),
        )),
        Target::AtLeastTimes(0.5),
    )])
}
