//! The bare limits, written down so that other figures can be weighed.

use std::time::Duration;

use anyhow::Result;

use crate::bench::floors::{self, Echo};
use crate::bench::report::{Figure, Target};
use crate::bench::stats::median;
use crate::bench::{Bench, scratch};

const SAMPLES: usize = 50;

pub(super) fn run(bench: &Bench) -> Result<Vec<Figure>> {
    let folder = scratch()?;
    let many = |mut measure: Box<dyn FnMut() -> Result<f64>>, count: usize| -> Result<f64> {
        let samples: Result<Vec<f64>> = (0..count).map(|_| measure()).collect();
        Ok(median(&samples?))
    };
    let mut echo = Echo::start()?;
    let at = folder.path().to_path_buf();
    let into = at.clone();
    let shown = |name, unit, value| Figure::new(name, unit, value, None, Target::Shown);
    let seconds = many(Box::new(move || floors::pipe(&into)), bench.rounds)?;
    Ok(vec![
        shown(
            "`sh -c true`",
            "ms",
            many(Box::new(floors::spawn), SAMPLES)?,
        ),
        shown(
            "bare loopback request",
            "ms",
            many(Box::new(move || echo.request()), SAMPLES)?,
        ),
        shown(
            "one synced block",
            "ms",
            many(Box::new(move || floors::sync(&at)), SAMPLES)?,
        ),
        shown("a pipe into a file", "MiB/s", floors::OUTPUT_MIB / seconds),
        shown(
            "`cat` in a raw terminal",
            "ms",
            median(&floors::cat_echoes(
                &["x"; SAMPLES],
                Duration::from_millis(2),
            )?),
        ),
    ])
}
