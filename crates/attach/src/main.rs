//! A presentation without any session code: its dependency graph proves the wall.
//!
//! It attaches to a server that runs, and starts none: `bezel` does that.

// The same rules for where a server is as the `bezel` command has; it needs only some of them.
#[expect(dead_code, reason = "only a client's part of the paths is needed")]
#[path = "../../cli/src/paths.rs"]
mod paths;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use bezel_host_tui::{Launch, LaunchSession, TerminalOptions, TuiExit, TuiHost, TuiOptions};
use bezel_plugin::{Deadlines, Manifest};
use bezel_rpc::{Credential, Hello, Role};
use bezel_sockets::dial_unix;
use clap::Parser;

use crate::paths::Paths;

/// Opens the terminal interface of a server that runs.
#[derive(Debug, Parser)]
#[command(name = "bezel-attach", version, about)]
struct Arguments {
    /// Go on with this session; otherwise you pick one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The server's socket, where it is not the usual one
    #[arg(long, value_name = "PATH", requires = "token")]
    socket: Option<PathBuf>,
    /// The file with the server's token, where it is not the usual one
    #[arg(long, value_name = "PATH", requires = "socket")]
    token: Option<PathBuf>,
    /// The directory to work in
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

fn main() -> ExitCode {
    bezel_host_tui::install_panic_hook();
    match run(Arguments::parse()) {
        Ok(exit) => {
            if !exit.quit.message.is_empty() {
                eprintln!("{}", exit.quit.message);
            }
            ExitCode::from(exit.quit.code)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<TuiExit, anyhow::Error> {
    let (socket, token) = match (arguments.socket, arguments.token) {
        (Some(socket), Some(token)) => (socket, token),
        _ => {
            let paths = Paths::of_process()?;
            (paths.socket()?, paths.token())
        }
    };
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let directory = match arguments.cwd {
        Some(directory) => here
            .join(&directory)
            .canonicalize()
            .with_context(|| format!("cannot work in {}", directory.display()))?,
        None => here,
    };
    // The interface would wait for a server for ever; nobody here starts one.
    std::os::unix::net::UnixStream::connect(&socket).map_err(|error| {
        anyhow!(
            "no server listens on {} ({error}): start one with `bezel`",
            socket.display()
        )
    })?;
    let secret = std::fs::read_to_string(&token)
        .with_context(|| format!("cannot read the server's token {}", token.display()))?;
    let options = TuiOptions {
        manifest: Manifest {
            plugins: bezel_dist_tui::manifest_entries(),
        },
        facets: bezel_dist_tui::facets(),
        connect: dial_unix(socket),
        hello: Hello {
            role: Role::Presentation,
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            credential: Credential::token(secret.trim()),
        },
        terminal: TerminalOptions::from_variables(|name| std::env::var(name).ok()),
        launch: Launch {
            directory,
            session: arguments
                .session
                .map_or(LaunchSession::Pick, LaunchSession::Id),
            prompt: String::new(),
            environment: text_variables(),
        },
        deadlines: Deadlines::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async { Ok(TuiHost::start(options).await?.finished().await) })
}

fn text_variables() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
