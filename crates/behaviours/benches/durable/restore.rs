//! 1,000 requests that wait, found again when their session is taken up.

use std::path::Path;
use std::time::Instant;

use bezel_context::{Context, TaskScope};
use bezel_harness::{ChannelId, Harness, RequestChannel, Store};
use bezel_session_types::{Replay, ToolError, ToolOutput};
use bezel_testkit::Turn;
use serde_json::{Value, json};

use crate::bare::Bare;
use crate::process::{cx, runtime, scratch};
use crate::session::{Session, database, take_up, tool};
use crate::{Result, figure, median};

const REQUESTS: usize = 1_000;
const REPEATS: usize = 25;

pub fn run(rounds: usize) -> Result<Vec<Value>> {
    let folder = scratch()?;
    runtime()?.block_on(leave_asked(folder.path()))?;
    let (mut ours, mut bare, mut none) = (Vec::new(), Vec::new(), Vec::new());
    let empty = scratch()?;
    drop(Session::open(empty.path())?);
    for _ in 0..rounds {
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            a.push(restore(folder.path(), REQUESTS)?);
            b.push(select(folder.path())?);
            c.push(restore(empty.path(), 0)?);
        }
        ours.push(median(&mut a) * 1e3);
        bare.push(median(&mut b) * 1e3);
        none.push(median(&mut c) * 1e3);
    }
    Ok(vec![
        figure(
            "take up a session in which 1,000 requests wait",
            "ms",
            &ours,
            Some(("SELECT of their rows and their operation's, decoded", &bare)),
            json!({ "at_most_times": 1.3 }),
        ),
        figure("the same with none", "ms", &none, None, json!("shown")),
    ])
}

fn channel(harness: &Harness) -> Result<RequestChannel> {
    let schema = json!({ "type": "object" });
    Ok(harness.requests(ChannelId::new("bench", "asked"), &schema, &schema)?)
}

/// A turn whose process ends while all its calls wait.
async fn leave_asked(folder: &Path) -> Result<()> {
    let session = Session::open(folder)?;
    let asked = channel(&session.harness)?;
    let mut pending = asked.pending();
    session.set_tools(vec![tool("ask", Replay::Safe, move |cx, invocation| {
        let asked = asked.clone();
        async move {
            let question = json!({ "question": format!("Which colour? {}", invocation.arguments),
                                   "options": [{ "label": "Red" }, { "label": "Blue" }] });
            let answer = asked.wait(&cx, &invocation.invocation_id, question).await;
            let answer = answer.map_err(|error| ToolError::failed(error.to_string()))?;
            Ok(ToolOutput::text(answer.to_string()))
        }
    })]);
    let calls = (0..REQUESTS).map(|number| ("ask", json!({ "number": number })));
    session.model.push(Turn::tool_calls(calls));
    let cx: Context = cx();
    session.prompt(&cx, "ask").await?;
    let all = pending.wait_for(|pending| pending.len() == REQUESTS);
    cx.run(all).await??;
    // As a kill would leave it.
    session.store.stop_after(0);
    Ok(())
}

/// Seconds to take the session up and to find what waits, its database open already.
fn restore(folder: &Path, expected: usize) -> Result<f64> {
    let store = Store::open(database(folder))?;
    let tasks = TaskScope::new();
    let started = Instant::now();
    let harness = take_up(store, folder, &tasks)?;
    let found = channel(&harness)?.pending().borrow().len();
    let seconds = started.elapsed().as_secs_f64();
    match found == expected {
        true => Ok(seconds),
        false => Err(format!("{found} requests of {expected} are there").into()),
    }
}

/// Seconds to read the same rows, over a connection that is open already.
fn select(folder: &Path) -> Result<f64> {
    let bare = Bare::open(&database(folder))?;
    let started = Instant::now();
    let asked = bare.values("memo/", "memo0")?;
    let operation = bare.values("operation/", "operation0")?;
    let seconds = started.elapsed().as_secs_f64();
    match (asked.len(), operation.len()) {
        (REQUESTS, 1) => Ok(seconds),
        found => Err(format!("other rows are there: {found:?}").into()),
    }
}
