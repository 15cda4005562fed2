//! Starting other programs: what they inherit, what is printed, what a failure says.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Arguments that no command takes; ends the process with status 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Whether one of a command's own arguments asks for the help; what follows `--` is for somebody else.
pub(crate) fn asks_for_help(arguments: &[String]) -> bool {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    own.into_iter()
        .any(|argument| argument == "--help" || argument == "-h")
}

/// What `cargo run` puts into the environment of the program it starts. Nothing that xtask starts
/// should see it: a nested cargo would rebuild, and the agent hands its environment to its tools.
fn set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || matches!(
            name,
            "CARGO_MANIFEST_DIR"
                | "CARGO_MANIFEST_PATH"
                | "CARGO_BIN_NAME"
                | "CARGO_CRATE_NAME"
                | "CARGO_PRIMARY_PACKAGE"
        )
}

/// The library paths that `cargo run` extends with the build directory and the toolchain's own.
const LIBRARY_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"];

/// A library path less the entries that `cargo run` added; none when nothing is left.
fn library_path_of_caller(value: &OsStr, build: &Path) -> Option<OsString> {
    let kept: Vec<PathBuf> = std::env::split_paths(value)
        .filter(|entry| !entry.starts_with(build))
        .filter(|entry| {
            let of_the_toolchain = |part: &OsStr| part == "rustlib" || part == "toolchains";
            !entry.iter().any(of_the_toolchain)
        })
        .collect();
    match kept.is_empty() {
        true => None,
        // Entries that were split at separators join again.
        false => std::env::join_paths(kept).ok(),
    }
}

/// A command with the caller's environment, as it was before `cargo run` added to it.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for (key, _) in std::env::vars_os() {
        if key.to_str().is_some_and(set_by_cargo_run) {
            command.env_remove(key);
        }
    }
    let build = std::env::current_exe().ok();
    let build = build.as_deref().and_then(Path::parent);
    for key in LIBRARY_PATHS {
        if let (Some(value), Some(build)) = (std::env::var_os(key), build) {
            match library_path_of_caller(&value, build) {
                Some(kept) => command.env(key, kept),
                None => command.env_remove(key),
            };
        }
    }
    command
}

/// The cargo that started xtask, in the workspace's root, as this run builds.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    without_incremental_caches_in_ci(&mut command);
    command
}

/// A CI run builds each crate once: the caches for building it again only fill its disk. With and without
/// them are two builds of the workspace to cargo, so that every build of a run must agree on it.
pub(crate) fn without_incremental_caches_in_ci(cargo: &mut Command) {
    if in_ci() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
}

/// Whether this is a CI run.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let mut text = name.into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Prints the command, runs it with inherited output and fails unless it exits with 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = shown(command);
    eprintln!("$ {text}");
    let status = command
        .status()
        .with_context(|| format!("start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` ended with {status}");
    }
    Ok(())
}

/// Runs the command and returns what it wrote to standard output; its standard error is inherited.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let text = shown(command);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("read the output of `{text}`"))
}

/// The first executable of this name in `PATH` or in one of the further folders.
pub(crate) fn find(name: &str, further: &[PathBuf]) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(further.iter().cloned())
        .map(|folder| folder.join(name))
        .find(|file| {
            std::fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests;
