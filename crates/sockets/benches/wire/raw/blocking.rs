//! The two-hop echo with blocking reads and writes: client, router, worker and back. One write per wake-up.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::frames::{Frames, frame};
use crate::process::{answer_questions, ready, serve_until_unneeded};
use crate::samples::{Answer, Calls, answer, latencies, microseconds, rate};

/// Before the length of what is to be copied, in a frame that asks for that.
const COPY: u8 = b'c';

/// Passes whole frames from one side to the other.
fn relay(mut from: UnixStream, mut to: UnixStream) -> Result<()> {
    let mut frames = Frames::default();
    loop {
        let read = from.read(frames.room())?;
        frames.read(read)?;
        let (whole, _) = frames.whole();
        to.write_all(whole)?;
        let length = whole.len();
        frames.consume(length);
    }
}

/// Joins the first that connects, the worker, with the second, the client.
pub fn router(socket: &str) -> Result<()> {
    let listener = UnixListener::bind(socket).context("listen")?;
    std::thread::spawn(move || -> Result<()> {
        let (worker, _) = listener.accept()?;
        let (client, _) = listener.accept()?;
        let (back, forth) = (worker.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || relay(back, forth));
        relay(client, worker)
    });
    serve_until_unneeded()
}

/// Sends back what it is sent, and after that as many bytes as it is asked for.
pub fn worker(socket: &str) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    ready()?;
    let mut frames = Frames::default();
    let mut copied = Vec::new();
    loop {
        let read = stream.read(frames.room())?;
        frames.read(read)?;
        let (whole, _) = frames.whole();
        stream.write_all(whole)?;
        let length = whole.len();
        if let [_, _, _, _, COPY, size @ ..] = whole
            && let Some(size) = size.first_chunk()
        {
            let size = u64::from_be_bytes(*size) as usize;
            if copied.len() != size {
                copied = frame(size);
            }
            stream.write_all(&copied)?;
        }
        frames.consume(length);
    }
}

struct Caller {
    stream: UnixStream,
    frames: Frames,
}

impl Caller {
    /// Waits for at least one frame; answers how many came.
    fn receive(&mut self) -> Result<usize> {
        loop {
            let read = self.stream.read(self.frames.room())?;
            self.frames.read(read)?;
            let (whole, count) = self.frames.whole();
            if count > 0 {
                let length = whole.len();
                self.frames.consume(length);
                return Ok(count);
            }
        }
    }

    fn one_at_a_time(&mut self, calls: Calls) -> Result<Answer> {
        let sent = frame(calls.size);
        let mut samples = Vec::with_capacity(calls.count);
        for _ in 0..calls.count {
            let started = Instant::now();
            self.stream.write_all(&sent)?;
            self.receive()?;
            samples.push(microseconds(started));
        }
        Ok(latencies(samples))
    }

    fn many(&mut self, calls: Calls) -> Result<Answer> {
        if calls.size * calls.in_flight > 64 * 1024 {
            bail!("so much in flight would block both sides");
        }
        let sent = frame(calls.size).repeat(calls.in_flight);
        let started = Instant::now();
        self.stream.write_all(&sent)?;
        let (mut begun, mut ended) = (calls.in_flight, 0);
        while ended < calls.count {
            let came = self.receive()?;
            ended += came;
            let next = came.min(calls.count.saturating_sub(begun));
            begun += next;
            self.stream.write_all(&sent[..next * calls.size])?;
        }
        Ok(rate(calls.count, started.elapsed()))
    }

    /// One echo, and a copy of `size` bytes behind it.
    fn copy(&mut self, size: usize) -> Result<Answer> {
        let mut sent = frame(200);
        sent[4] = COPY;
        sent[5..13].copy_from_slice(&(size as u64).to_be_bytes());
        let started = Instant::now();
        self.stream.write_all(&sent)?;
        let mut came = 0;
        while came < 2 {
            came += self.receive()?;
        }
        Ok(answer([("copy", microseconds(started))]))
    }
}

pub fn caller(socket: &str) -> Result<()> {
    let mut caller = Caller {
        stream: UnixStream::connect(socket)?,
        frames: Frames::default(),
    };
    answer_questions(|question| {
        if let Some(size) = question.strip_prefix("copy ") {
            return caller.copy(size.parse()?);
        }
        let calls = Calls::parse(question)?;
        match calls.in_flight {
            1 => caller.one_at_a_time(calls),
            _ => caller.many(calls),
        }
    })
}
