//! The calls that `cargo xtask bench --only wire` makes, over what others offer: a worker that echoes, what
//! routes calls to it, and a caller that answers `SIZE IN_FLIGHT COUNT`, a line at a time.

mod nats;
mod tarpc;

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use tokio::runtime::{Builder, Runtime};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        // As its documentation has it: a thread for each processor.
        ["tarpc", rest @ ..] => tarpc::run(Builder::new_multi_thread().enable_all().build()?, rest),
        ["tarpc-one-thread", rest @ ..] => tarpc::run(one_thread()?, rest),
        ["nats", rest @ ..] => nats::run(one_thread()?, rest),
        _ => bail!("takes tarpc, tarpc-one-thread or nats, and a role"),
    }
}

fn one_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush().context("write")
}

/// Makes the calls that it is asked for; `call` is given how long the text is to be.
fn answer_questions<F>(runtime: &Runtime, call: impl Fn(usize) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    say("ready")?;
    for line in std::io::stdin().lines() {
        let answer = runtime.block_on(measure(&call, &line?))?;
        say(&answer)?;
    }
    Ok(())
}

async fn measure<F>(call: impl Fn(usize) -> F, line: &str) -> Result<String>
where
    F: Future<Output = Result<()>>,
{
    let numbers: Result<Vec<usize>, _> = line.split_whitespace().map(str::parse).collect();
    let &[size, in_flight, count] = numbers?.as_slice() else {
        bail!("`{line}` is not SIZE IN_FLIGHT COUNT");
    };
    if in_flight == 1 {
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            let started = Instant::now();
            call(size).await?;
            samples.push(started.elapsed().as_secs_f64() * 1e6);
        }
        samples.sort_by(f64::total_cmp);
        let at = |fraction: f64| samples[(fraction * (count - 1) as f64).round() as usize];
        return Ok(format!("{{\"p50\":{},\"p99\":{}}}", at(0.5), at(0.99)));
    }
    let started = Instant::now();
    let mut answers = futures::stream::iter(0..count)
        .map(|_| call(size))
        .buffer_unordered(in_flight);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    Ok(format!("{{\"rate\":{rate}}}"))
}
