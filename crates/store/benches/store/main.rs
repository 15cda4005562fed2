//! The speed of the session database: `cargo xtask bench --only store` runs it, a workload at a time.
//!
//! Syncs of a disk swing with other load, and so does everything else here: what is compared is measured in
//! interleaved rounds of one run. It prints one JSON document.

mod commits;
mod large;
mod session;

use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (workload, rounds) = match words.as_slice() {
        [large::ROLE, path] => return large::measure_memory(path),
        [workload] => (*workload, 5),
        [workload, "--rounds", rounds] => (*workload, rounds.parse()?),
        _ => return Err("store takes WORKLOAD [--rounds N]; there are commit, large".into()),
    };
    let figures = match workload {
        "commit" => commits::run(rounds)?,
        "large" => large::run(rounds)?,
        other => {
            return Err(format!("there is no workload {other}; there are commit, large").into());
        }
    };
    println!("{}", json!({ "figures": figures, "absent": [] }));
    Ok(())
}

/// One figure of every round, as `cargo xtask bench` reads it.
fn figure(
    name: &str,
    unit: &str,
    ours: &[f64],
    reference: Option<(&str, &[f64])>,
    target: Value,
) -> Value {
    let reference = reference.map(|(name, rounds)| json!({ "name": name, "rounds": rounds }));
    json!({ "name": name, "unit": unit, "ours": ours, "reference": reference, "target": target })
}

/// Seconds that something took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let started = Instant::now();
    let outcome = work()?;
    Ok((started.elapsed().as_secs_f64(), outcome))
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
