//! tarpc with bincode over Unix sockets.

use anyhow::{Result, bail, ensure};
use futures::StreamExt as _;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context, serde_transport::unix};
use tokio::runtime::Runtime;
use tokio::task::spawn;

use crate::{answer_questions, say};

#[tarpc::service]
pub trait Text {
    async fn echo(text: String) -> String;
}

/// Who answers.
#[derive(Clone)]
enum Echo {
    Worker,
    /// Passes calls on to the worker.
    Router(TextClient),
}

impl Text for Echo {
    async fn echo(self, cx: context::Context, text: String) -> String {
        match self {
            Echo::Worker => text,
            Echo::Router(worker) => worker.echo(cx, text).await.expect("the worker answers"),
        }
    }
}

pub fn run(runtime: Runtime, words: &[&str]) -> Result<()> {
    match words {
        ["worker", socket] => runtime.block_on(serve(socket, Echo::Worker)),
        ["router", socket, worker] => runtime.block_on(async {
            let router = Echo::Router(connect(worker).await?);
            serve(socket, router).await
        }),
        ["caller", socket] => {
            let client = runtime.block_on(connect(socket))?;
            answer_questions(&runtime, |size| {
                let client = client.clone();
                async move {
                    let answer = client.echo(context::current(), "x".repeat(size)).await?;
                    ensure!(answer.len() == size, "an answer has another length");
                    Ok(())
                }
            })
        }
        _ => bail!("tarpc takes worker SOCKET, router SOCKET WORKER or caller SOCKET"),
    }
}

async fn connect(socket: &str) -> Result<TextClient> {
    let transport = unix::connect(socket, Bincode::default).await?;
    Ok(TextClient::new(client::Config::default(), transport).spawn())
}

async fn serve(socket: &str, service: Echo) -> Result<()> {
    let mut listener = unix::listen(socket, Bincode::default).await?;
    say("ready")?;
    while let Some(transport) = listener.next().await {
        let channel = BaseChannel::with_defaults(transport?);
        let calls = channel.execute(service.clone().serve());
        spawn(calls.for_each(|call| async {
            spawn(call);
        }));
    }
    Ok(())
}
