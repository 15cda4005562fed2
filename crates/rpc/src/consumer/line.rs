//! One connection's outgoing half: the calls in flight and the subscriptions, by id.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::held::HeldReference;
use super::replicas::Replicas;
use super::unread::Arrivals;
use crate::error::{Envelope, ErrorCode, RpcError};
use crate::limits::Limits;
use crate::sync::lock;
use crate::wire::{Frame, Header, Kind, Outbox, OutboxError};

/// What came back for a call.
#[derive(Debug)]
pub(crate) enum Reply {
    Value(Bytes),
    /// An object that stays with the peer.
    Reference(HeldReference),
    /// The contract's own error.
    Declared(Envelope),
    Failed(RpcError),
}

/// One connection's outgoing half.
pub(crate) struct Line {
    outbox: Outbox,
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    closed: bool,
    /// The incarnations that frames may go under; what begins under another would never be answered.
    routes: Vec<u64>,
    calls: HashMap<u64, Pending, BuildHasherDefault<IdHasher>>,
    subscriptions: HashMap<u64, Subscribed, BuildHasherDefault<IdHasher>>,
}

struct Pending {
    route: Option<u64>,
    reply: oneshot::Sender<Reply>,
}

struct Subscribed {
    route: Option<u64>,
    follower: Follower,
    /// Bytes received, or taken, since the window was last widened.
    received: u64,
}

/// Where the frames of a subscription go.
#[derive(Clone)]
enum Follower {
    /// Read as they come, which widens the window.
    Replicas(Weak<Replicas>),
    /// Kept until somebody takes them, which widens the window.
    Unread(Weak<Arrivals>),
}

/// Ids are counted, so they need no mixing beyond one multiplication.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// A call that was sent. Dropping it tells the peer to stop.
pub(crate) struct Begun {
    line: Arc<Line>,
    id: u64,
    route: Option<u64>,
    pub(crate) reply: oneshot::Receiver<Reply>,
}

impl Line {
    pub(crate) fn new(outbox: Outbox, limits: Limits) -> Arc<Self> {
        Arc::new(Line {
            outbox,
            limits,
            inner: Mutex::default(),
        })
    }

    /// Sends a call; `header` lacks only its id.
    pub(crate) fn call(
        self: &Arc<Self>,
        mut header: Header<'_>,
        payload: Bytes,
    ) -> Result<Begun, RpcError> {
        let (sender, receiver) = oneshot::channel();
        let mut inner = lock(&self.inner);
        inner.check(header.route)?;
        if inner.calls.len() >= self.limits.calls {
            return Err(RpcError::new(
                ErrorCode::ResourceExhausted,
                format!(
                    "{} calls are in flight on this connection; wait for some to end",
                    inner.calls.len()
                ),
            ));
        }
        inner.last += 1;
        let id = inner.last;
        header.id = id;
        inner.calls.insert(
            id,
            Pending {
                route: header.route,
                reply: sender,
            },
        );
        drop(inner);
        let begun = Begun {
            line: Arc::clone(self),
            id,
            route: header.route,
            reply: receiver,
        };
        let sent = self.send(&header, payload);
        if let Err(error) = sent {
            lock(&self.inner).calls.remove(&id);
            return Err(error);
        }
        Ok(begun)
    }

    fn send(&self, header: &Header<'_>, payload: Bytes) -> Result<(), RpcError> {
        let frame = Frame {
            header: header.encode(),
            payload,
        };
        if frame.len() > self.limits.message {
            return Err(RpcError::new(
                ErrorCode::FrameTooLarge,
                format!(
                    "a message of {} bytes passes the limit of {}; send it in parts",
                    frame.len(),
                    self.limits.message
                ),
            ));
        }
        self.outbox.try_send(frame).map_err(|error| match error {
            OutboxError::Closed => disconnected(),
            OutboxError::Full => RpcError::new(
                ErrorCode::ResourceExhausted,
                "the peer does not read what waits for it; try again later",
            ),
        })
    }

    /// Subscribes to a service; frames go to `replicas` until it is dropped or [`Line::unsubscribe`] is called.
    pub(crate) fn subscribe(
        &self,
        header: Header<'_>,
        replicas: Weak<Replicas>,
    ) -> Result<u64, RpcError> {
        self.begin(header, Follower::Replicas(replicas))
    }

