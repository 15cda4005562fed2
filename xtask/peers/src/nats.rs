//! Requests through a `nats-server`, with its own client.

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::Client;
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::runtime::Runtime;

use crate::{answer_questions, say};

pub fn run(runtime: Runtime, words: &[&str]) -> Result<()> {
    match words {
        ["worker", port] => runtime.block_on(async {
            let client = connect(port).await?;
            let mut requests = client.subscribe("echo").await?;
            client.flush().await?;
            say("ready")?;
            while let Some(request) = requests.next().await {
                let reply = request.reply.context("a request wants an answer")?;
                client.publish(reply, request.payload).await?;
            }
            Ok(())
        }),
        ["caller", port] => {
            let client = runtime.block_on(connect(port))?;
            answer_questions(&runtime, |size| {
                let client = client.clone();
                async move {
                    let text = Bytes::from("x".repeat(size));
                    let answer = client.request("echo", text).await?;
                    ensure!(answer.payload.len() == size, "an answer has another length");
                    Ok(())
                }
            })
        }
        _ => bail!("nats takes worker PORT or caller PORT"),
    }
}

async fn connect(port: &str) -> Result<Client> {
    Ok(async_nats::connect(format!("nats://127.0.0.1:{port}")).await?)
}
