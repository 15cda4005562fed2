//! What is measured, in the order of the report.

mod answer;
mod deltas;
mod machine;
mod memory;
mod output;
mod terminal;
mod tools;

use super::{Measure, Workload};

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
        measure: Measure::Product(machine::run),
    },
    Workload {
        name: "answer",
        what: "`bezel run`, a text answer, nothing running before",
        measure: Measure::Product(answer::run),
    },
    Workload {
        name: "tools",
        what: "20 tool calls in one turn: from the model's last byte to the next request",
        measure: Measure::Product(tools::run),
    },
    Workload {
        name: "deltas",
        what: "20,000 text deltas in one answer, worker to server to presentation",
        measure: Measure::Product(deltas::run),
    },
    Workload {
        name: "output",
        what: "64 MiB of tool output into its saved file",
        measure: Measure::Product(output::run),
    },
    Workload {
        name: "start",
        what: "the terminal interface to a working composer",
        measure: Measure::Product(terminal::start),
    },
    Workload {
        name: "echo",
        what: "a key to its echo on the screen, idle and while an answer streams",
        measure: Measure::Product(terminal::echo),
    },
    Workload {
        name: "memory",
        what: "server, terminal interface and one worker after a first turn; further idle workers",
        measure: Measure::Product(memory::run),
    },
    Workload {
        name: "idle",
        what: "a session open and idle: wake-ups that nothing asked for",
        measure: Measure::Product(memory::idle),
    },
    Workload {
        name: "wire-call",
        what: "routed calls of 200 B, one and 64 in flight",
        measure: Measure::Wire("call"),
    },
    Workload {
        name: "wire-body",
        what: "routed calls of 64 KiB, one and 64 in flight",
        measure: Measure::Wire("body"),
    },
    Workload {
        name: "wire-mixed",
        what: "small calls while outputs of 64 KiB saturate their connection",
        measure: Measure::Wire("mixed"),
    },
    Workload {
        name: "wire-fanout",
        what: "10,000 updates of a 4 KiB cell, 8 replicas, one stalled",
        measure: Measure::Wire("fanout"),
    },
    Workload {
        name: "wire-change",
        what: "a small change of a 1 MiB state, 100 clients",
        measure: Measure::Wire("change"),
    },
    Workload {
        name: "wire-attach",
        what: "attach to 50 cells of 4 KiB while a writer changes them; switch",
        measure: Measure::Wire("attach"),
    },
    Workload {
        name: "wire-idle",
        what: "1,000 clients that do nothing",
        measure: Measure::Wire("idle"),
    },
    Workload {
        name: "wire-local",
        what: "a call through a handle in one process",
        measure: Measure::Wire("local"),
    },
    Workload {
        name: "store-commit",
        what: "a commit as the harness makes it, against a bare transaction of the same rows",
        measure: Measure::Store("commit"),
    },
    Workload {
        name: "store-large",
        what: "a session of 100,000 entries and 70 MB: open, last screen, jump, append, memory",
        measure: Measure::Store("large"),
    },
    Workload {
        name: "durable-answer",
        what: "answers to durable requests over all hops, one and 64 that race",
        measure: Measure::Durable("answer"),
    },
    Workload {
        name: "durable-restore",
        what: "1,000 durable requests that wait, found when their session is taken up",
        measure: Measure::Durable("restore"),
    },
    Workload {
        name: "durable-turn",
        what: "a turn with 20 tool calls, on the disk and in memory",
        measure: Measure::Durable("turn"),
    },
    Workload {
        name: "durable-list",
        what: "10,000 sessions, listed without one of their databases",
        measure: Measure::Durable("list"),
    },
    Workload {
        name: "durable-recovery",
        what: "a session killed in a turn, opened again",
        measure: Measure::DurableProduct("recovery"),
    },
    Workload {
        name: "session-registry",
        what: "200 plugins with 20 tools each, 5 wrappers on 50: one is removed; a snapshot is read",
        measure: Measure::Registry("registry"),
    },
    Workload {
        name: "session-output",
        what: "100 MB of a tool's text, bounded and saved",
        measure: Measure::Durable("output"),
    },
    Workload {
        name: "session-subagent",
        what: "a subagent that makes one tool call and returns, the model's time apart",
        measure: Measure::DurableProduct("subagent"),
    },
    Workload {
        name: "session-parallel",
        what: "40 sessions of one server that stream at once, against one",
        measure: Measure::DurableProduct("parallel"),
    },
];