    /// Subscribes to a service whose frames nobody here reads.
    pub(super) fn subscribe_unread(
        &self,
        header: Header<'_>,
        arrivals: &Arc<Arrivals>,
    ) -> Result<u64, RpcError> {
        self.begin(header, Follower::Unread(Arc::downgrade(arrivals)))
    }

    fn begin(&self, mut header: Header<'_>, follower: Follower) -> Result<u64, RpcError> {
        let mut inner = lock(&self.inner);
        inner.check(header.route)?;
        inner.last += 1;
        let id = inner.last;
        header.id = id;
        header.credit = Some(self.limits.window);
        inner.subscriptions.insert(
            id,
            Subscribed {
                route: header.route,
                follower,
                received: 0,
            },
        );
        drop(inner);
        self.send(&header, Bytes::new()).inspect_err(|_| {
            lock(&self.inner).subscriptions.remove(&id);
        })?;
        Ok(id)
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        let Some(subscribed) = lock(&self.inner).subscriptions.remove(&id) else {
            return;
        };
        self.post(&Header::of(Kind::Unsubscribe, id, subscribed.route));
    }

    /// Sends a frame that nobody waits for; a closed connection has no use for it.
    fn post(&self, header: &Header<'_>) {
        if let Err(error) = self.send(header, Bytes::new()) {
            tracing::trace!(%error, kind = header.kind.as_str(), "a frame was not sent");
        }
    }

    /// Takes `ok` and `err`.
    pub(crate) fn reply(self: &Arc<Self>, header: &Header<'_>, payload: Bytes) {
        // Given back wherever the reply ends up unread: the caller may have gone meanwhile.
        let reference = header
            .reference
            .filter(|_| header.kind == Kind::Ok)
            .map(|id| HeldReference::new(Arc::clone(self), header.route, id));
        let mut inner = lock(&self.inner);
        // A reply under another incarnation is for a call that was given up.
        if inner
            .calls
            .get(&header.id)
            .is_none_or(|pending| pending.route != header.route)
        {
            return;
        }
        let Some(pending) = inner.calls.remove(&header.id) else {
            return;
        };
        drop(inner);
        let reply = match (header.kind, reference) {
            (_, Some(reference)) => Reply::Reference(reference),
            (Kind::Ok, None) => Reply::Value(payload),
            _ => match serde_json::from_slice::<Envelope>(&payload) {
                Ok(envelope) if header.declared => Reply::Declared(envelope),
                Ok(envelope) => Reply::Failed(envelope.into_rpc()),
                Err(error) => Reply::Failed(RpcError::new(
                    ErrorCode::InvalidResult,
                    format!("the peer's error cannot be read: {error}"),
                )),
            },
        };
        // The caller may have gone meanwhile; then nobody wants the reply.
        drop(pending.reply.send(reply));
    }

    /// Takes `snapshot`, `state`, `event` and `closed`.
    pub(crate) fn deliver(&self, header: &Header<'_>, payload: &Bytes) {
        let mut inner = lock(&self.inner);
        let Some(subscribed) = inner.subscriptions.get_mut(&header.id) else {
            return;
        };
        if subscribed.route != header.route {
            return;
        }
        let route = subscribed.route;
        let follower = subscribed.follower.clone();
        let credit = match follower {
            Follower::Replicas(_) => subscribed.take(payload.len() as u64, self.limits.window),
            Follower::Unread(_) => None,
        };
        if header.kind == Kind::Closed {
            inner.subscriptions.remove(&header.id);
        }
        drop(inner);
        match follower {
            Follower::Replicas(replicas) => {
                if let Some(replicas) = replicas.upgrade() {
                    replicas.deliver(header, payload);
                }
            }
            Follower::Unread(arrivals) => {
                if let Some(arrivals) = arrivals.upgrade() {
                    arrivals.deliver(header, payload);
                }
            }
        }
        if let Some(credit) = credit
            && header.kind != Kind::Closed
        {
            self.widen(header.id, route, credit);
        }
    }

