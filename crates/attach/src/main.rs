//! A presentation without any session code: its dependency graph proves the wall.
//!
//! It attaches to a server that runs, on this machine or behind a URL, and starts none: `bezel` does that.

// The same rules for where a server is as the `bezel` command has; it needs only some of them.
#[expect(dead_code, reason = "only a client's part of the paths is needed")]
#[path = "../../cli/src/paths.rs"]
mod paths;

#[expect(dead_code, reason = "this binary asks for nothing but a connection")]
#[path = "../../cli/src/remote/mod.rs"]
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_host_tui::{Launch, LaunchSession, TerminalOptions, TuiExit, TuiHost, TuiOptions};
use bezel_plugin::{Deadlines, Manifest};
use bezel_rpc::{Connect, Credential, Hello, Role};
use bezel_sockets::dial_unix;
use bezel_telemetry::{Process, Settings, Telemetry};
use clap::Parser;

use crate::paths::Paths;
use crate::remote::{ReachOptions, RemoteServer};

/// Opens the terminal interface of a server that runs.
#[derive(Debug, Parser)]
#[command(name = "bezel-attach", version, about)]
struct Arguments {
    /// A server on another machine: http(s)://HOST:PORT; this machine's own when left out
    #[arg(value_name = "URL", conflicts_with_all = ["socket", "token"])]
    url: Option<String>,
    /// A pairing code of that server, for the first time
    #[arg(long, value_name = "CODE", requires = "url")]
    code: Option<String>,
    /// Certificates to trust beside the system's, a PEM file
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// Connect to another machine without encryption
    #[arg(long, requires = "url")]
    allow_insecure: bool,
    /// Go on with this session; otherwise you pick one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The server's socket, where it is not the usual one
    #[arg(long, value_name = "PATH", requires = "token")]
    socket: Option<PathBuf>,
    /// The file with the server's token, where it is not the usual one
    #[arg(long, value_name = "PATH", requires = "socket")]
    token: Option<PathBuf>,
    /// The directory to work in; one of the server's machine
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

fn main() -> ExitCode {
    bezel_host_tui::install_panic_hook();
    let arguments = Arguments::parse();
    let asked = Settings::from_variables(Process::Presentation, |name| std::env::var(name).ok());
    for notice in asked.notices {
        eprintln!("warning: {notice}");
    }
    let telemetry = asked.settings.map(bezel_telemetry::start);
    telemetry.iter().for_each(Telemetry::install);
    let exit = run(arguments);
    telemetry.iter().for_each(Telemetry::finish);
    match exit {
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

/// A way to a server, and what is said there.
struct Way {
    connect: Arc<dyn Connect>,
    credential: Credential,
    launch: Launch,
}

fn run(arguments: Arguments) -> Result<TuiExit, anyhow::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let Way {
        connect,
        credential,
        launch,
    } = match &arguments.url {
        Some(url) => runtime.block_on(elsewhere(url, &arguments))?,
        None => here(&arguments)?,
    };
    let options = TuiOptions {
        manifest: Manifest {
            plugins: bezel_dist_tui::manifest_entries(),
        },
        facets: bezel_dist_tui::facets(),
        connect,
        hello: hello(credential),
        terminal: TerminalOptions::from_variables(|name| std::env::var(name).ok()),
        launch,
        deadlines: Deadlines::default(),
    };
    runtime.block_on(async { Ok(TuiHost::start(options).await?.finished().await) })
}

/// The server of this machine.
fn here(arguments: &Arguments) -> Result<Way, anyhow::Error> {
    let (socket, token) = match (&arguments.socket, &arguments.token) {
        (Some(socket), Some(token)) => (socket.clone(), token.clone()),
        _ => {
            let paths = Paths::of_process()?;
            (paths.socket()?, paths.token())
        }
    };
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let directory = match &arguments.cwd {
        Some(directory) => here
            .join(directory)
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
    Ok(Way {
        connect: dial_unix(socket),
        credential: Credential::token(secret.trim()),
        launch: Launch {
            directory,
            session: session(arguments),
            environment: text_variables(),
            ..Launch::default()
        },
    })
}

/// A server behind a URL. Nothing of this machine is told there: neither a directory nor a variable.
async fn elsewhere(url: &str, arguments: &Arguments) -> Result<Way, anyhow::Error> {
    let options = ReachOptions {
        ca: arguments.ca.clone(),
        allow_insecure: arguments.allow_insecure,
    };
    let mut server = RemoteServer::open(&Paths::of_process()?, url, options)?;
    if let Some(code) = &arguments.code {
        let asking = hello(Credential::none());
        server.pair(&Context::background(), code, asking).await?;
    }
    Ok(Way {
        connect: server.connect()?,
        credential: server.credential()?,
        launch: Launch {
            directory: arguments.cwd.clone().unwrap_or_default(),
            session: session(arguments),
            ..Launch::default()
        },
    })
}

fn session(arguments: &Arguments) -> LaunchSession {
    let named = arguments.session.clone();
    named.map_or(LaunchSession::Pick, LaunchSession::Id)
}

fn hello(credential: Credential) -> Hello {
    Hello {
        role: Role::Presentation,
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        credential,
    }
}

fn text_variables() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
