//! `bezel attach`: the terminal interface of a server on another machine.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_host_tui::{Launch, LaunchSession};
use bezel_rpc::Credential;
use bezel_session_types::ModelRef;

use crate::agents;
use crate::arguments::{AttachArguments, WhichSession};
use crate::commands::open::{chosen, show};
use crate::commands::run::{runtime, tell};
use crate::connect::{hello, join_once};
use crate::failure::{Exit, Failure, Outcome};
use crate::manifest::Chosen;
use crate::remote::{ReachOptions, RemoteServer};
use crate::setup::Setup;

/// Bytes of a code on standard input at most.
const MOST_CODE: u64 = 200;

/// Pairs where that is needed, then opens the interface.
pub fn run(arguments: AttachArguments) -> Outcome {
    let setup = Setup::new(None)?;
    let loaded = setup.load(Vec::new())?;
    let model = arguments
        .model
        .as_deref()
        .map(str::parse::<ModelRef>)
        .transpose()
        .map_err(Failure::usage)?;
    let is_new = arguments.which == WhichSession::default();
    agents::check_is_new(arguments.agent.as_deref(), is_new)?;
    let options = ReachOptions {
        ca: arguments.ca,
        allow_insecure: arguments.allow_insecure,
    };
    let opened = RemoteServer::open(&setup.paths, &arguments.url, options);
    let mut server = opened.map_err(Failure::usage)?;
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let code = match arguments.code.as_deref() {
        Some("-") => Some(read_code()?),
        Some(code) => Some(code.to_owned()),
        None if server.is_paired() => None,
        None if terminal => Some(ask_code(&server.url())?),
        None => None,
    };
    if code.is_none() {
        // Said before anybody is connected to.
        server.credential().map_err(Failure::failed)?;
    }
    let pairs = code.is_some();
    runtime()?.block_on(async {
        let cx = Context::background();
        if let Some(code) = code {
            let paired = server.pair(&cx, &code, hello(Credential::none())).await;
            paired.map_err(Failure::failed)?;
            tell(&format!("Paired with {}", server.url()));
        }
        // Once before the interface: what is wrong is then said on a plain terminal.
        let connect = server.connect().map_err(Failure::failed)?;
        let credential = server.credential().map_err(Failure::failed)?;
        let joined = join_once(&cx, connect, credential).await;
        joined.map_err(Failure::failed)?.leave().await;
        Ok::<_, Failure>(())
    })?;
    if !terminal {
        let url = server.url();
        if pairs {
            tell(&format!(
                "There is no terminal to open; `bezel run --server {url}` works without one"
            ));
            return Ok(Exit::Done);
        }
        let what =
            format!("there is no terminal here: `bezel run --server {url}` works without one");
        return Err(Failure::failed(anyhow!(what)));
    }
    let session = match (arguments.which.session, arguments.which.resume) {
        (Some(id), _) => LaunchSession::Id(id),
        (None, true) => LaunchSession::Last,
        (None, false) => LaunchSession::Pick,
    };
    let launch = Launch {
        // A place on the server's machine; nothing of this one is told.
        directory: arguments.cwd.map(PathBuf::from).unwrap_or_default(),
        session,
        ..Launch::default()
    };
    // Which agents there are, the server's machine knows.
    let chosen = Chosen {
        agent: arguments.agent,
        ..chosen(&loaded, model, None)
    };
    show(
        &setup,
        &loaded.config,
        &chosen,
        launch,
        server.connect().map_err(Failure::failed)?,
        server.credential().map_err(Failure::failed)?,
    )
}

fn ask_code(url: &str) -> Outcome<String> {
    let mut out = io::stderr();
    write!(
        out,
        "Pairing code for {url} (`bezel access pair` prints one there): "
    )?;
    out.flush()?;
    read_code()
}

fn read_code() -> Outcome<String> {
    let mut line = String::new();
    let mut input = io::Read::take(io::stdin().lock(), MOST_CODE);
    input
        .read_line(&mut line)
        .context("cannot read the pairing code from standard input")
        .map_err(Failure::usage)?;
    match line.trim() {
        "" => Err(Failure::usage(anyhow!(
            "no pairing code came: type it, or give it with --code"
        ))),
        code => Ok(code.to_owned()),
    }
}
