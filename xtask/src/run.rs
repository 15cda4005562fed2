//! `cargo xtask run`: build `bezel` and become it.

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::command::{self, Usage};
use crate::workspace::Workspace;

/// How the product is built. One profile and one feature resolution for `run` and `test`, so that
/// the second command after a clone reuses what the first one built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// `dev`: half the cold build of a release, with the crates that a person would wait for
    /// (highlighting, diffs) optimised in the root manifest.
    Dev,
    /// What is shipped and what `bench` measures.
    Release,
}

/// The build of the named binary.
pub(crate) fn cargo_build(workspace: &Workspace, profile: Profile, binary: &str) -> Command {
    let mut cargo = command::cargo(workspace.root());
    // `--workspace` keeps the features of shared dependencies the same as in `cargo xtask test`.
    cargo.args(["build", "--workspace", "--bin", binary]);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    cargo
}

/// Builds the named binary of the workspace and returns its path.
pub(crate) fn build(workspace: &Workspace, profile: Profile, binary: &str) -> Result<PathBuf> {
    command::run(&mut cargo_build(workspace, profile, binary))?;
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => "release",
    };
    Ok(workspace.target()?.join(folder).join(binary))
}

/// Builds `bezel` and replaces this process with it, in the caller's directory: `bezel` with the
/// arguments, else the terminal interface where there is a terminal and the tour where there is none.
pub(crate) fn command(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode> {
    let (profile, passed) = parse(arguments)?;
    if !std::io::stderr().is_terminal() {
        eprintln!("Building bezel; the first build takes some minutes.");
    }
    let binary = build(workspace, profile, "bezel")?;
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let error = command::program(&binary)
        .args(arguments_for_bezel(passed, terminal))
        .exec();
    Err(error).with_context(|| format!("start {}", binary.display()))
}

/// Whoever looks at Bezel for the first time may have no terminal, and a model configured for another one.
fn arguments_for_bezel(passed: &[String], terminal: bool) -> Vec<String> {
    match passed {
        [] if !terminal => vec!["tour".to_owned()],
        passed => passed.to_vec(),
    }
}

fn parse(arguments: &[String]) -> Result<(Profile, &[String])> {
    let mut profile = Profile::Dev;
    for (index, argument) in arguments.iter().enumerate() {
        match argument.as_str() {
            "--release" => profile = Profile::Release,
            "--" => return Ok((profile, &arguments[index + 1..])),
            other => {
                return Err(Usage(format!(
                    "run does not take `{other}`; arguments for bezel stand after `--`"
                ))
                .into());
            }
        }
    }
    Ok((profile, &[]))
}

#[cfg(test)]
mod tests;