    /// So many bytes of an unread subscription were taken.
    pub(super) fn consumed(&self, id: u64, bytes: u64) {
        let mut inner = lock(&self.inner);
        let Some(subscribed) = inner.subscriptions.get_mut(&id) else {
            return;
        };
        let route = subscribed.route;
        let credit = subscribed.take(bytes, self.limits.window);
        drop(inner);
        if let Some(credit) = credit {
            self.widen(id, route, credit);
        }
    }

    fn widen(&self, id: u64, route: Option<u64>, credit: u64) {
        self.post(&Header {
            credit: Some(credit),
            ..Header::of(Kind::Credit, id, route)
        });
    }

    /// Whether frames may go under `route`.
    pub(super) fn is_open(&self, route: Option<u64>) -> bool {
        lock(&self.inner).check(route).is_ok()
    }

    /// Gives back a reference; an ended connection or attachment has given back all of its own.
    pub(super) fn release(&self, reference: u64, route: Option<u64>) {
        if !self.is_open(route) {
            return;
        }
        let header = Header {
            reference: Some(reference),
            ..Header::of(Kind::Release, 0, route)
        };
        // Never refused for a full queue: what is not given back would be kept for good.
        let sent = self.outbox.send(Frame {
            header: header.encode(),
            payload: Bytes::new(),
        });
        if let Err(error) = sent {
            tracing::trace!(%error, "a release was not sent");
        }
    }

    /// Lets frames go under `route`.
    pub(crate) fn open_route(&self, route: u64) {
        lock(&self.inner).routes.push(route);
    }

    /// Gives up everything that went over `route`: the attachment has ended.
    pub(crate) fn end_route(&self, route: u64, error: &RpcError) {
        let mut inner = lock(&self.inner);
        inner.routes.retain(|open| *open != route);
        let ended: Vec<_> = inner
            .calls
            .extract_if(|_, pending| pending.route == Some(route))
            .collect();
        let unfollowed: Vec<_> = inner
            .subscriptions
            .extract_if(|_, subscribed| subscribed.route == Some(route))
            .collect();
        drop(inner);
        for (_, pending) in ended {
            drop(pending.reply.send(Reply::Failed(error.clone())));
        }
        lose(unfollowed, error);
    }

    /// Gives up everything: the connection has ended.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let unfollowed = std::mem::take(&mut inner.subscriptions);
        let calls = std::mem::take(&mut inner.calls);
        drop(inner);
        let unreached = disconnected();
        for (_, pending) in calls {
            drop(pending.reply.send(Reply::Failed(RpcError::new(
                ErrorCode::Disconnected,
                "the connection was lost while the call ran; whether it took effect is not known",
            ))));
        }
        lose(unfollowed, &unreached);
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Line")
    }
}

impl Inner {
    fn check(&self, route: Option<u64>) -> Result<(), RpcError> {
        match route {
            _ if self.closed => Err(disconnected()),
            Some(route) if !self.routes.contains(&route) => Err(RpcError::new(
                ErrorCode::NotAttached,
                "the attachment changed just now; call again",
            )),
            _ => Ok(()),
        }
    }
}

impl Subscribed {
    /// Counts what came; answers by how much to widen the window, if it is time.
    fn take(&mut self, bytes: u64, window: u64) -> Option<u64> {
        self.received += bytes;
        (self.received >= window / 2).then(|| std::mem::take(&mut self.received))
    }
}

/// Marks what references showed as stale: unlike services, they do not come back. Nor does what is unread.
fn lose(unfollowed: impl IntoIterator<Item = (u64, Subscribed)>, error: &RpcError) {
    for (_, subscribed) in unfollowed {
        match subscribed.follower {
            Follower::Replicas(replicas) => {
                if let Some(replicas) = replicas.upgrade() {
                    replicas.lose_reference();
                }
            }
            Follower::Unread(arrivals) => {
                if let Some(arrivals) = arrivals.upgrade() {
                    arrivals.end(error.clone());
                }
            }
        }
    }
}

fn disconnected() -> RpcError {
    RpcError::new(
        ErrorCode::Disconnected,
        "there is no connection; wait until it is restored",
    )
}

impl Drop for Begun {
    fn drop(&mut self) {
        if lock(&self.line.inner).calls.remove(&self.id).is_some() {
            self.line
                .post(&Header::of(Kind::Cancel, self.id, self.route));
        }
    }
}
