//! The groups of `cargo xtask test`, in the order they run: cheap answers first, then what needs
//! a build.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

use super::fresh;
use super::http;
use super::tools::{self, Tool};
use crate::command;
use crate::run;
use crate::workspace::Workspace;

/// A part of the test run with a name of its own.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Groups that must have passed, where they are part of the run.
    pub(super) needs: &'static [&'static str],
    pub(super) run: fn(&Workspace) -> Result<()>,
}

pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "fmt",
        what: "rustfmt changes nothing",
        needs: &[],
        run: |workspace| {
            let mut fmt = cargo(workspace, &["fmt", "--all", "--check"]);
            // The files alone: `cargo fmt` shows the rest.
            command::run(fmt.args(["--", "--files-with-diff"]))
        },
    },
    Group {
        name: "tidy",
        what: "module docs, sizes, names, words per layer, links",
        needs: &[],
        run: |workspace| succeeded(crate::tidy::command(workspace, &[])?),
    },
    Group {
        name: "edges",
        what: "the golden file of workspace arrows, and every wall",
        needs: &[],
        run: |workspace| succeeded(crate::edges::command(workspace, &[])?),
    },
    Group {
        name: "deny",
        what: "licences, bans and sources of all dependencies",
        needs: &[],
        run: deny,
    },
    Group {
        name: "clippy",
        what: "the whole workspace, all targets, no warning",
        needs: &[],
        run: |workspace| {
            let mut clippy = cargo(workspace, &["clippy", "--workspace", "--all-targets"]);
            command::run(clippy.args(["--locked", "--", "--deny", "warnings"]))
        },
    },
    Group {
        name: "build",
        what: "every binary and every test, once",
        needs: &[],
        run: build,
    },
    Group {
        name: "terminal",
        what: "tmux is here, in which end-to-end tests look at the terminal interface",
        needs: &[],
        run: |workspace| tools::ensure(workspace, Tool::Tmux).map(drop),
    },
    Group {
        name: "network",
        what: "network namespaces can be made, between which remote access is tested",
        needs: &[],
        run: tools::ensure_namespaces,
    },
    Group {
        name: "nextest",
        what: "unit, property, crash, process, end-to-end, terminal and network tests",
        needs: &["build"],
        run: nextest,
    },
    Group {
        name: "tour",
        what: "`cargo xtask run` without a terminal plays the tour and exits 0",
        needs: &["build"],
        run: tour,
    },
    Group {
        name: "http",
        what: "schemathesis asks a served Bezel what its OpenAPI document allows and what it does not",
        needs: &["build"],
        run: http::schemathesis,
    },
    Group {
        name: "doc",
        what: "documentation examples, and documentation without a warning",
        needs: &["build"],
        run: doc,
    },
];

/// Tests that drive the product inside tmux live in modules called `terminal`.
const TERMINAL: &str = r"test(/(^|::)terminal::/)";
/// Tests that connect two machines' networks live in modules called `namespaces`.
const NETWORK: &str = r"test(/(^|::)namespaces::/)";

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut cargo = command::cargo(workspace.root());
    cargo.args(arguments);
    cargo
}

/// A check that printed its findings and returned a status.
fn succeeded(code: ExitCode) -> Result<()> {
    if code != ExitCode::SUCCESS {
        bail!("see the findings above");
    }
    Ok(())
}

/// The groups after it, and the product's first command, must find everything built.
fn build(workspace: &Workspace) -> Result<()> {
    let mut build = cargo(workspace, &["build", "--workspace", "--all-targets"]);
    command::run(build.arg("--locked"))?;
    let mut tests = cargo(workspace, &["test", "--workspace", "--no-run", "--locked"]);
    fresh::check("the test runner", &mut tests)?;
    let mut product = run::cargo_build(workspace, run::Profile::Dev, "bezel");
    fresh::check("`cargo xtask run`", &mut product)
}

fn nextest(workspace: &Workspace) -> Result<()> {
    let program = tools::ensure(workspace, Tool::Nextest)?;
    let mut nextest = command::program(program);
    nextest
        .current_dir(workspace.root())
        .args(["nextest", "run", "--workspace", "--locked"])
        .arg("--no-fail-fast");
    command::without_incremental_caches_in_ci(&mut nextest);
    // Without tmux the group `terminal` has said so, and the rest can still run.
    let mut filters = Vec::new();
    if tools::find(workspace, Tool::Tmux)?.is_none() {
        filters.push(format!("not {TERMINAL}"));
    }
    // The same of the group `network`.
    if tools::ensure_namespaces(workspace).is_err() {
        filters.push(format!("not {NETWORK}"));
    }
    if !filters.is_empty() {
        nextest.args(["--filterset", &filters.join(" and ")]);
    }
    command::run(&mut nextest)
}

fn deny(workspace: &Workspace) -> Result<()> {
    let program = tools::ensure(workspace, Tool::Deny)?;
    let mut deny = command::program(program);
    deny.current_dir(workspace.root())
        .args(["deny", "--workspace", "check", "--hide-inclusion-graph"])
        // Advisories need a database that is not part of a registry: run them where it is reachable.
        .args(["bans", "licenses", "sources"]);
    command::run(&mut deny)
}

fn doc(workspace: &Workspace) -> Result<()> {
    command::run(&mut cargo(
        workspace,
        &["test", "--workspace", "--doc", "--locked"],
    ))?;
    let mut doc = cargo(workspace, &["doc", "--workspace", "--no-deps", "--locked"]);
    command::run(doc.env("RUSTDOCFLAGS", "--deny warnings"))
}

/// The README's first command in an empty directory and an empty home, with nothing to read from
/// and no terminal to write to.
fn tour(_workspace: &Workspace) -> Result<()> {
    let home = tempfile::tempdir().context("make a home for the tour")?;
    let here = tempfile::tempdir().context("make a directory for the tour")?;
    let xtask = own_binary()?;
    let bezel = |arguments: &[&str]| {
        let mut run = command::program(&xtask);
        run.arg("run")
            .args(arguments)
            .current_dir(here.path())
            .env("BEZEL_HOME", home.path())
            .stdin(Stdio::null());
        command::output(&mut run)
    };
    let printed = bezel(&[]);
    // A server that was started for it must not outlive its home; there may be none.
    if let Err(error) = bezel(&["--", "server", "stop"]) {
        eprintln!("{error:#}");
    }
    let printed = printed?;
    print!("{printed}");
    if printed.trim().is_empty() {
        bail!("the tour printed nothing");
    }
    Ok(())
}

/// The path of this program. A build of the workspace may have put a new one in its place; the system then
/// marks the path of the old one, and the new one is meant.
fn own_binary() -> Result<std::path::PathBuf> {
    let path = std::env::current_exe().context("find xtask's own binary")?;
    let text = path.to_string_lossy();
    Ok(match text.strip_suffix(" (deleted)") {
        Some(present) => present.into(),
        None => path,
    })
}
