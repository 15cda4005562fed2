//! `bezel server`: status, stop, logs.

use std::io::{self, Write as _};

use serde_json::json;

use crate::arguments::ServerCommand;
use crate::daemon::{self, Owner, Status};
use crate::failure::{Exit, Failure, Outcome};
use crate::paths::Paths;

/// Runs the command.
pub fn run(command: ServerCommand) -> Outcome {
    let paths = Paths::of_process().map_err(Failure::usage)?;
    match command {
        ServerCommand::Status { json } => status(&paths, json),
        ServerCommand::Stop => {
            let mut out = io::stdout();
            match daemon::stop(&paths).map_err(Failure::failed)? {
                Some(owner) => writeln!(out, "The server, process {}, has ended", owner.pid)?,
                None => writeln!(out, "The server does not run")?,
            }
            Ok(Exit::Done)
        }
        ServerCommand::Logs { lines, session } => {
            let text = daemon::logs(&paths, session.as_deref(), lines).map_err(Failure::failed)?;
            io::stdout().write_all(&text)?;
            Ok(Exit::Done)
        }
        ServerCommand::Run { announce } => daemon::serve(&paths, announce),
    }
}

fn status(paths: &Paths, as_json: bool) -> Outcome {
    let status = daemon::status(paths).map_err(Failure::failed)?;
    let socket = paths.socket().map_err(Failure::failed)?;
    let (name, owner): (&str, Option<&Owner>) = match &status {
        Status::Running(owner) => ("running", Some(owner)),
        Status::Silent(owner) => ("silent", Some(owner)),
        Status::Stopped => ("stopped", None),
    };
    let mut out = io::stdout();
    if as_json {
        let owner = owner.map(|owner| json!({ "pid": owner.pid, "version": owner.version, "started_at": owner.started_at }));
        writeln!(
            out,
            "{}",
            json!({ "status": name, "server": owner, "socket": socket })
        )?;
    } else {
        match &status {
            Status::Running(owner) => writeln!(
                out,
                "The server runs: process {}, version {}, since {}, socket {}",
                owner.pid,
                owner.version,
                owner.started_at,
                socket.display()
            )?,
            Status::Silent(owner) => writeln!(
                out,
                "The server, process {}, takes no connections: it starts, ends or hangs; `bezel server logs` may say why",
                owner.pid
            )?,
            Status::Stopped => writeln!(
                out,
                "The server does not run; the next command that needs it starts it"
            )?,
        }
    }
    Ok(if matches!(status, Status::Running(_)) {
        Exit::Done
    } else {
        Exit::Failed
    })
}
