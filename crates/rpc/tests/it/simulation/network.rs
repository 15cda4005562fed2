//! A network of byte streams: each connection has its own delays and is cut into chunks as it likes;
//! what one connection carries keeps its order, what several carry does not; any byte may be the last.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context as Poller, Poll, Waker, ready};
use std::time::Duration;

use bezel_rpc::{
    Acceptor, Connect, ConnectError, Context, Drained, Frame, FrameDecoder, FrameEncoder,
    FrameSink, FrameSource, Outbox, PeerIdentity, Transport, TransportError,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep};

use super::random::Random;

/// Bytes that one direction holds before its writer has to wait, as a socket's buffer does.
const BUFFER: usize = 64 * 1024;

/// Sees every frame that one end of one connection received.
pub type Watch = Arc<dyn Fn(u64, End, &Frame) + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The side that dialled.
    Dialler,
    /// The server's side.
    Server,
}

pub struct Network {
    random: Random,
    connections: Mutex<Vec<Weak<Connection>>>,
    last: Mutex<u64>,
    /// Nothing is cut, refused or lost any more.
    healed: AtomicBool,
    watch: Watch,
}

struct Connection {
    /// To the server, and from it.
    pipes: [Pipe; 2],
    keeps_alive: bool,
}

#[derive(Default)]
struct Pipe(Mutex<Bytestream>);

#[derive(Default)]
struct Bytestream {
    chunks: VecDeque<(Instant, Bytes)>,
    held: usize,
    /// Bytes that still pass before the connection breaks.
    left: Option<usize>,
    ended: Option<Ending>,
    /// What is written vanishes, and nobody is told.
    swallows: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The writer closed it: what is on its way still arrives.
    Orderly,
    /// The reader has gone: nothing is worth writing.
    Unread,
    Broken,
}

impl Network {
    pub fn new(random: Random, watch: Watch) -> Arc<Self> {
        Arc::new(Network {
            random,
            connections: Mutex::default(),
            last: Mutex::new(0),
            healed: AtomicBool::new(false),
            watch,
        })
    }

    pub fn dial(self: &Arc<Self>, acceptor: &Acceptor) -> Arc<dyn Connect> {
        Arc::new(Dial {
            network: Arc::clone(self),
            acceptor: acceptor.clone(),
        })
    }

    /// Breaks one connection, or lets it break after so many bytes more, or lets its bytes vanish.
    pub fn disturb(&self) {
        let random = &self.random;
        let live: Vec<_> = {
            let mut all = self.connections.lock().expect("lock");
            all.retain(|connection| connection.strong_count() > 0);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        if live.is_empty() {
            return;
        }
        let connection = &live[random.below(live.len() as u64) as usize];
        let direction = random.below(2) as usize;
        match random.below(4) {
            0 => connection.break_now(),
            1 if connection.keeps_alive => connection.pipes[direction].lock().swallows = true,
            _ => connection.pipes[direction].lock().left = Some(random.below(2000) as usize),
        }
    }

    /// From here on everything arrives. Connections that were about to break do so now.
    pub fn heal(&self) {
        self.healed.store(true, Ordering::SeqCst);
        for connection in &*self.connections.lock().expect("lock") {
            let Some(connection) = connection.upgrade() else {
                continue;
            };
            let damaged = |pipe: &Pipe| {
                let stream = pipe.lock();
                stream.left.is_some() || stream.swallows
            };
            if connection.pipes.iter().any(damaged) {
                connection.break_now();
            }
        }
    }

    fn connect(self: &Arc<Self>) -> (Transport, Transport) {
        let random = &self.random;
        let connection = Arc::new(Connection {
            pipes: [Pipe::default(), Pipe::default()],
            keeps_alive: random.one_in(3),
        });
        if !self.healed.load(Ordering::SeqCst) && random.one_in(6) {
            let end = random.below(1500) as usize;
            connection.pipes[random.below(2) as usize].lock().left = Some(end);
        }
        self.connections
            .lock()
            .expect("lock")
            .push(Arc::downgrade(&connection));
        let number = {
            let mut last = self.last.lock().expect("lock");
            *last += 1;
            *last
        };
        let end = |end: End| {
            let (writes, reads) = match end {
                End::Dialler => (0, 1),
                End::Server => (1, 0),
            };
            let source = Source {
                connection: Arc::clone(&connection),
                pipe: reads,
                decoder: FrameDecoder::new(),
                received: Vec::new(),
                frames: Bytes::new(),
                wait: None,
                seen: (number, end, Arc::clone(&self.watch)),
            };
            let sink = Sink {
                connection: Arc::clone(&connection),
                pipe: writes,
                encoder: FrameEncoder::new(),
                random: random.fork(),
                pace: 1 + random.below(20),
            };
            Transport {
                incoming: Box::new(source),
                outgoing: Outbox::new(),
                sink: Some(Box::new(sink)),
                keepalive: connection.keeps_alive.then_some(Duration::from_secs(2)),
            }
        };
        (end(End::Dialler), end(End::Server))
    }
}

struct Dial {
    network: Arc<Network>,
    acceptor: Acceptor,
}

impl Connect for Dial {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async {
            let (random, healed) = (&self.network.random, &self.network.healed);
            tokio::time::sleep(random.milliseconds(15)).await;
            if !healed.load(Ordering::SeqCst) && random.one_in(5) {
                return Err(ConnectError::Unreachable {
                    endpoint: "the simulated server".into(),
                    cause: std::io::ErrorKind::ConnectionRefused.into(),
                });
            }
            let (ours, theirs) = self.network.connect();
            self.acceptor.spawn(theirs, PeerIdentity::local());
            Ok(ours)
        })
    }
}

