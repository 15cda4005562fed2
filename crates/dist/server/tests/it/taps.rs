//! A connection whose received frames are kept.

use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll, ready};

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, Frame, FrameSource, Transport, TransportError};
use futures::FutureExt;
use futures::future::BoxFuture;

#[derive(Clone)]
pub struct Tap {
    inner: Arc<dyn Connect>,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    pub fn new(inner: Arc<dyn Connect>) -> Arc<Self> {
        Arc::new(Tap {
            inner,
            received: Arc::default(),
        })
    }

    /// Everything that came, as text.
    pub fn received(&self) -> String {
        String::from_utf8(self.received.lock().unwrap().clone()).unwrap()
    }
}

impl Connect for Tap {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        async move {
            let transport = self.inner.connect(cx).await?;
            let source = Source {
                inner: transport.incoming,
                received: Arc::clone(&self.received),
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
    received: Arc<Mutex<Vec<u8>>>,
}

impl FrameSource for Source {
    fn poll_recv(
        &mut self,
        poller: &mut Poller<'_>,
    ) -> Poll<Result<Option<Frame>, TransportError>> {
        let frame = ready!(self.inner.poll_recv(poller));
        if let Ok(Some(frame)) = &frame {
            let mut received = self.received.lock().unwrap();
            received.extend_from_slice(&frame.header);
            received.push(b'\n');
            received.extend_from_slice(&frame.payload);
            received.push(b'\n');
        }
        Poll::Ready(frame)
    }
}
