//! The bezel command as a library: the binary calls [`main`], the SDK starts the same hosts through [`embed`].

mod additions;
mod agents;
mod arguments;
mod commands;
mod config;
mod connect;
mod daemon;
pub mod embed;
mod errand;
mod failure;
mod keys;
mod logging;
mod manifest;
mod paths;
mod remote;
mod scratch;
mod setup;
mod standalone;
mod telemetry;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::arguments::{Arguments, Command};
use crate::failure::{Exit, Outcome};

/// The command: reads the arguments of this process and does what they ask.
pub fn main() -> ExitCode {
    choose_tls();
    let exit = run(Arguments::parse()).unwrap_or_else(failure::Failure::report);
    telemetry::finish();
    ExitCode::from(exit as u8)
}

/// Whoever makes a TLS client without saying with which library gets this one.
fn choose_tls() {
    let chosen = rustls::crypto::ring::default_provider().install_default();
    if chosen.is_err() {
        tracing::debug!("a library for TLS was chosen already");
    }
}

fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        None => commands::open::run(arguments.open),
        Some(Command::Run(arguments)) => commands::run::run(arguments),
        Some(Command::Session { server, command }) => commands::session::run(server, command),
        Some(Command::Serve(arguments)) => commands::serve::run(arguments),
        Some(Command::Attach(arguments)) => commands::attach::run(arguments),
        Some(Command::Access { server, command }) => commands::access::run(server, command),
        Some(Command::Agents(arguments)) => commands::agents::run(arguments),
        Some(Command::Models(arguments)) => commands::models::run(arguments),
        Some(Command::Config { command }) => commands::config::run(command),
        Some(Command::Doctor(arguments)) => commands::doctor::run(arguments),
        Some(Command::Server { command }) => commands::server::run(command),
        Some(Command::Tour(arguments)) => commands::tour::run(arguments),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "bezel", &mut script);
            std::io::Write::write_all(&mut std::io::stdout(), &script)?;
            Ok(Exit::Done)
        }
        Some(Command::Worker { errand: true }) => errand::run(),
        Some(Command::Worker { errand: false }) => worker::run(),
    }
}
