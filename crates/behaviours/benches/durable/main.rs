//! The speed of what is durable: `cargo xtask bench --only durable` runs it, a workload at a time.
//!
//! Syncs of a disk swing with other load: what is compared is measured in interleaved rounds of one run. This
//! program is all processes of a measurement: it starts itself again as the product's server and as its worker.
//! Where the product itself is measured, it is told where that is. It prints one JSON document.

mod answers;
mod bare;
mod contract;
mod facet;
mod home;
mod list;
mod output;
mod parallel;
mod process;
mod recovery;
mod restore;
mod session;
mod subagent;
mod turn;

use std::process::ExitCode;

use serde_json::{Value, json};

type Error = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Error>;

const WORKLOADS: &str = "answer, restore, turn, list, recovery, output, subagent, parallel";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (workload, options) = match words.as_slice() {
        [process::SERVER, folder] => return process::serve(folder),
        [process::WORKER, socket] => return process::work(socket),
        [workload, options @ ..] => (*workload, Options::parse(options)?),
        [] => {
            return Err(
                format!("durable takes WORKLOAD [--rounds N]; there are {WORKLOADS}").into(),
            );
        }
    };
    let figures = match workload {
        "answer" => answers::run(options.rounds)?,
        "restore" => restore::run(options.rounds)?,
        "turn" => turn::run(options.rounds)?,
        "list" => list::run(options.rounds)?,
        "recovery" => recovery::run(options.rounds, &options.product()?)?,
        "output" => output::run(options.rounds)?,
        "subagent" => subagent::run(options.rounds, &options.product()?)?,
        "parallel" => parallel::run(options.rounds, &options.product()?)?,
        other => return Err(format!("there is no workload {other}; there are {WORKLOADS}").into()),
    };
    println!("{}", json!({ "figures": figures, "absent": [] }));
    Ok(())
}

struct Options<'words> {
    rounds: usize,
    bezel: Option<&'words str>,
    model_server: Option<&'words str>,
}

/// The programs of the product's own build.
struct Product<'words> {
    bezel: &'words str,
    model_server: &'words str,
}

impl<'words> Options<'words> {
    fn parse(words: &[&'words str]) -> Result<Self> {
        let mut options = Options {
            rounds: 5,
            bezel: None,
            model_server: None,
        };
        for pair in words.chunks(2) {
            match pair {
                ["--rounds", rounds] => options.rounds = rounds.parse()?,
                ["--bezel", path] => options.bezel = Some(path),
                ["--model-server", path] => options.model_server = Some(path),
                other => return Err(format!("durable does not take {other:?}").into()),
            }
        }
        Ok(options)
    }

    fn product(&self) -> Result<Product<'words>> {
        match (self.bezel, self.model_server) {
            (Some(bezel), Some(model_server)) => Ok(Product {
                bezel,
                model_server,
            }),
            _ => Err("this workload needs --bezel PATH and --model-server PATH".into()),
        }
    }
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

fn median<T: AsMut<[f64]> + ?Sized>(samples: &mut T) -> f64 {
    let samples = samples.as_mut();
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
