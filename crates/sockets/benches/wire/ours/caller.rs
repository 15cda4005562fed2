//! The caller: latencies and rates of routed calls, alone and beside large outputs.

use std::time::Instant;

use anyhow::{Result, bail};
use bezel_context::{Context, TaskScope};
use futures::StreamExt as _;

use super::client::Client;
use super::contract::TextClient;
use crate::process::answer_questions;
use crate::raw::evented::runtime;
use crate::samples::{Answer, Calls, latencies, microseconds, rate};

/// What an argument object has around the text: `{"text":""}`.
const AROUND: usize = 11;
/// What a large output holds.
const OUTPUT: usize = 64 * 1024;

pub fn caller(socket: &str) -> Result<()> {
    let runtime = runtime()?;
    let scope = TaskScope::new();
    let text = runtime.block_on(async {
        let client = Client::connect(&scope, socket).await?;
        client.attach(&Context::background(), "one").await?;
        anyhow::Ok(client.attached.use_service::<TextClient>())
    })?;
    answer_questions(|question| {
        runtime.block_on(async {
            match question.strip_prefix("beside ") {
                Some(calls) => beside_outputs(&text, Calls::parse(calls)?).await,
                None => call(&text, Calls::parse(question)?).await,
            }
        })
    })
}

/// Text whose argument object has `size` bytes: lines, as files and outputs have them.
fn text_of(size: usize) -> String {
    let mut line = "x".repeat(62);
    line.push('\n');
    // A newline takes two bytes.
    let mut text = String::with_capacity(size);
    let mut left = size - AROUND;
    while left > 64 {
        text.push_str(&line);
        left -= 64;
    }
    text.push_str(&"x".repeat(left));
    text
}

async fn call(client: &TextClient, calls: Calls) -> Result<Answer> {
    let cx = Context::background();
    let text = text_of(calls.size);
    if calls.in_flight == 1 {
        return one_at_a_time(client, &cx, &text, calls.count).await;
    }
    let started = Instant::now();
    let mut answers = futures::stream::iter(0..calls.count)
        .map(|_| client.echo(&cx, text.clone()))
        .buffer_unordered(calls.in_flight);
    while let Some(answer) = answers.next().await {
        if answer?.len() != text.len() {
            bail!("an answer has another length");
        }
    }
    Ok(rate(calls.count, started.elapsed()))
}

async fn one_at_a_time(
    client: &TextClient,
    cx: &Context,
    text: &str,
    count: usize,
) -> Result<Answer> {
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let sent = text.to_owned();
        let started = Instant::now();
        let answer = client.echo(cx, sent).await?;
        samples.push(microseconds(started));
        if answer.len() != text.len() {
            bail!("an answer has another length");
        }
    }
    Ok(latencies(samples))
}

/// Small calls, one at a time, while `in_flight` large outputs are always on their way.
async fn beside_outputs(client: &TextClient, calls: Calls) -> Result<Answer> {
    let cx = Context::background();
    let scope = TaskScope::new();
    let outputs: Vec<_> = (0..calls.in_flight)
        .map(|_| {
            let (client, cx) = (client.clone(), cx.clone());
            scope.spawn("outputs", async move {
                while client.output(&cx, OUTPUT).await.is_ok() {}
            })
        })
        .collect();
    let text = text_of(calls.size);
    let figures = one_at_a_time(client, &cx, &text, calls.count).await;
    for output in outputs {
        output.abort();
    }
    figures
}
