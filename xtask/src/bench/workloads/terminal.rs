//! The terminal interface in a real terminal: how soon it takes keys, and how soon it shows them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::bench::model::{Instance, ModelServer, short_answer};
use crate::bench::pty::Pty;
use crate::bench::report::{Figure, Reference, Target};
use crate::bench::stats::{Subject, interleave, median, quantile};
use crate::bench::{Bench, floors};

/// Letters that are in no text of the interface and in no control sequence.
const KEYS: [&str; 2] = ["Ж", "Ю"];

/// Switches to the alternate screen: keys are taken from now on.
const SCREEN: &[u8] = b"\x1b[?1049h";

/// Begins one drawn frame.
const FRAME: &[u8] = b"\x1b[?2026h";

/// Starts the interface, types one letter and waits until it is shown. Milliseconds from its start.
fn open(instance: &Instance, arguments: &[&str]) -> Result<(Pty, f64)> {
    let mut command = instance.command();
    command.args(arguments);
    let started = Instant::now();
    let mut pty = Pty::start(command, false)?;
    pty.wait_for(SCREEN)?;
    let [key, _] = KEYS;
    pty.send(key.as_bytes())?;
    pty.wait_for(key.as_bytes())?;
    Ok((pty, started.elapsed().as_secs_f64() * 1e3))
}

/// Starts the interface and sends a first prompt, whose answer holds `shown`.
pub(super) fn open_and_prompt(instance: &Instance, shown: &str) -> Result<Pty> {
    let (mut pty, _) = open(instance, &[])?;
    pty.send(b"\r")?;
    pty.wait_for(shown.as_bytes())?;
    Ok(pty)
}

pub(super) fn start(bench: &Bench) -> Result<Vec<Figure>> {
    let model = ModelServer::start(bench, &short_answer())?;
    let running = Instance::new(bench, model.port)?;
    running.run(&running.project(), &["go"])?;
    let port = model.port;
    let subjects: Vec<Subject<'_, f64>> = vec![
        Box::new(|| Ok(open(&Instance::new(bench, port)?, &[])?.1)),
        Box::new(|| Ok(open(&running, &[])?.1)),
    ];
    let samples = interleave(bench.rounds, subjects)?;
    let middle = |side: usize| median(samples.get(side).map_or(&[][..], Vec::as_slice));
    Ok(vec![
        Figure::new(
            "cold, three processes",
            "ms",
            middle(0),
            None,
            Target::AtMost(60.0),
        ),
        Figure::new(
            "server running",
            "ms",
            middle(1),
            None,
            Target::AtMost(20.0),
        ),
    ])
}

/// An answer of one short word each millisecond.
fn steady_answer(words: usize) -> Value {
    let steps: Vec<Value> = (0..words)
        .flat_map(|_| [json!({ "text": "word " }), json!({ "delay_ms": 1 })])
        .collect();
    json!({ "repeat": { "answer": { "steps": steps } } })
}

pub(super) fn echo(bench: &Bench) -> Result<Vec<Figure>> {
    const COUNT: usize = 100;
    let keys: Vec<&str> = KEYS.iter().copied().cycle().take(COUNT).collect();
    let pause = Duration::from_millis(10);
    let quiet_model = ModelServer::start(bench, &short_answer())?;
    let quiet = Instance::new(bench, quiet_model.port)?;
    let mut idle = open_and_prompt(&quiet, "answer.")?;
    idle.drain(Duration::from_millis(500))?;
    let subjects: Vec<Subject<'_, Vec<f64>>> = vec![
        Box::new(|| {
            let taken = idle.echoes(&keys, pause)?;
            // An empty composer for the next round.
            for _ in &keys {
                idle.send(b"\x7f")?;
            }
            idle.drain(Duration::from_millis(200))?;
            Ok(taken)
        }),
        Box::new(|| floors::cat_echoes(&keys, pause)),
    ];
    let samples = interleave(bench.rounds, subjects)?;
    let side = |side: usize| -> Vec<f64> {
        samples
            .get(side)
            .into_iter()
            .flatten()
            .flatten()
            .copied()
            .collect()
    };

    let busy_model = ModelServer::start(bench, &steady_answer(20_000))?;
    let busy = Instance::new(bench, busy_model.port)?;
    let mut streaming = open_and_prompt(&busy, "word")?;
    let busy_keys: Vec<&str> = KEYS.iter().copied().cycle().take(4 * COUNT).collect();
    let while_streaming = streaming.echoes(&busy_keys, pause)?;
    // Frames that no key asked for.
    let watched = Duration::from_secs(3);
    let seen = streaming.drain(watched)?;
    let frames = seen
        .windows(FRAME.len())
        .filter(|window| *window == FRAME)
        .count();
    ensure!(frames > 0, "no frame was drawn while the answer streamed");
    Ok(vec![
        Figure::new(
            "idle, median",
            "ms",
            median(&side(0)),
            Some(Reference::new("`cat` in a raw terminal", median(&side(1)))),
            Target::AtMostTimes(4.0),
        ),
        Figure::new(
            "while 1,000 deltas a second stream, 99 of 100 within",
            "ms",
            quantile(&while_streaming, 0.99),
            None,
            Target::AtMost(8.0),
        ),
        Figure::new(
            "frames drawn while streaming",
            "/s",
            frames as f64 / watched.as_secs_f64(),
            None,
            Target::AtMost(60.0),
        ),
    ])
}