impl Connection {
    fn break_now(&self) {
        for pipe in &self.pipes {
            let mut stream = pipe.lock();
            stream.chunks.clear();
            stream.end(Ending::Broken);
        }
    }
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Bytestream> {
        self.0.lock().expect("lock")
    }
}

impl Bytestream {
    fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

struct Source {
    connection: Arc<Connection>,
    pipe: usize,
    decoder: FrameDecoder,
    received: Vec<u8>,
    frames: Bytes,
    wait: Option<std::pin::Pin<Box<Sleep>>>,
    seen: (u64, End, Watch),
}

impl FrameSource for Source {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.frames)? {
                let (number, end, watch) = &self.seen;
                watch(*number, *end, &frame);
                return Poll::Ready(Ok(Some(frame)));
            }
            match ready!(self.poll_chunk(poller)) {
                Ok(chunk) => {
                    self.received
                        .extend_from_slice(&std::mem::take(&mut self.frames));
                    self.received.extend_from_slice(&chunk);
                    if self.decoder.missing(&self.received) == 0 {
                        self.frames = std::mem::take(&mut self.received).into();
                    }
                }
                Err(Ending::Broken) => {
                    return Poll::Ready(Err(std::io::Error::from(
                        std::io::ErrorKind::ConnectionReset,
                    )
                    .into()));
                }
                Err(_) if self.received.is_empty() && self.frames.is_empty() => {
                    return Poll::Ready(Ok(None));
                }
                Err(_) => {
                    return Poll::Ready(Err(TransportError::Framing(
                        "the stream ended inside a frame",
                    )));
                }
            }
        }
    }
}

impl Source {
    fn poll_chunk(&mut self, poller: &mut Poller<'_>) -> Poll<Result<Bytes, Ending>> {
        loop {
            let due = {
                let mut stream = self.connection.pipes[self.pipe].lock();
                stream.reader = Some(poller.waker().clone());
                match (stream.chunks.front(), stream.ended) {
                    (Some((due, _)), _) if *due <= Instant::now() => {
                        let (_, chunk) = stream.chunks.pop_front().expect("it is there");
                        stream.held -= chunk.len();
                        if let Some(writer) = stream.writer.take() {
                            writer.wake();
                        }
                        return Poll::Ready(Ok(chunk));
                    }
                    (Some((due, _)), _) => *due,
                    (None, Some(ending)) => return Poll::Ready(Err(ending)),
                    (None, None) => return Poll::Pending,
                }
            };
            let wait = self
                .wait
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if wait.deadline() != due {
                wait.as_mut().reset(due);
            }
            ready!(wait.as_mut().poll(poller));
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.connection.pipes[self.pipe].lock().end(Ending::Unread);
    }
}

struct Sink {
    connection: Arc<Connection>,
    pipe: usize,
    encoder: FrameEncoder,
    random: Random,
    /// The longest that a chunk stays behind the one before it, in milliseconds.
    pace: u64,
}

impl FrameSink for Sink {
    fn poll_drain(
        &mut self,
        outbox: &Outbox,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>> {
        loop {
            match self.encoder.poll_take(outbox, poller) {
                Poll::Ready(Drained::Overflow(bytes)) => {
                    return Poll::Ready(Err(TransportError::Overflow(bytes)));
                }
                Poll::Ready(Drained::End) if self.encoder.is_empty() => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending if self.encoder.is_empty() => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => {}
            }
            let chunk = {
                let mut slices = [IoSlice::new(&[])];
                self.encoder.slices(&mut slices);
                let most = match self.random.below(4) {
                    0 => 1 + self.random.below(8),
                    1 => 1 + self.random.below(200),
                    _ => 1 + self.random.below(20_000),
                };
                Bytes::copy_from_slice(&slices[0][..slices[0].len().min(most as usize)])
            };
            let length = chunk.len();
            ready!(self.poll_write(chunk, poller))?;
            self.encoder.advance(length);
        }
    }
}

impl Sink {
    fn poll_write(
        &mut self,
        mut chunk: Bytes,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<(), TransportError>> {
        let broken = || {
            Poll::Ready(Err(
                std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()
            ))
        };
        let mut stream = self.connection.pipes[self.pipe].lock();
        if stream.ended.is_some() {
            return broken();
        }
        if stream.held >= BUFFER {
            stream.writer = Some(poller.waker().clone());
            return Poll::Pending;
        }
        let last = stream.left.is_some_and(|left| left <= chunk.len());
        if let Some(left) = &mut stream.left {
            chunk.truncate(*left);
            *left -= chunk.len();
        }
        if !stream.swallows && !chunk.is_empty() {
            let after = match self.random.one_in(3) {
                true => self.random.milliseconds(self.pace),
                false => Duration::ZERO,
            };
            let earliest = stream.chunks.back().map_or(Instant::now(), |(due, _)| *due);
            stream.held += chunk.len();
            stream
                .chunks
                .push_back((earliest.max(Instant::now()) + after, chunk));
            if let Some(reader) = stream.reader.take() {
                reader.wake();
            }
        }
        if last {
            // What was written before the break still arrives.
            stream.end(Ending::Broken);
            drop(stream);
            let mut other = self.connection.pipes[1 - self.pipe].lock();
            other.chunks.clear();
            other.end(Ending::Broken);
            return broken();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.connection.pipes[self.pipe].lock().end(Ending::Orderly);
    }
}
