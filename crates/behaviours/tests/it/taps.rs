//! A way to connect that keeps what came, counts attempts, and can be cut.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll, Waker};

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, Frame, FrameSource, Outbox, Transport, TransportError};
use futures::FutureExt;
use futures::future::BoxFuture;

#[derive(Clone)]
pub struct Tap(Arc<Inner>);

struct Inner {
    connect: Mutex<Option<Arc<dyn Connect>>>,
    received: Mutex<Vec<(String, String)>>,
    attempts: AtomicUsize,
    refuses: AtomicBool,
    generation: AtomicUsize,
    reader: Mutex<Option<Waker>>,
    outbox: Mutex<Option<Outbox>>,
}

impl Tap {
    pub fn new(connect: Arc<dyn Connect>) -> Self {
        Tap(Arc::new(Inner {
            connect: Mutex::new(Some(connect)),
            received: Mutex::default(),
            attempts: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            generation: AtomicUsize::new(0),
            reader: Mutex::default(),
            outbox: Mutex::default(),
        }))
    }

    /// Header and payload of everything that came.
    pub fn received(&self) -> Vec<(String, String)> {
        self.0.received.lock().unwrap().clone()
    }

    pub fn forget(&self) {
        self.0.received.lock().unwrap().clear();
    }

    pub fn count(&self, kind: &str) -> usize {
        let mark = format!("\"k\":\"{kind}\"");
        let received = self.0.received.lock().unwrap();
        received
            .iter()
            .filter(|(header, _)| header.contains(&mark))
            .count()
    }

    pub fn attempts(&self) -> usize {
        self.0.attempts.load(Ordering::SeqCst)
    }

    pub fn refuse(&self, refuse: bool) {
        self.0.refuses.store(refuse, Ordering::SeqCst);
    }

    /// Breaks the connection that stands.
    pub fn cut(&self) {
        self.0.generation.fetch_add(1, Ordering::SeqCst);
        if let Some(outbox) = self.0.outbox.lock().unwrap().take() {
            outbox.close();
        }
        if let Some(reader) = self.0.reader.lock().unwrap().take() {
            reader.wake();
        }
    }
}

impl Connect for Tap {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        async move {
            self.0.attempts.fetch_add(1, Ordering::SeqCst);
            if self.0.refuses.load(Ordering::SeqCst) {
                return Err(ConnectError::Unreachable {
                    endpoint: "the test's server".into(),
                    cause: std::io::ErrorKind::ConnectionRefused.into(),
                });
            }
            let connect = self.0.connect.lock().unwrap().clone().unwrap();
            let transport = connect.connect(cx).await?;
            *self.0.outbox.lock().unwrap() = Some(transport.outgoing.clone());
            let source = Source {
                inner: transport.incoming,
                tap: Arc::clone(&self.0),
                generation: self.0.generation.load(Ordering::SeqCst),
            };
            Ok(Transport {
                incoming: Box::new(source),
                ..transport
            })
        }
        .boxed()
    }
}

struct Source {
    inner: Box<dyn FrameSource>,
    tap: Arc<Inner>,
    generation: usize,
}

impl FrameSource for Source {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        *self.tap.reader.lock().unwrap() = Some(poller.waker().clone());
        if self.tap.generation.load(Ordering::SeqCst) != self.generation {
            return Poll::Ready(Err(TransportError::Framing("the test cut it")));
        }
        let polled = self.inner.poll_recv(poller);
        if let Poll::Ready(Ok(Some(frame))) = &polled {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let frame = (text(&frame.header), text(&frame.payload));
            self.tap.received.lock().unwrap().push(frame);
        }
        polled
    }
}
