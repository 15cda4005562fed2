//! Counts what arrives over a connection, and can stop reading as a frozen process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as Poller, Poll};

use bezel_rpc::{Connect, ConnectError, Context, Frame, FrameSource, Transport, TransportError};
use futures::future::BoxFuture;
use futures::task::AtomicWaker;

/// What arrived.
#[derive(Default)]
pub struct Meter {
    frames: AtomicU64,
    bytes: AtomicU64,
    updates: AtomicU64,
    update_bytes: AtomicU64,
    stalled: AtomicBool,
    waker: AtomicWaker,
}

impl Meter {
    /// Bytes of all frames.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames that brought a change of state.
    pub fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }

    pub fn update_bytes(&self) -> u64 {
        self.update_bytes.load(Ordering::Relaxed)
    }

    /// Stops reading, or reads again.
    pub fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
        self.waker.wake();
    }

    fn count(&self, frame: &Frame) {
        let length = frame.len() as u64 + 4;
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(length, Ordering::Relaxed);
        if frame.header.starts_with(b"{\"k\":\"state\"") {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.update_bytes.fetch_add(length, Ordering::Relaxed);
        }
    }
}

struct Metered {
    inner: Box<dyn FrameSource>,
    meter: Arc<Meter>,
}

impl FrameSource for Metered {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        self.meter.waker.register(poller.waker());
        if self.meter.stalled.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let received = self.inner.poll_recv(poller);
        if let Poll::Ready(Ok(Some(frame))) = &received {
            self.meter.count(frame);
        }
        received
    }
}

/// Counts what comes in over `transport`.
pub fn metered(transport: Transport, meter: &Arc<Meter>) -> Transport {
    Transport {
        incoming: Box::new(Metered {
            inner: transport.incoming,
            meter: Arc::clone(meter),
        }),
        ..transport
    }
}

/// A way to connect whose connections are counted.
pub struct MeteredDial {
    pub inner: Arc<dyn Connect>,
    pub meter: Arc<Meter>,
}

impl Connect for MeteredDial {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        Box::pin(async { Ok(metered(self.inner.connect(cx).await?, &self.meter)) })
    }
}
