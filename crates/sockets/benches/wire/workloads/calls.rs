//! Routed calls: small and large, one and many in flight, alone and beside large outputs.

use std::path::Path;

use anyhow::Result;

use super::{Run, Side, column, interleave};
use crate::nats;
use crate::process::Process;
use crate::report::{Report, Target};
use crate::samples::Calls;

const SMALL: usize = 200;
const LARGE: usize = 64 * 1024;
/// The stacks' names, as figures are compared with them.
const OURS: &str = "ours";
const BLOCKING: &str = "R2, blocking";
const TOKIO: &str = "R2 on tokio";
const BATCHED: &str = "R2, batched";
const TARPC: &str = "tarpc bincode";
const TARPC_ONE_THREAD: &str = "tarpc bincode, one thread a process";
const NATS: &str = "NATS";
const NATS_BARE: &str = "NATS, its bare protocol";

/// All stacks that make the same calls.
struct Stacks {
    sides: Vec<(&'static str, Side)>,
    absent: Vec<&'static str>,
    _nats: Option<nats::Server>,
}

pub fn ours(run: &Run) -> Result<Side> {
    let socket = run.socket("ours")?;
    Ok(Side::new(vec![
        Process::play("server", [&socket])?,
        Process::play("worker", [&socket, "one"])?,
        Process::play("caller", [&socket])?,
    ]))
}

pub fn blocking(run: &Run) -> Result<Side> {
    let socket = run.socket("blocking")?;
    Ok(Side::new(vec![
        Process::play("raw-router", [&socket])?,
        Process::play("raw-worker", [&socket])?,
        Process::play("raw-caller", [&socket])?,
    ]))
}

fn tokio(run: &Run) -> Result<Side> {
    let socket = run.socket("tokio")?;
    Ok(Side::new(vec![
        Process::play("tokio-router", [&socket])?,
        Process::play("tokio-worker", [&socket])?,
        Process::play("tokio-caller", [&socket])?,
    ]))
}

fn tarpc(run: &Run, peers: &Path, threads: &str) -> Result<Side> {
    let worker = run.socket(&format!("{threads}-worker"))?;
    let router = run.socket(&format!("{threads}-router"))?;
    Ok(Side::new(vec![
        Process::start(peers, &[threads, "worker", &worker])?,
        Process::start(peers, &[threads, "router", &router, &worker])?,
        Process::start(peers, &[threads, "caller", &router])?,
    ]))
}

impl Stacks {
    fn start(run: &Run) -> Result<Self> {
        let mut sides = vec![
            (OURS, ours(run)?),
            (BLOCKING, blocking(run)?),
            (TOKIO, tokio(run)?),
        ];
        let mut absent = Vec::new();
        match &run.peers {
            Some(peers) => {
                sides.push((TARPC, tarpc(run, peers, "tarpc")?));
                sides.push((TARPC_ONE_THREAD, tarpc(run, peers, "tarpc-one-thread")?));
            }
            None => absent.push(TARPC),
        }
        let server = run.nats.as_deref().map(nats::Server::start).transpose()?;
        let port = server.as_ref().map(|server| server.port.to_string());
        if let Some(port) = &port {
            let bare = vec![
                Process::play("nats-worker", [port])?,
                Process::play("nats-caller", [port])?,
            ];
            sides.push((NATS_BARE, Side::new(bare)));
        }
        match (&run.peers, &port) {
            (Some(peers), Some(port)) => {
                let processes = vec![
                    Process::start(peers, &["nats", "worker", port])?,
                    Process::start(peers, &["nats", "caller", port])?,
                ];
                sides.push((NATS, Side::new(processes)));
            }
            _ => absent.push(NATS),
        }
        Ok(Stacks {
            sides,
            absent,
            _nats: server,
        })
    }

