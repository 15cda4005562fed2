//! The two-hop echo on tokio, one thread a process, as the product's processes are.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use bezel_context::TaskScope;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::frames::{Frames, frame};
use crate::process::{answer_questions, ready};
use crate::samples::{Answer, Calls, latencies, microseconds};

pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start a runtime")
}

async fn relay(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> Result<()> {
    let mut frames = Frames::default();
    loop {
        let read = from.read(frames.room()).await?;
        frames.read(read)?;
        let (whole, _) = frames.whole();
        to.write_all(whole).await?;
        let length = whole.len();
        frames.consume(length);
    }
}

pub fn router(socket: &str) -> Result<()> {
    runtime()?.block_on(async {
        let listener = UnixListener::bind(socket).context("listen")?;
        ready()?;
        let (worker, _) = listener.accept().await?;
        let (client, _) = listener.accept().await?;
        let ((from_worker, to_worker), (from_client, to_client)) =
            (worker.into_split(), client.into_split());
        let scope = TaskScope::new();
        let back = scope.spawn("back", relay(from_worker, to_client));
        let forth = scope.spawn("forth", relay(from_client, to_worker));
        futures::future::join(back, forth).await;
        Ok(())
    })
}

pub fn worker(socket: &str) -> Result<()> {
    runtime()?.block_on(async {
        let (from, to) = UnixStream::connect(socket).await?.into_split();
        ready()?;
        relay(from, to).await
    })
}

async fn call(stream: &mut UnixStream, frames: &mut Frames, calls: Calls) -> Result<Answer> {
    ensure!(calls.in_flight == 1, "this caller waits for each answer");
    let sent = frame(calls.size);
    let mut samples = Vec::with_capacity(calls.count);
    for _ in 0..calls.count {
        let started = Instant::now();
        stream.write_all(&sent).await?;
        loop {
            let read = stream.read(frames.room()).await?;
            frames.read(read)?;
            let (whole, count) = frames.whole();
            if count > 0 {
                let length = whole.len();
                frames.consume(length);
                break;
            }
        }
        samples.push(microseconds(started));
    }
    Ok(latencies(samples))
}

pub fn caller(socket: &str) -> Result<()> {
    let runtime = runtime()?;
    let mut stream = runtime.block_on(UnixStream::connect(socket))?;
    let mut frames = Frames::default();
    answer_questions(|question| {
        let calls = Calls::parse(question)?;
        runtime.block_on(call(&mut stream, &mut frames, calls))
    })
}
