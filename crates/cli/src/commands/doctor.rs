//! `bezel doctor`: checks what Bezel needs and says how to mend what is missing. It starts nothing.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bezel_session_types::ModelRef;
use serde::Serialize;
use serde_json::json;

use crate::arguments::DoctorArguments;
use crate::config::{self, LoadError, VARIABLES, nearest};
use crate::daemon::{self, Status};
use crate::failure::{Exit, Outcome};
use crate::keys::{self, Key};
use crate::manifest;
use crate::setup::{Setup, environment, untrusted_notice};

/// Variables of Bezel that set no key of the configuration.
const OTHER_VARIABLES: &[&str] = &["BEZEL_HOME", "BEZEL_LOG", "BEZEL_BLESS"];

/// Bytes that should be free where sessions are kept.
const WANTED_SPACE: u64 = 200 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    /// Works, with less comfort.
    Note,
    /// Does not work.
    Bad,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Check {
            name,
            verdict: Verdict::Good,
            found: found.into(),
            fix: None,
        }
    }

    fn note(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Check {
            name,
            verdict: Verdict::Note,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    fn bad(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Check {
            name,
            verdict: Verdict::Bad,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// Runs the command: 0 where nothing is bad, else 1.
pub fn run(arguments: DoctorArguments) -> Outcome {
    let setup = Setup::new(None)?;
    let mut checks = Vec::new();
    configuration(&setup, &mut checks);
    variables(&mut checks);
    keys(&setup, &mut checks);
    for (name, directory) in [
        ("data", &setup.paths.data),
        ("run", &setup.paths.run),
        ("logs", &setup.paths.logs),
        ("state", &setup.paths.state),
    ] {
        checks.push(writable(name, directory));
    }
    checks.push(space(&setup.paths.data));
    server(&setup, &mut checks);
    terminal(&mut checks);
    programs(&mut checks);
    let bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    let mut out = io::stdout();
    if arguments.json {
        writeln!(out, "{}", json!({ "checks": checks }))?;
    } else {
        for check in &checks {
            let mark = match check.verdict {
                Verdict::Good => "ok  ",
                Verdict::Note => "note",
                Verdict::Bad => "BAD ",
            };
            writeln!(out, "{mark}  {:<9} {}", check.name, check.found)?;
            if let Some(fix) = &check.fix {
                writeln!(out, "                → {fix}")?;
            }
        }
    }
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn configuration(setup: &Setup, checks: &mut Vec<Check>) {
    match config::load(&setup.sources(Vec::new()), manifest::plugins) {
        Ok(loaded) => {
            let files: Vec<String> = loaded
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            let found = if files.is_empty() {
                "no file, all defaults".to_owned()
            } else {
                files.join(", ")
            };
            checks.push(Check::good("config", found));
            if let Some(file) = loaded.untrusted {
                checks.push(Check::note(
                    "project",
                    "a configuration that is not trusted",
                    untrusted_notice(&file),
                ));
            }
        }
        Err(LoadError::Invalid(errors)) => {
            let found = match errors.0.len() {
                1 => "1 mistake".to_owned(),
                count => format!("{count} mistakes"),
            };
            checks.push(Check::bad(
                "config",
                found,
                "`bezel config check` shows each at its line",
            ));
        }
        Err(error) => checks.push(Check::bad("config", error.to_string(), "see above")),
    }
}

fn variables(checks: &mut Vec<Check>) {
    let known: Vec<&str> = VARIABLES
        .iter()
        .map(|(name, _)| *name)
        .chain(OTHER_VARIABLES.iter().copied())
        .collect();
    for name in environment()
        .into_keys()
        .filter(|name| name.starts_with("BEZEL_") && !known.contains(&name.as_str()))
    {
        let fix = match nearest(&name, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("known: {}", known.join(", ")),
        };
        checks.push(Check::note(
            "variable",
            format!("{name} is set and means nothing"),
            fix,
        ));
    }
}

/// Where keys come from, names alone, and whether the chosen model has one.
fn keys(setup: &Setup, checks: &mut Vec<Check>) {
    // What is wrong with the configuration was said above.
    let Ok(loaded) = config::load(&setup.sources(Vec::new()), manifest::plugins) else {
        return;
    };
    let (config, environment) = (&loaded.config, environment());
    let chosen = config
        .model
        .as_deref()
        .and_then(|model| model.parse::<ModelRef>().ok());
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for provider in keys::providers(config) {
        let configured = config.providers.contains_key(&provider);
        match keys::key_of(config, &environment, &provider) {
            Some(Key::Variable(name)) => found.push(format!("{provider} ({name})")),
            Some(Key::Command) => found.push(format!("{provider} (api_key_command)")),
            Some(Key::Missing(names)) => missing.push((provider, names)),
            Some(Key::NotNeeded) if configured => found.push(format!("{provider} (needs none)")),
            Some(Key::NotNeeded) | None => {}
        }
    }
    let stored = setup.paths.credentials().exists();
    for (provider, names) in &missing {
        let is_chosen = chosen.as_ref().filter(|model| model.provider == *provider);
        let fix = format!(
            "export {}=… in the shell that you start Bezel from; a session takes it when it is opened again",
            names.first().map_or("KEY", String::as_str)
        );
        match is_chosen {
            Some(model) if !stored => {
                let unset = names.join(" nor ");
                let found = format!("the model {model} has none: {unset} is not set");
                checks.push(Check::bad("keys", found, fix));
            }
            Some(_) | None if !config.providers.contains_key(provider) => {}
            Some(_) | None => {
                let found = format!("{provider} has none: {} is not set", names.join(" nor "));
                checks.push(Check::note("keys", found, fix));
            }
        }
    }
    if !found.is_empty() {
        checks.push(Check::good("keys", found.join(", ")));
    } else if !keys::anything_answers(config, &environment) && !stored {
        let fix = "export a provider's key, for example ANTHROPIC_API_KEY: its first model serves then; `bezel tour` needs none";
        let found = "none in the environment or the configuration";
        checks.push(Check::note("keys", found, fix));
    }
}

fn writable(name: &'static str, directory: &Path) -> Check {
    let existing = directory
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(directory);
    let access = rustix::fs::access(
        existing,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    );
    match access {
        Ok(()) if existing.is_dir() => Check::good(name, directory.display().to_string()),
        Ok(()) => Check::bad(
            name,
            format!("{} is not a directory", existing.display()),
            "remove it, or set BEZEL_HOME elsewhere",
        ),
        Err(error) => {
            let found = format!("{} cannot be written: {error}", existing.display());
            Check::bad(
                name,
                found,
                "make it writable, or set BEZEL_HOME to a directory that is",
            )
        }
    }
}

fn space(directory: &Path) -> Check {
    let existing = directory
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(directory);
    match rustix::fs::statvfs(existing) {
        Ok(volume) => {
            let free = volume.f_bavail.saturating_mul(volume.f_frsize);
            let found = format!("{} MiB free", free / (1024 * 1024));
            if free < WANTED_SPACE {
                return Check::bad(
                    "space",
                    found,
                    "free some, or set BEZEL_HOME to a volume that has more",
                );
            }
            Check::good("space", found)
        }
        Err(error) => Check::note(
            "space",
            format!("cannot be told: {error}"),
            "look with `df`",
        ),
    }
}

fn server(setup: &Setup, checks: &mut Vec<Check>) {
    match daemon::status(&setup.paths) {
        Ok(Status::Running(owner)) => {
            let own = env!("CARGO_PKG_VERSION");
            let found = format!("runs: process {}, version {}", owner.pid, owner.version);
            if major(&owner.version) == major(own) {
                checks.push(Check::good("server", found));
            } else {
                let fix = format!(
                    "this is version {own}: run `bezel server stop`; the next command starts the new one"
                );
                checks.push(Check::bad("server", found, fix));
            }
        }
        Ok(Status::Silent(owner)) => {
            let found = format!("process {} takes no connections", owner.pid);
            checks.push(Check::bad(
                "server",
                found,
                "`bezel server logs` may say why, `bezel server stop` ends it",
            ));
        }
        Ok(Status::Standalone(owner)) => {
            let found = format!(
                "does not run: a standalone Bezel, process {}, has the sessions",
                owner.pid
            );
            let fix = "other commands work once it is left (Ctrl+D in its terminal)";
            checks.push(Check::note("server", found, fix));
        }
        Ok(Status::Stopped) => {
            checks.push(Check::good("server", "does not run; started on demand"))
        }
        Err(error) => checks.push(Check::bad("server", error.to_string(), "see above")),
    }
    let files: [(&'static str, PathBuf, u32); 3] = [
        ("run", setup.paths.run.clone(), 0o077),
        ("socket", setup.paths.run.join("server.sock"), 0o077),
        ("token", setup.paths.token(), 0o077),
    ];
    for (name, file, forbidden) in files {
        let Ok(metadata) = std::fs::symlink_metadata(&file) else {
            continue;
        };
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            let fix = format!(
                "remove {}, or set BEZEL_HOME to a directory of your own",
                file.display()
            );
            checks.push(Check::bad(name, "belongs to another user", fix));
        } else if metadata.mode() & forbidden != 0 {
            let found = format!(
                "{} is open to others (mode {:o})",
                file.display(),
                metadata.mode() & 0o777
            );
            checks.push(Check::bad(
                name,
                found,
                format!("chmod go= {}", file.display()),
            ));
        }
    }
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

fn terminal(checks: &mut Vec<Check>) {
    if !io::stdout().is_terminal() {
        checks.push(Check::note(
            "terminal",
            "none here",
            "`bezel` opens its interface in a terminal; `bezel run` needs none",
        ));
        return;
    }
    let variables = environment();
    let term = variables.get("TERM").map_or("", String::as_str);
    if term.is_empty() || term == "dumb" {
        checks.push(Check::bad(
            "terminal",
            format!("TERM={term:?}"),
            "set TERM, for example TERM=xterm-256color",
        ));
        return;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| (size.ws_col, size.ws_row));
    let shown = size.map_or_else(String::new, |(columns, rows)| format!(", {columns}×{rows}"));
    match size {
        Some((columns, rows)) if columns < 80 || rows < 24 => {
            checks.push(Check::note(
                "terminal",
                format!("{term}{shown}"),
                "80×24 or more shows everything",
            ));
        }
        _ => checks.push(Check::good("terminal", format!("{term}{shown}"))),
    }
    let colours = variables
        .get("COLORTERM")
        .is_some_and(|value| value == "truecolor" || value == "24bit");
    if !colours && !term.contains("256color") && !term.contains("direct") {
        checks.push(Check::note(
            "colours",
            "16 at most",
            "use a terminal with 256 colours, or set COLORTERM=truecolor",
        ));
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variables.get(*name).filter(|value| !value.is_empty()));
    let unicode =
        locale.is_some_and(|value| value.to_uppercase().replace('-', "").contains("UTF8"));
    if !unicode {
        checks.push(Check::note(
            "locale",
            "does not say UTF-8",
            "set for example LANG=C.UTF-8",
        ));
    }
}

fn programs(checks: &mut Vec<Check>) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|file| file.is_file())
    };
    match find("bash").or_else(|| find("sh")) {
        Some(shell) => checks.push(Check::good("shell", shell.display().to_string())),
        None => checks.push(Check::bad(
            "shell",
            "neither bash nor sh is on PATH",
            "install one; the agent's commands run in it",
        )),
    }
    match find("git") {
        Some(git) => checks.push(Check::good("git", git.display().to_string())),
        None => checks.push(Check::note(
            "git",
            "not on PATH",
            "install it; projects without it still work",
        )),
    }
    // Searching is built in; this one only matters to commands that the agent writes.
    match find("rg") {
        Some(rg) => checks.push(Check::good("rg", rg.display().to_string())),
        None => checks.push(Check::note(
            "rg",
            "not on PATH",
            "optional: Bezel's own search is built in",
        )),
    }
}
