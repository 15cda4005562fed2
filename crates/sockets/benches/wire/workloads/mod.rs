//! The workloads: which processes they need, what they ask of them, what must be reached.

mod attach;
mod calls;
mod idle;
mod local;
mod states;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::process::Process;
use crate::report::Report;
use crate::samples::Answer;

/// What a run is given.
pub struct Run {
    pub rounds: usize,
    /// The program that makes the same calls over what others offer, if it was built.
    peers: Option<PathBuf>,
    /// A `nats-server`.
    nats: Option<PathBuf>,
    /// Where sockets are made.
    folder: tempfile::TempDir,
}

type Workload = fn(&Run) -> Result<Report>;

const WORKLOADS: &[(&str, Workload)] = &[
    ("call", calls::small),
    ("body", calls::large),
    ("mixed", calls::mixed),
    ("fanout", states::fanout),
    ("change", states::change),
    ("attach", attach::run),
    ("idle", idle::run),
    ("local", local::run),
];

pub fn names() -> String {
    let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

pub fn run(name: &str, arguments: &[&str]) -> Result<()> {
    let Some((_, workload)) = WORKLOADS.iter().find(|(known, _)| *known == name) else {
        bail!("no workload is called `{name}`; there are {}", names());
    };
    let mut run = Run {
        rounds: 5,
        peers: None,
        nats: None,
        folder: tempfile::tempdir().context("make a directory")?,
    };
    for pair in arguments.chunks(2) {
        match pair {
            ["--rounds", rounds] => {
                run.rounds = rounds.parse().context("`--rounds` takes a count")?
            }
            ["--peers", program] => run.peers = Some(PathBuf::from(program)),
            ["--nats", program] => run.nats = Some(PathBuf::from(program)),
            other => bail!("wire does not take `{}`", other.join(" ")),
        }
    }
    workload(&run)?.print()
}

impl Run {
    /// The path of a socket of this run.
    pub fn socket(&self, name: &str) -> Result<String> {
        let path = self.folder.path().join(name);
        Ok(path.to_str().context("a path that is text")?.to_owned())
    }
}

/// Processes of one side of a comparison; the last one measures.
pub struct Side {
    processes: Vec<Process>,
}

impl Side {
    pub fn new(processes: Vec<Process>) -> Self {
        Side { processes }
    }

    pub fn ask(&mut self, question: &str) -> Result<Answer> {
        let process = self.processes.last_mut().context("a side has a process")?;
        process.ask(question)
    }
}

impl Drop for Side {
    /// From the last to the first, so that none sees those go that it needs.
    fn drop(&mut self) {
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

/// One figure of every round.
pub fn column(rounds: &[Answer], name: &str) -> Vec<f64> {
    rounds
        .iter()
        .filter_map(|answer| answer.get(name).copied())
        .collect()
}

/// Asks each side its question once a round; each round begins with another side. The first, which only
/// warms up, is not in the answers.
pub fn interleave(rounds: usize, sides: &mut [(&mut Side, String)]) -> Result<Vec<Vec<Answer>>> {
    let count = sides.len();
    let mut answers: Vec<Vec<Answer>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for step in 0..count {
            let index = (round + step) % count;
            let (side, question) = &mut sides[index];
            let answer = side.ask(question)?;
            if round > 0 {
                answers[index].push(answer);
            }
        }
    }
    Ok(answers)
}
