//! Attaches and switches, and takes the time until all cells are there.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use bezel_context::{Context, TaskScope};
use bezel_rpc::State;

use super::client::Client;
use super::contract::{BoardClient, Page, cells};
use crate::process::answer_questions;
use crate::raw::evented::runtime;
use crate::samples::{Answer, answer, microseconds, quantile};

/// The targets, each with its own worker.
const TARGETS: [&str; 2] = ["one", "two"];

pub fn attacher(socket: &str) -> Result<()> {
    let runtime = runtime()?;
    let scope = TaskScope::new();
    answer_questions(|question| {
        runtime.block_on(async {
            match question.split_once(' ') {
                Some(("churn", on)) => churn(&scope, socket, on == "on").await,
                Some(("attach", times)) => attach(&scope, socket, times.parse()?).await,
                Some(("over", path)) => attach(&scope, path, 3).await,
                _ => bail!("there is no such question"),
            }
        })
    })
}

/// Turns the writers of both targets on or off.
async fn churn(scope: &TaskScope, socket: &str, on: bool) -> Result<Answer> {
    let cx = Context::background();
    let client = Client::connect(scope, socket).await?;
    let board: BoardClient = client.attached.use_service();
    for target in TARGETS {
        client.attach(&cx, target).await?;
        board.churn(&cx, on).await?;
    }
    client.stop().await;
    Ok(answer([]))
}

/// First attachments of fresh clients, each followed by a switch.
async fn attach(scope: &TaskScope, socket: &str, times: usize) -> Result<Answer> {
    let [one, two] = TARGETS;
    let (mut firsts, mut switches) = (Vec::new(), Vec::new());
    let (mut reads, mut bytes) = (Vec::new(), Vec::new());
    for _ in 0..times {
        let client = Client::metered(scope, socket).await?;
        let board: BoardClient = client.attached.use_service();
        let cells = cells(&board);
        let before = client.meter.bytes();
        let started = Instant::now();
        firsts.push(hydrate(&client, &cells, one).await?);
        for cell in &cells {
            ensure!(cell.get().owner == one, "a cell is another target's");
        }
        reads.push(microseconds(started));
        bytes.push((client.meter.bytes() - before) as f64);
        switches.push(hydrate(&client, &cells, two).await?);
        client.stop().await;
    }
    Ok(answer([
        ("attach", quantile(&mut firsts, 0.5)),
        ("switch", quantile(&mut switches, 0.5)),
        ("read", quantile(&mut reads, 0.5)),
        ("bytes", quantile(&mut bytes, 0.5)),
    ]))
}

/// Microseconds from the wish to be attached until every cell is the target's. They come all at once.
async fn hydrate(client: &Client, cells: &[State<Page>], target: &str) -> Result<f64> {
    let cx = Context::background();
    let started = Instant::now();
    client
        .control
        .attach(&cx, target.to_owned())
        .await
        .context("attach")?;
    let last = cells.last().context("there are cells")?;
    last.wait_for(&cx, |page| page.owner == target).await?;
    let up_to_date = |cell: &State<Page>| cell.is_ready() && !cell.is_stale();
    ensure!(cells.iter().all(up_to_date), "the cells came apart");
    Ok(microseconds(started))
}
