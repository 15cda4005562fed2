//! The wire against bare sockets and other stacks: a program of its own measures, for xtask lists nothing
//! of the workspace.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Message;
use serde::Deserialize;

use super::Bench;
use super::report::{Figure, Target};
use crate::command;
use crate::workspace::Workspace;

/// The bench target of this crate measures.
const PACKAGE: &str = "bezel-sockets";
const BENCH: &str = "wire";
/// The programs to compare with that the workspace does not have.
const PEERS: &str = "xtask/peers";

/// The measuring program and what it compares with.
pub(super) struct Wire {
    program: PathBuf,
    /// The peers' program; built where peers were asked for.
    peers: Option<PathBuf>,
    nats: Option<PathBuf>,
    /// The built product, where it is measured with it.
    product: Option<Product>,
    rounds: usize,
}

/// Programs of the product's own build.
struct Product {
    bezel: PathBuf,
    model_server: PathBuf,
}

/// What the program prints.
#[derive(Debug, Deserialize)]
struct Document {
    figures: Vec<Rounds>,
    absent: Vec<String>,
}

/// One figure of every round.
#[derive(Debug, Deserialize)]
struct Rounds {
    name: String,
    unit: String,
    ours: Vec<f64>,
    reference: Option<ReferenceRounds>,
    target: Target,
}

#[derive(Debug, Deserialize)]
struct ReferenceRounds {
    name: String,
    rounds: Vec<f64>,
}

impl Wire {
    /// Builds the program; the peers' too if `with_peers`.
    pub(super) fn build(workspace: &Workspace, with_peers: bool, rounds: usize) -> Result<Self> {
        let mut cargo = command::cargo(workspace.root());
        cargo.args(["build", "--release", "--package", PACKAGE, "--bench", BENCH]);
        let program = build(&mut cargo, BENCH)?;
        let peers = with_peers.then(|| {
            let mut cargo = command::cargo(workspace.root());
            cargo
                .args(["build", "--release", "--locked", "--manifest-path"])
                .arg(workspace.root().join(PEERS).join("Cargo.toml"))
                .arg("--target-dir")
                .arg(workspace.target()?.join("peers"));
            build(&mut cargo, "peers")
        });
        Ok(Self {
            program,
            peers: peers.transpose()?,
            nats: command::find("nats-server", &["/usr/sbin".into()]),
            product: None,
            rounds,
        })
    }

    /// Builds the program of the session database, which compares with nothing that is not in it.
    pub(super) fn of_the_store(workspace: &Workspace, rounds: usize) -> Result<Self> {
        Self::alone(workspace, "bezel-store", "store", rounds)
    }

    /// Builds the program of the registry of tools.
    pub(super) fn of_the_registry(workspace: &Workspace, rounds: usize) -> Result<Self> {
        Self::alone(workspace, "bezel-api-session", "registry", rounds)
    }

    /// Builds the program of what is durable. It measures the product too, where that was built.
    pub(super) fn of_the_durable(
        workspace: &Workspace,
        bench: Option<&Bench>,
        rounds: usize,
    ) -> Result<Self> {
        let product = bench.map(|bench| Product {
            bezel: bench.bezel.clone(),
            model_server: bench.model_server.clone(),
        });
        Ok(Self {
            product,
            ..Self::alone(workspace, "bezel-behaviours", "durable", rounds)?
        })
    }

    fn alone(workspace: &Workspace, package: &str, bench: &str, rounds: usize) -> Result<Self> {
        let mut cargo = command::cargo(workspace.root());
        cargo.args(["build", "--release", "--package", package, "--bench", bench]);
        Ok(Self {
            program: build(&mut cargo, bench)?,
            peers: None,
            nats: None,
            product: None,
            rounds,
        })
    }

    /// Runs one workload; answers its figures and the peers that it could not compare with.
    pub(super) fn run(&self, workload: &str) -> Result<(Vec<Figure>, Vec<String>)> {
        let mut program = command::program(&self.program);
        program.args([workload, "--rounds", &self.rounds.to_string()]);
        let product = self.product.as_ref();
        let options = [
            ("--peers", self.peers.as_ref()),
            ("--nats", self.nats.as_ref()),
            ("--bezel", product.map(|product| &product.bezel)),
            (
                "--model-server",
                product.map(|product| &product.model_server),
            ),
        ];
        for (flag, path) in options {
            if let Some(path) = path {
                program.arg(flag).arg(path);
            }
        }
        parse(&command::output(&mut program)?)
    }
}

/// Builds, shows how that goes, and answers where the named program is.
fn build(cargo: &mut Command, name: &str) -> Result<PathBuf> {
    cargo.arg("--message-format=json-render-diagnostics");
    let printed = command::output(cargo)?;
    let mut found = None;
    for message in Message::parse_stream(printed.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message.context("read what cargo built")?
            && artifact.target.name == name
            && let Some(executable) = artifact.executable
        {
            found = Some(executable.into_std_path_buf());
        }
    }
    found.with_context(|| format!("cargo built no program {name}"))
}

fn parse(printed: &str) -> Result<(Vec<Figure>, Vec<String>)> {
    let document: Document =
        serde_json::from_str(printed).context("read what the program printed")?;
    let figures: Result<Vec<Figure>> = document.figures.into_iter().map(Rounds::figure).collect();
    Ok((figures?, document.absent))
}

impl Rounds {
    fn figure(self) -> Result<Figure> {
        ensure!(!self.ours.is_empty(), "{} has no rounds", self.name);
        let reference = self.reference.as_ref();
        let reference = reference.map(|found| (found.name.as_str(), found.rounds.as_slice()));
        Ok(Figure::of_rounds(
            self.name,
            self.unit,
            &self.ours,
            reference,
            self.target,
        ))
    }
}

#[cfg(test)]
mod tests;