    /// Makes the calls over ours and the named stacks; answers theirs, none of a stack that is not here.
    fn measure(
        &mut self,
        rounds: usize,
        calls: Calls,
        stacks: &[&'static str],
    ) -> Result<impl Fn(&str, &str) -> Vec<f64> + use<>> {
        let (mut names, mut sides) = (Vec::new(), Vec::new());
        for (name, side) in &mut self.sides {
            if *name == OURS || stacks.contains(name) {
                names.push(*name);
                sides.push((side, calls.to_string()));
            }
        }
        let answers = interleave(rounds, &mut sides)?;
        Ok(move |name: &str, figure: &str| {
            let index = names.iter().position(|known| *known == name);
            index.map_or_else(Vec::new, |index| column(&answers[index], figure))
        })
    }
}

/// 200 B, one and 64 in flight.
pub fn small(run: &Run) -> Result<Report> {
    let mut stacks = Stacks::start(run)?;
    let mut report = Report::new(stacks.absent.clone());
    let one = Calls {
        size: SMALL,
        in_flight: 1,
        count: 4_000,
    };
    let known = [BLOCKING, TOKIO, TARPC, TARPC_ONE_THREAD];
    let found = stacks.measure(run.rounds, one, &known)?;
    for (name, quantile, target) in [
        (TOKIO, "p50", Target::AtMostTimes(1.25)),
        (BLOCKING, "p50", Target::AtMostTimes(1.6)),
        (BLOCKING, "p99", Target::AtMostTimes(2.0)),
        (TARPC, "p50", Target::AtMostTimes(0.5)),
        (TARPC_ONE_THREAD, "p50", Target::Shown),
    ] {
        let figure = format!("200 B, one in flight, {quantile}");
        let theirs = (name, found(name, quantile));
        report.against(figure, "µs", found(OURS, quantile), theirs, target);
    }
    let many = Calls {
        in_flight: 64,
        count: 40_000,
        ..one
    };
    let known = [BLOCKING, TARPC, TARPC_ONE_THREAD, NATS, NATS_BARE];
    let found = stacks.measure(run.rounds, many, &known)?;
    for (shown, name, target) in [
        (BATCHED, BLOCKING, Target::AtLeastTimes(0.25)),
        (NATS, NATS, Target::AtLeastTimes(3.0)),
        (NATS_BARE, NATS_BARE, Target::Shown),
        (TARPC, TARPC, Target::Shown),
        (TARPC_ONE_THREAD, TARPC_ONE_THREAD, Target::Shown),
    ] {
        let theirs = (shown, found(name, "rate"));
        let ours = found(OURS, "rate");
        report.against("200 B, 64 in flight", "calls/s", ours, theirs, target);
    }
    Ok(report)
}

/// 64 KiB, one and 64 in flight.
pub fn large(run: &Run) -> Result<Report> {
    let mut stacks = Stacks::start(run)?;
    let mut report = Report::new(stacks.absent.clone());
    let one = Calls {
        size: LARGE,
        in_flight: 1,
        count: 1_000,
    };
    let known = [BLOCKING, TOKIO, TARPC, TARPC_ONE_THREAD];
    let found = stacks.measure(run.rounds, one, &known)?;
    for (name, target) in [
        (BLOCKING, Target::AtMostTimes(1.8)),
        (TOKIO, Target::Shown),
        (TARPC, Target::Shown),
        (TARPC_ONE_THREAD, Target::Shown),
    ] {
        let theirs = (name, found(name, "p50"));
        let ours = found(OURS, "p50");
        report.against("64 KiB, one in flight, p50", "µs", ours, theirs, target);
    }
    let many = Calls {
        in_flight: 64,
        count: 4_000,
        ..one
    };
    let known = [TARPC, TARPC_ONE_THREAD, NATS];
    let found = stacks.measure(run.rounds, many, &known)?;
    for (name, target) in [
        (TARPC, Target::AtLeastTimes(1.0)),
        (TARPC_ONE_THREAD, Target::Shown),
        (NATS, Target::Shown),
    ] {
        let theirs = (name, found(name, "rate"));
        let ours = found(OURS, "rate");
        report.against("64 KiB, 64 in flight", "calls/s", ours, theirs, target);
    }
    Ok(report)
}

/// Small calls while outputs of 64 KiB saturate their connection.
pub fn mixed(run: &Run) -> Result<Report> {
    let mut side = ours(run)?;
    let mut report = Report::new(Vec::new());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..=run.rounds {
        let unloaded = side.ask(&format!("{SMALL} 1 3000"))?;
        let loaded = side.ask(&format!("beside {SMALL} 4 3000"))?;
        if round > 0 {
            alone.push(unloaded);
            beside.push(loaded);
        }
    }
    for (name, quantile, target) in [
        (
            "200 B beside 64 KiB outputs, p99",
            "p99",
            Target::AtMostTimes(3.0),
        ),
        ("200 B beside 64 KiB outputs, p50", "p50", Target::Shown),
    ] {
        let unloaded = ("the same, unloaded", column(&alone, quantile));
        report.against(name, "µs", column(&beside, quantile), unloaded, target);
    }
    Ok(report)
}
