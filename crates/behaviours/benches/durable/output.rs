//! A tool that returns a great deal of text: the whole of it into the saved file, a bounded part to the model.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bezel_session_types::{Replay, ToolOutput};
use bezel_testkit::Turn;
use serde_json::{Value, json};

use crate::process::{cx, runtime, scratch};
use crate::session::{Session, tool};
use crate::{Result, figure, median};

/// Of the text that the tool returns: 100 MB in lines of 80.
const LINES: usize = 1_250_000;
const LINE: &str =
    "A line of an output, as long as lines of programs often are, and then some more\n";
const REPEATS: usize = 5;

pub fn run(rounds: usize) -> Result<Vec<Value>> {
    let (mut ours, mut bare, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let (small, _) = turn(LINE.to_owned())?;
            let (large, grown) = turn(LINE.repeat(LINES))?;
            a.push((large - small) * 1e3);
            c.push(grown);
            b.push(write()? * 1e3);
        }
        // The first warms everything up.
        if round > 0 {
            ours.push(median(&mut a));
            bare.push(median(&mut b));
            memory.push(median(&mut c));
        }
    }
    Ok(vec![
        // 1 GB a second.
        figure(
            "bound 100 MB of a tool's text, a turn with it less one with a line",
            "ms",
            &ours,
            None,
            json!({ "at_most": 100.0 }),
        ),
        figure(
            "the same, against the bare write",
            "ms",
            &ours,
            Some(("a bare write of the text into a file", &bare)),
            json!("shown"),
        ),
        figure(
            "memory beside the text and its file",
            "MiB",
            &memory,
            None,
            json!({ "at_most": 2.0 }),
        ),
    ])
}

/// Seconds of a turn whose tool returns this text, and MiB that the process had beside it at most.
fn turn(text: String) -> Result<(f64, f64)> {
    let folder = scratch()?;
    runtime()?.block_on(async {
        let session = Session::open(folder.path())?;
        let bytes = text.len();
        let text = Arc::new(Mutex::new(Some(text)));
        session.set_tools(vec![tool("say", Replay::Safe, move |_, _| {
            let said = text.lock().unwrap_or_else(PoisonError::into_inner).take();
            std::future::ready(Ok(ToolOutput::text(said.unwrap_or_default())))
        })]);
        session.model.push(Turn::tool_calls([("say", json!({}))]));
        session.model.push(Turn::text("Done."));
        // The greatest size is counted anew.
        std::fs::OpenOptions::new()
            .write(true)
            .open("/proc/self/clear_refs")?
            .write_all(b"5")?;
        let before = kibibytes("VmRSS")?;
        let started = Instant::now();
        session.turn(&cx(), "say").await?;
        let seconds = started.elapsed().as_secs_f64();
        let grown = (kibibytes("VmHWM")? - before) / 1024.0;
        let saved = std::fs::read_dir(folder.path().join("output"))
            .map_or(0, |files| files.flatten().count());
        match (saved, bytes > LINE.len()) {
            (1, true) | (0, false) => Ok((seconds, grown)),
            _ => Err(format!("{saved} files were saved of {bytes} bytes").into()),
        }
    })
}

/// A size of this process.
fn kibibytes(name: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.next().ok_or_else(|| format!("no {name}"))?;
    let digits = value.trim_matches(|letter: char| !letter.is_ascii_digit());
    Ok(digits.parse()?)
}

/// Seconds to write the text into a file.
fn write() -> Result<f64> {
    let folder = scratch()?;
    let text = LINE.repeat(LINES);
    let started = Instant::now();
    std::fs::write(folder.path().join("bare"), &text)?;
    Ok(started.elapsed().as_secs_f64())
}
