//! A subagent that makes one tool call and returns, the model's own time apart: the product's own processes.

use std::time::Duration;

use bezel_chat_contract::ChatClient;
use bezel_testkit::{FakeModelServer, ModelCall, RecordedRequest, Script, SeenPart, Turn};
use serde_json::{Value, json};

use crate::home::{Home, say};
use crate::process::{cx, runtime};
use crate::{Product, Result, figure, median};

const CHILDREN: usize = 30;
/// Requests of a turn: the parent's, the child's two, the parent's again.
const REQUESTS: usize = 4;

pub fn run(rounds: usize, product: &Product<'_>) -> Result<Vec<Value>> {
    let mut rows: [Vec<f64>; 5] = Default::default();
    for round in 0..=rounds {
        let mut samples: [Vec<f64>; 4] = Default::default();
        runtime()?.block_on(measure(product, &mut samples))?;
        // The first warms everything up.
        if round > 0 {
            let [all, ..] = &mut samples;
            let middle = median(all);
            let last = all.last().copied().unwrap_or_default();
            let [_, begin, tool, end] = &mut samples;
            let figures = [middle, last, median(begin), median(tool), median(end)];
            for (row, figure) in rows.iter_mut().zip(figures) {
                row.push(figure);
            }
        }
    }
    let [middle, last, begin, tool, end] = &rows;
    let shown = |name, row| figure(name, "ms", row, None, json!("shown"));
    Ok(vec![
        figure(
            "a subagent with one tool call, the model's time apart, p50",
            "ms",
            middle,
            None,
            json!({ "at_most": 15.0 }),
        ),
        shown("the slowest of a round", last),
        shown("of that until the child asks its model", begin),
        shown("of that the child's tool call", tool),
        shown("of that until the parent asks its model again", end),
    ])
}

/// By what the conversation holds.
fn answer(call: &ModelCall) -> Turn {
    let child = |part: &SeenPart| matches!(part, SeenPart::Text(text) if text.starts_with("CHILD"));
    let is_child = call.parts().any(child);
    match (is_child, call.last_results().is_empty()) {
        (true, true) => Turn::tool_calls([("ls", json!({ "path": "." }))]),
        (true, false) => Turn::text("There is nothing."),
        (false, true) => {
            let arguments = json!({ "description": "look", "prompt": "CHILD: look around" });
            Turn::tool_calls([("subagent", arguments)])
        }
        (false, false) => Turn::text("Nothing."),
    }
}

/// Milliseconds of each turn: all, and its three parts.
async fn measure(product: &Product<'_>, samples: &mut [Vec<f64>; 4]) -> Result<()> {
    let model = FakeModelServer::start(Script::respond(answer)).await?;
    let home = Home::start(product, &model.address().port().to_string())?;
    let client = home.client().await?;
    client.session_in(&home.project()?).await?;
    let chat: ChatClient = client.link.attached().use_service();
    for number in 0..CHILDREN {
        let before = model.requests().len();
        say(&chat, &format!("turn-{number}")).await?;
        chat.wait_idle(&cx()).await?;
        let requests = model.requests().split_off(before);
        let [all, parts @ ..] = samples;
        let taken = apart(&requests)?;
        all.push(taken.iter().sum());
        for (row, part) in parts.iter_mut().zip(taken) {
            row.push(part);
        }
    }
    client.link.stop().await;
    Ok(())
}

/// Milliseconds between an answer and the request after it.
fn apart(requests: &[RecordedRequest]) -> Result<[f64; REQUESTS - 1]> {
    let taken = requests.windows(2).map(|pair| match pair {
        [before, after] => before
            .answered
            .map(|answered| after.arrived.saturating_duration_since(answered)),
        _ => None,
    });
    let taken: Option<Vec<Duration>> = taken.collect();
    let taken: Option<[Duration; REQUESTS - 1]> = taken.and_then(|taken| taken.try_into().ok());
    let taken = taken.ok_or_else(|| format!("the model was asked {} times", requests.len()))?;
    Ok(taken.map(|part| part.as_secs_f64() * 1e3))
}
