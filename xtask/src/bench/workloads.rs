//! What is measured, in the order of the report.

mod answer;
mod deltas;
mod machine;
mod memory;
mod output;
mod terminal;
mod tools;

use super::Workload;

/// What one turn of a session that runs already took, of all processes together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Seconds.
    pub(super) wall: f64,
    /// Processor seconds.
    pub(super) processor: f64,
}

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "machine",
        what: "the bare limits of this machine",
        run: machine::run,
    },
    Workload {
        name: "answer",
        what: "`bezel run`, a text answer, nothing running before",
        run: answer::run,
    },
    Workload {
        name: "tools",
        what: "20 tool calls in one turn: from the model's last byte to the next request",
        run: tools::run,
    },
    Workload {
        name: "deltas",
        what: "20,000 text deltas in one answer, worker to server to presentation",
        run: deltas::run,
    },
    Workload {
        name: "output",
        what: "64 MiB of tool output into its saved file",
        run: output::run,
    },
    Workload {
        name: "start",
        what: "the terminal interface to a working composer",
        run: terminal::start,
    },
    Workload {
        name: "echo",
        what: "a key to its echo on the screen, idle and while an answer streams",
        run: terminal::echo,
    },
    Workload {
        name: "memory",
        what: "server, terminal interface and one worker after a first turn; further idle workers",
        run: memory::run,
    },
    Workload {
        name: "idle",
        what: "a session open and idle: wake-ups that nothing asked for",
        run: memory::idle,
    },
];
