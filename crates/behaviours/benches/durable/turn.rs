//! A turn with 20 tool calls, on the disk and in memory, the disk's own syncs apart.
//!
//! Every pair of turns counts by itself, so that what else the machine does at the time hits both of a pair and one
//! that it hits unevenly is one of many.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use bezel_session_types::{Replay, ToolError, ToolOutput};
use bezel_testkit::{Answer, Step, Turn};
use serde_json::{Value, json};

use crate::process::{cx, runtime, scratch};
use crate::session::{Session, tool};
use crate::{Result, figure};

const CALLS: usize = 20;
const TURNS: usize = 10;
/// A file system without a disk.
const MEMORY: &str = "/dev/shm";

pub fn run(rounds: usize) -> Result<Vec<Value>> {
    let mut figures = Vec::new();
    for (name, command, target) in [
        (
            "20 calls of `sh -c true`, the syncs apart",
            Some("true"),
            json!({ "at_most_times": 1.15 }),
        ),
        (
            "20 calls that do nothing, the syncs apart",
            None,
            json!("shown"),
        ),
    ] {
        let (disk, memory) = (scratch()?, tempfile::tempdir_in(MEMORY)?);
        let (mut durable, mut volatile, mut synced) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms everything up.
        for turn in 0..(rounds + 1) * TURNS {
            // What one of a pair does to the other, it does to either.
            let (on_disk, in_memory) = match turn % 2 {
                0 => {
                    let on_disk = take(disk.path(), turn, command)?;
                    (on_disk, take(memory.path(), turn, command)?)
                }
                _ => {
                    let in_memory = take(memory.path(), turn, command)?;
                    (take(disk.path(), turn, command)?, in_memory)
                }
            };
            if turn >= TURNS {
                durable.push((on_disk.seconds - on_disk.syncs) * 1e3);
                volatile.push((in_memory.seconds - in_memory.syncs) * 1e3);
                synced.push(on_disk.syncs * 1e3);
            }
        }
        let theirs = ("the same with the database in memory", volatile.as_slice());
        figures.push(figure(name, "ms", &durable, Some(theirs), target));
        let name = "the syncs of such a turn";
        figures.push(figure(name, "ms", &synced, None, json!("shown")));
    }
    Ok(figures)
}

/// What a turn took.
struct Taken {
    seconds: f64,
    /// How many of them its syncs took.
    syncs: f64,
}

/// Takes a turn whose every call is a request of its own.
fn take(folder: &Path, turn: usize, command: Option<&'static str>) -> Result<Taken> {
    runtime()?.block_on(async {
        let session = Session::open(folder)?;
        let run = move |_, _| async move {
            let Some(command) = command else {
                return Ok(ToolOutput::text("done"));
            };
            let mut shell = tokio::process::Command::new("sh");
            shell.args(["-c", command]).stdin(Stdio::null());
            match shell.status().await {
                Ok(status) => Ok(ToolOutput::text(status.to_string())),
                Err(error) => Err(ToolError::failed(error.to_string())),
            }
        };
        session.set_tools(vec![tool("run", Replay::Never, run)]);
        for number in 0..CALLS {
            let call = Step::call("run", json!({ "number": number }));
            session.model.push(Turn::Answer(Answer {
                steps: vec![call],
                ..Answer::default()
            }));
        }
        session.model.push(Turn::text("Done."));
        let cx = cx();
        let before = session.store.sync_time();
        let started = Instant::now();
        session.turn(&cx, &format!("turn-{turn}")).await?;
        let seconds = started.elapsed().as_secs_f64();
        let synced = session.store.sync_time() - before;
        let asked = session.model.requests().len();
        if asked != CALLS + 1 {
            return Err(format!("the model was asked {asked} times").into());
        }
        Ok(Taken {
            seconds,
            syncs: synced.as_secs_f64(),
        })
    })
}
