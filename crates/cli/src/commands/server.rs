//! `bezel server`: status, stop, logs.

use std::io::{self, Write as _};

use serde_json::json;

use crate::arguments::ServerCommand;
use crate::commands::run::tell;
use crate::daemon::{self, ControlError, Owner, Status};
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
                None => {
                    writeln!(out, "The server does not run")?;
                    let left = daemon::stop_left_workers(&paths).map_err(Failure::failed)?;
                    match left {
                        0 => {}
                        1 => writeln!(out, "The process of 1 session that it had left has ended")?,
                        left => writeln!(
                            out,
                            "The processes of {left} sessions that it had left have ended"
                        )?,
                    }
                }
            }
            Ok(Exit::Done)
        }
        ServerCommand::Logs { lines, session } => {
            let file = daemon::log_file(&paths, session.as_deref()).map_err(unknown_is_usage)?;
            let text = daemon::logs(&file, lines).map_err(Failure::failed)?;
            if text.is_empty() && lines > 0 {
                tell(&format!(
                    "{} is empty: nothing was logged yet",
                    file.display()
                ));
            }
            io::stdout().write_all(&text)?;
            Ok(Exit::Done)
        }
        ServerCommand::Run { announce } => daemon::serve(&paths, announce, None),
    }
}

fn unknown_is_usage(error: ControlError) -> Failure {
    match error {
        ControlError::UnknownSession(_) => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

fn status(paths: &Paths, as_json: bool) -> Outcome {
    let status = daemon::status(paths).map_err(Failure::failed)?;
    let socket = paths.socket().map_err(Failure::failed)?;
    let (name, owner): (&str, Option<&Owner>) = match &status {
        Status::Running(owner) => ("running", Some(owner)),
        Status::Silent(owner) => ("silent", Some(owner)),
        Status::Standalone(_) => ("standalone", None),
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
            Status::Standalone(owner) => writeln!(
                out,
                "The server does not run: {}",
                daemon::open_elsewhere(owner.pid)
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
