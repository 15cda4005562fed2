//! Sends state and events to subscribers: each as fast as it reads, changes conflated at this end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use bezel_context::TraceCarrier;
use bytes::Bytes;
use futures::task::AtomicWaker;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::served::Served;
use crate::error::{ErrorCode, Failure, RpcError};
use crate::sync::lock;
use crate::wire::{Frame, Header, Kind, Outbox};

/// After state was sent on a connection, further changes wait this long for more of their kind.
const COALESCE: Duration = Duration::from_millis(8);
/// Snapshots wait while so many bytes are queued: many at once must not be taken for a peer that does not read.
const SNAPSHOT_ROOM: usize = 1024 * 1024;
/// Subscriptions that one frame names, so that its header stays small.
const MOST_TARGETS: usize = 128;

/// Sends what changed on one connection.
pub(super) struct Publisher {
    outbox: Outbox,
    pub(super) message: usize,
    /// Whether anything waits, to be seen without the lock.
    dirty: AtomicBool,
    timer: AtomicWaker,
    pub(super) inner: Mutex<Waiting>,
    /// Subscriptions whose snapshot waits for room, in their order.
    starting: Mutex<VecDeque<Arc<Served>>>,
}

#[derive(Default)]
pub(super) struct Waiting {
    dirty: Vec<Arc<Served>>,
    flushed: Option<Instant>,
    due: Option<Instant>,
}

/// A state frame and everybody who gets it.
pub(super) struct Outgoing {
    pub(super) cell: usize,
    pub(super) base: Option<u64>,
    pub(super) revision: u64,
    pub(super) member: &'static str,
    pub(super) trace: TraceCarrier,
    pub(super) payload: Bytes,
    pub(super) targets: SmallVec<[(Option<u64>, u64); 4]>,
}

impl Publisher {
    pub(super) fn new(outbox: Outbox, message: usize) -> Arc<Self> {
        Arc::new(Publisher {
            outbox,
            message,
            dirty: AtomicBool::new(false),
            timer: AtomicWaker::new(),
            inner: Mutex::default(),
            starting: Mutex::default(),
        })
    }

    /// Begins a subscription, as soon as there is room for its snapshot.
    pub(super) fn start(&self, served: Arc<Served>) {
        lock(&self.starting).push_back(served);
        if !self.start_waiting() {
            self.timer.wake();
        }
    }

    /// Begins the subscriptions that there is room for; answers whether that was any.
    pub(super) fn start_waiting(&self) -> bool {
        let mut begun = false;
        loop {
            if lock(&self.starting).is_empty() {
                return begun;
            }
            if self.outbox.waiting() > SNAPSHOT_ROOM {
                self.outbox.tell_of_room();
                // It may have been read meanwhile.
                if self.outbox.waiting() > SNAPSHOT_ROOM {
                    return begun;
                }
            }
            let Some(next) = lock(&self.starting).pop_front() else {
                return begun;
            };
            next.start();
            begun = true;
        }
    }

    /// Sends what waits, so that a response finds its changes delivered.
    pub(super) fn flush(&self) {
        if self.dirty.load(Ordering::Acquire) {
            let mut waiting = lock(&self.inner);
            self.send_changes(&mut waiting, Instant::now());
        }
    }

    /// When to flush next, if anything waits. The connection's task is woken when this changes.
    pub(super) fn poll_due(&self, poller: &mut Poller<'_>) -> Poll<Instant> {
        self.timer.register(poller.waker());
        match lock(&self.inner).due {
            Some(due) => Poll::Ready(due),
            None => Poll::Pending,
        }
    }

    pub(super) fn mark(&self, served: Arc<Served>) {
        let mut waiting = lock(&self.inner);
        waiting.dirty.push(served);
        self.dirty.store(true, Ordering::Release);
        if waiting.due.is_some() {
            return;
        }
        let now = Instant::now();
        match waiting
            .flushed
            .map(|at| at + COALESCE)
            .filter(|due| *due > now)
        {
            // As soon as the connection's task comes to it: by then all who follow the cell are marked.
            None => waiting.due = Some(now),
            Some(due) => waiting.due = Some(due),
        }
        drop(waiting);
        self.timer.wake();
    }

    fn send_changes(&self, waiting: &mut Waiting, now: Instant) {
        waiting.due = None;
        self.dirty.store(false, Ordering::Release);
        let mut outgoing: Vec<Outgoing> = Vec::new();
        let mut oversized = Vec::new();
        for served in std::mem::take(&mut waiting.dirty) {
            served.marked.store(false, Ordering::Release);
            if served.collect(self.message, &mut outgoing).is_err() {
                oversized.push(served);
            }
        }
        if !outgoing.is_empty() {
            waiting.flushed = Some(now);
        }
        for frame in outgoing {
            self.send_state(&frame);
        }
        for served in oversized {
            served.close(too_large(self.message));
        }
    }

    fn send_state(&self, outgoing: &Outgoing) {
        let traceparent = outgoing.trace.traceparent();
        let routed = outgoing.targets.iter().all(|(route, _)| route.is_some());
        for targets in outgoing
            .targets
            .chunks(if routed { MOST_TARGETS } else { 1 })
        {
            let (route, id) = targets[0];
            let header = Header {
                member: Some(outgoing.member),
                base: outgoing.base,
                revision: Some(outgoing.revision),
                trace: Some(&traceparent),
                trace_state: outgoing.trace.tracestate().map(Into::into),
                targets: targets[1..]
                    .iter()
                    .filter_map(|(route, id)| Some(((*route)?, *id)))
                    .collect(),
                ..Header::of(Kind::State, id, route)
            };
            self.send(&header, outgoing.payload.clone());
        }
    }

    /// Queues a frame. A closed connection has no use for it.
    pub(super) fn send(&self, header: &Header<'_>, payload: Bytes) {
        if let Err(error) = self.outbox.send(Frame {
            header: header.encode(),
            payload,
        }) {
            tracing::trace!(%error, kind = header.kind.as_str(), "a frame was not sent");
        }
    }
}

/// Sends `err` or `closed`.
pub(super) fn send_failure(
    publisher: &Publisher,
    kind: Kind,
    id: u64,
    route: Option<u64>,
    failure: Failure,
) {
    let payload = serde_json::to_vec(&failure.envelope).unwrap_or_else(|error| {
        tracing::error!(%error, "an error has no JSON form");
        br#"{"code":"internal","message":"the error itself could not be encoded"}"#.to_vec()
    });
    let header = Header {
        declared: failure.declared,
        ..Header::of(kind, id, route)
    };
    publisher.send(&header, payload.into());
}

pub(super) fn too_large(limit: usize) -> RpcError {
    RpcError::new(
        ErrorCode::FrameTooLarge,
        format!("it passes the limit of {limit} bytes for one message; split it"),
    )
}
