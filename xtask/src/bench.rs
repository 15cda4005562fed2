//! `cargo xtask bench`: speed and memory of the release build, each figure against a limit of this
//! machine or a peer, measured in the same run.
//!
//! A *workload* is a function that returns figures. What is compared is measured in interleaved
//! rounds, so that other load on the machine hits both sides alike. Workloads of the wire are measured
//! by the program that `crates/sockets/benches/wire` is, those of the session database by `crates/store/benches/store`,
//! those of what is durable and of sessions at work by `crates/behaviours/benches/durable`, that of the registry of
//! tools by `crates/api/session/benches/registry`; `--only wire`, `--only store`, `--only durable` or
//! `--only session` chooses all of them. A peer that is not installed and a
//! workload that cannot run are named; nothing is made up for them.

mod app_server;
mod floors;
mod measure;
mod model;
mod peers;
mod processes;
mod pty;
mod report;
mod stats;
mod wire;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::command::{self, Usage};
use crate::run::{Profile, build};
use crate::workspace::Workspace;
use peers::Peers;
use report::{Figure, Report};
use wire::Wire;
use workloads::WORKLOADS;

pub(crate) use measure::{COMMAND as MEASURE_COMMAND, command as measure_command};

/// The report, relative to the root.
const REPORT: &str = "bench.json";

/// What a workload measures with.
struct Bench {
    /// The release build of `bezel`.
    bezel: PathBuf,
    /// The fake model server of the test kit.
    model_server: PathBuf,
    peers: Peers,
    /// How often each side is measured; figures are medians over rounds.
    rounds: usize,
}

/// One row group of the report.
struct Workload {
    name: &'static str,
    what: &'static str,
    measure: Measure,
}

/// Who measures.
enum Measure {
    /// xtask, from outside of the built product.
    Product(fn(&Bench) -> Result<Vec<Figure>>),
    /// The wire's own program, which knows this workload by that name.
    Wire(&'static str),
    /// The session database's own program.
    Store(&'static str),
    /// The registry's own program.
    Registry(&'static str),
    /// The program of what is durable.
    Durable(&'static str),
    /// The same, with the built product's processes.
    DurableProduct(&'static str),
}

impl Workload {
    /// Whether a name given on the command line means this one: its own, or its group's.
    fn is(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// Runs the chosen workloads, writes `bench.json`, prints the table and fails when a target that was
/// measured is missed or a workload could not run.
pub(crate) fn command(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    if options.list {
        for workload in WORKLOADS {
            println!("{:<12} {}", workload.name, workload.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&Workload> = WORKLOADS
        .iter()
        .filter(|workload| options.only.is_empty() || options.only.contains(&workload.name))
        .collect();
    let with_peers = options.peers.is_some();
    let peers = Peers::find(options.peers);
    let mut report = Report::new(&peers, options.rounds)?;
    // Only what is measured is built.
    let needs = |program: fn(&Measure) -> bool| {
        let mut measures = chosen.iter().map(|workload| &workload.measure);
        measures.any(program)
    };
    let rounds = options.rounds;
    let product =
        needs(|measure| matches!(measure, Measure::Product(_) | Measure::DurableProduct(_)));
    let product = product.then(|| -> Result<Bench> {
        Ok(Bench {
            bezel: build(workspace, Profile::Release, "bezel")?,
            model_server: build(workspace, Profile::Release, "fake-model-server")?,
            peers,
            rounds,
        })
    });
    let bench = product.transpose()?;
    let wire = needs(|measure| matches!(measure, Measure::Wire(_)))
        .then(|| Wire::build(workspace, with_peers, rounds))
        .transpose()?;
    let store = needs(|measure| matches!(measure, Measure::Store(_)))
        .then(|| Wire::of_the_store(workspace, rounds))
        .transpose()?;
    let registry = needs(|measure| matches!(measure, Measure::Registry(_)))
        .then(|| Wire::of_the_registry(workspace, rounds))
        .transpose()?;
    let durable =
        needs(|measure| matches!(measure, Measure::Durable(_) | Measure::DurableProduct(_)))
            .then(|| Wire::of_the_durable(workspace, bench.as_ref(), rounds))
            .transpose()?;
    for workload in chosen {
        eprintln!("==> {}: {}", workload.name, workload.what);
        let measured = match (
            &workload.measure,
            &bench,
            &wire,
            &store,
            &registry,
            &durable,
        ) {
            (Measure::Product(run), Some(bench), ..) => run(bench).map(|figures| (figures, vec![])),
            (Measure::Wire(name), _, Some(wire), ..) => wire.run(name),
            (Measure::Store(name), _, _, Some(store), ..) => store.run(name),
            (Measure::Registry(name), .., Some(registry), _) => registry.run(name),
            (Measure::Durable(name) | Measure::DurableProduct(name), .., Some(durable)) => {
                durable.run(name)
            }
            _ => bail!("what {} measures was not built", workload.name),
        };
        match measured {
            Ok((figures, absent)) => {
                report.add(workload.name, figures);
                report.add_absent(absent);
            }
            Err(error) => report.add_failure(workload.name, &error),
        }
    }
    let path = workspace.root().join(REPORT);
    std::fs::write(&path, report.to_json()?).with_context(|| format!("write {REPORT}"))?;
    println!("\n{}", report.to_markdown());
    println!("{REPORT}: written");
    Ok(match report.all_met() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    list: bool,
    only: Vec<&'static str>,
    rounds: usize,
    peers: Option<PathBuf>,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        list: false,
        only: Vec::new(),
        rounds: 5,
        peers: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            rest.next()
                .ok_or_else(|| Usage(format!("`{argument}` needs a value")))
        };
        match argument.as_str() {
            "--list" => options.list = true,
            "--only" => {
                let name = value()?;
                let found = WORKLOADS.iter().filter(|workload| workload.is(name));
                let before = options.only.len();
                options.only.extend(found.map(|workload| workload.name));
                if options.only.len() == before {
                    let known: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
                    let known = known.join(", ");
                    let text = format!("no workload is called `{name}`; there are {known}");
                    return Err(Usage(text).into());
                }
            }
            "--rounds" => {
                let text = value()?;
                options.rounds = match text.parse() {
                    Ok(rounds) if rounds > 0 => rounds,
                    _ => {
                        return Err(Usage(format!("`--rounds` takes a count, not `{text}`")).into());
                    }
                };
            }
            "--peers" => options.peers = Some(PathBuf::from(value()?)),
            other => return Err(Usage(format!("bench does not take `{other}`")).into()),
        }
    }
    Ok(options)
}

/// An empty directory for a measurement. Peers refuse to live under the system's temporary
/// directory, so it is in the build directory, beside xtask's own binary.
fn scratch() -> Result<tempfile::TempDir> {
    let xtask = std::env::current_exe().context("find xtask's own binary")?;
    let folder = xtask
        .parent()
        .context("xtask's binary is in a folder")?
        .join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    tempfile::tempdir_in(&folder).context("make a scratch directory")
}

/// The program that carries out a measurement: xtask itself, small and with nothing loaded.
fn measuring_program() -> Result<std::process::Command> {
    let xtask = std::env::current_exe().context("find xtask's own binary")?;
    let mut program = command::program(xtask);
    program.arg(MEASURE_COMMAND);
    Ok(program)
}

#[cfg(test)]
mod tests;
