//! The speed of the wire against bare sockets: `cargo xtask bench --only wire` runs it, a workload at a time.
//!
//! This program is all processes of a measurement: it starts itself again as server, worker and client of
//! the product's own connections, and as the same three of a bare echo. What is compared is measured in
//! interleaved rounds. It prints one JSON document.

mod nats;
mod ours;
mod process;
mod raw;
mod report;
mod samples;
mod workloads;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [process::ROLE, role, rest @ ..] => {
            process::end_with_parent()?;
            play(role, rest).with_context(|| format!("as {role}"))
        }
        [workload, rest @ ..] if !workload.starts_with('-') => workloads::run(workload, rest),
        _ => bail!(
            "wire takes WORKLOAD [--rounds N] [--peers PROGRAM] [--nats PROGRAM]; there are {}",
            workloads::names()
        ),
    }
}

/// One process of a measurement.
fn play(role: &str, rest: &[&str]) -> Result<()> {
    match (role, rest) {
        ("server", [socket]) => ours::server(socket, false),
        ("counting-server", [socket]) => ours::server(socket, true),
        ("worker", [socket, target]) => ours::worker(socket, target),
        ("caller", [socket]) => ours::caller(socket),
        ("replicas", [socket, count]) => ours::replicas(socket, count.parse()?),
        ("attacher", [socket]) => ours::attacher(socket),
        ("raw-router", [socket]) => raw::blocking::router(socket),
        ("raw-worker", [socket]) => raw::blocking::worker(socket),
        ("raw-caller", [socket]) => raw::blocking::caller(socket),
        ("tokio-router", [socket]) => raw::evented::router(socket),
        ("tokio-worker", [socket]) => raw::evented::worker(socket),
        ("tokio-caller", [socket]) => raw::evented::caller(socket),
        ("broadcast-router", [socket, readers]) => raw::broadcast::router(socket, readers.parse()?),
        ("broadcast-worker", [socket]) => raw::broadcast::worker(socket),
        ("broadcast-readers", [socket, readers]) => {
            raw::broadcast::readers(socket, readers.parse()?)
        }
        ("delay", [socket, upstream, milliseconds]) => {
            raw::delay::relay(socket, upstream, milliseconds.parse()?)
        }
        ("nats-worker", [port]) => nats::worker(port.parse()?),
        ("nats-caller", [port]) => nats::caller(port.parse()?),
        _ => bail!("there is no such role, or it takes something else"),
    }
}
