//! A bare broadcast: a worker writes frames, a router copies them to every reader.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::frames::frame;
use crate::process::{answer_questions, ready, serve_until_unneeded};
use crate::samples::{answer, microseconds};

/// Frames that the worker writes at once, as many as the product's writer changes between two rests.
const AT_ONCE: usize = 16;

/// Gives every reader what the worker, which connects first, writes; takes the readers' wish to it.
pub fn router(socket: &str, readers: usize) -> Result<()> {
    let listener = UnixListener::bind(socket).context("listen")?;
    std::thread::spawn(move || -> Result<()> {
        let (mut worker, _) = listener.accept()?;
        let streams: Result<Vec<UnixStream>, _> =
            (0..readers).map(|_| Ok(listener.accept()?.0)).collect();
        let mut streams: Vec<UnixStream> = streams.map_err(|error: std::io::Error| error)?;
        let first = streams.first().context("there is a reader")?;
        let (mut wishes, mut to_worker) = (first.try_clone()?, worker.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut wishes, &mut to_worker));
        let mut buffer = vec![0; 128 * 1024];
        loop {
            let length = worker.read(&mut buffer)?;
            if length == 0 {
                bail!("the worker ended");
            }
            for stream in &mut streams {
                stream.write_all(&buffer[..length])?;
            }
        }
    });
    serve_until_unneeded()
}

/// Writes as many frames of such a size as it is asked for.
pub fn worker(socket: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    ready()?;
    loop {
        let mut wish = [0; 16];
        stream.read_exact(&mut wish)?;
        let [count, size] = [&wish[..8], &wish[8..]].map(number);
        let batch = frame(size).repeat(AT_ONCE.min(count.max(1)));
        let mut left = count;
        while left > 0 {
            let now = left.min(AT_ONCE);
            stream.write_all(&batch[..now * size])?;
            left -= now;
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | usize::from(*byte))
}

/// Asks for `COUNT SIZE` and waits until every reader has all of it.
pub fn readers(socket: &str, readers: usize) -> Result<()> {
    let streams: Result<Vec<UnixStream>, _> =
        (0..readers).map(|_| UnixStream::connect(socket)).collect();
    let streams = streams?;
    answer_questions(|question| {
        let (count, size) = question.split_once(' ').context("COUNT SIZE")?;
        let (count, size): (usize, usize) = (count.parse()?, size.parse()?);
        let total = count * size;
        let started = Instant::now();
        let mut first = streams.first().context("there is a reader")?;
        first.write_all(&(count as u64).to_be_bytes())?;
        first.write_all(&(size as u64).to_be_bytes())?;
        std::thread::scope(|scope| -> Result<()> {
            let read = |mut stream: &UnixStream| -> Result<()> {
                let mut buffer = vec![0; 128 * 1024];
                let mut left = total;
                while left > 0 {
                    let room = left.min(buffer.len());
                    let length = stream.read(&mut buffer[..room])?;
                    if length == 0 {
                        bail!("the router ended");
                    }
                    left -= length;
                }
                Ok(())
            };
            let threads: Vec<_> = streams
                .iter()
                .map(|stream| scope.spawn(move || read(stream)))
                .collect();
            for thread in threads {
                thread.join().expect("readers do not panic")?;
            }
            Ok(())
        })?;
        Ok(answer([("everywhere", microseconds(started))]))
    })
}
