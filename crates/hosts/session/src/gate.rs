//! A connection that is not tried before the facets are active: a client that attaches finds them all.

use std::sync::Arc;

use bezel_context::Context;
use bezel_rpc::{Connect, ConnectError, Transport};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// Waits for the gate, then connects.
pub(crate) struct Gated {
    inner: Arc<dyn Connect>,
    opened: watch::Receiver<bool>,
}

/// Opens the gate.
pub(crate) struct Gate(watch::Sender<bool>);

impl Gated {
    pub(crate) fn new(inner: Arc<dyn Connect>) -> (Self, Gate) {
        let (sender, opened) = watch::channel(false);
        (Gated { inner, opened }, Gate(sender))
    }
}

impl Gate {
    pub(crate) fn open(self) {
        self.0.send_replace(true);
    }
}

impl Connect for Gated {
    fn connect(&self, cx: &Context) -> BoxFuture<'_, Result<Transport, ConnectError>> {
        let (cx, mut opened) = (cx.clone(), self.opened.clone());
        async move {
            // A host that failed to start drops the gate; its connection goes with it.
            if opened.wait_for(|opened| *opened).await.is_err() {
                std::future::pending::<()>().await;
            }
            self.inner.connect(&cx).await
        }
        .boxed()
    }
}
