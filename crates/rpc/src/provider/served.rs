//! One subscription that this side feeds: its cells, its events, its window.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bezel_context::TraceCarrier;
use bytes::Bytes;
use smallvec::SmallVec;

use super::publish::{Outgoing, Publisher, send_failure, too_large};
use crate::error::RpcError;
use crate::events::{EventOrigin, EventSink};
use crate::state::{Change, Feed, Source};
use crate::sync::lock;
use crate::wire::{Header, Kind};

/// Events that wait for a subscriber's window, per subscription.
const MOST_EVENTS: usize = 1024;
const MOST_EVENT_BYTES: usize = 256 * 1024;
/// One subscription that this side feeds.
pub(super) struct Served {
    itself: Weak<Served>,
    publisher: Arc<Publisher>,
    route: Option<u64>,
    id: u64,
    pub(super) service: &'static str,
    /// The reference whose object is followed; none where it is the service itself.
    pub(super) reference: Option<u64>,
    pub(super) marked: AtomicBool,
    inner: Mutex<Feeding>,
}

struct Feeding {
    phase: Phase,
    cells: Vec<ServedCell>,
    /// Each with what keeps its events coming.
    taps: Vec<(Arc<Tap>, Arc<dyn Any + Send + Sync>)>,
    /// Bytes that may still be sent before the subscriber widens the window.
    window: i64,
    events: VecDeque<QueuedEvent>,
    event_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Active,
    Ended,
}

struct ServedCell {
    member: &'static str,
    source: Arc<dyn Source>,
    /// The revision that the subscriber was brought to.
    base: u64,
}

/// Takes one event source's events to one subscription.
pub(super) struct Tap {
    member: &'static str,
    served: Weak<Served>,
}

enum QueuedEvent {
    Event {
        member: &'static str,
        payload: Bytes,
        trace: TraceCarrier,
    },
    Lost {
        member: &'static str,
        count: u64,
    },
}

impl Served {
    /// A subscription over `cells` and the events behind `taps`; nothing is sent before [`Served::start`].
    pub(super) fn new(
        publisher: &Arc<Publisher>,
        (route, id): (Option<u64>, u64),
        (service, reference): (&'static str, Option<u64>),
        window: u64,
        cells: Vec<(&'static str, Arc<dyn Source>)>,
    ) -> Arc<Self> {
        let cells = cells
            .into_iter()
            .map(|(member, source)| ServedCell {
                member,
                source,
                base: 0,
            })
            .collect();
        Arc::new_cyclic(|itself| Served {
            itself: Weak::clone(itself),
            publisher: Arc::clone(publisher),
            route,
            id,
            service,
            reference,
            marked: AtomicBool::new(false),
            inner: Mutex::new(Feeding {
                phase: Phase::Starting,
                cells,
                taps: Vec::new(),
                window: i64::try_from(window).unwrap_or(i64::MAX),
                events: VecDeque::new(),
                event_bytes: 0,
            }),
        })
    }

    /// Takes the events of `origin` for as long as the subscription lives.
    pub(super) fn follow(&self, origin: &Arc<dyn EventOrigin>, member: &'static str) {
        let tap = Arc::new(Tap {
            member,
            served: Weak::clone(&self.itself),
        });
        let weak: Weak<Tap> = Arc::downgrade(&tap);
        let keep = Arc::clone(origin).attach(weak);
        lock(&self.inner).taps.push((tap, keep));
    }

    /// Follows every cell, then sends one snapshot of all: a change from here on comes after it.
    pub(super) fn start(&self) {
        let sources: Vec<_> = lock(&self.inner)
            .cells
            .iter()
            .map(|cell| Arc::clone(&cell.source))
            .collect();
        for source in sources {
            let feed: Weak<Self> = Weak::clone(&self.itself);
            source.attach(feed);
        }
        let waiting = lock(&self.publisher.inner);
        let mut feeding = lock(&self.inner);
        if feeding.phase != Phase::Starting {
            return;
        }
        let mut values = Vec::with_capacity(feeding.cells.len());
        for cell in &mut feeding.cells {
            let (revision, value) = cell.source.whole();
            cell.base = revision;
            values.push(value);
        }
        let around = |cell: &ServedCell| cell.member.len() + 32;
        let length = feeding.cells.iter().map(around).sum::<usize>()
            + values.iter().map(Bytes::len).sum::<usize>();
        let mut payload = Vec::with_capacity(length + 16);
        payload.extend_from_slice(b"{\"cells\":{");
        for (index, (cell, value)) in feeding.cells.iter().zip(&values).enumerate() {
            if index > 0 {
                payload.push(b',');
            }
            let revision = cell.base;
            payload.extend_from_slice(format!("\"{}\":[{revision},", cell.member).as_bytes());
            payload.extend_from_slice(value);
            payload.push(b']');
        }
        payload.extend_from_slice(b"}}");
        if payload.len() + 1024 > self.publisher.message {
            drop(feeding);
            drop(waiting);
            self.close(too_large(self.publisher.message));
            return;
        }
        feeding.phase = Phase::Active;
        feeding.window -= payload.len() as i64;
        self.publisher.send(
            &Header::of(Kind::Snapshot, self.id, self.route),
            payload.into(),
        );
    }

    /// Adds what this subscriber lacks to `outgoing`, as far as its window goes.
    pub(super) fn collect(&self, message: usize, outgoing: &mut Vec<Outgoing>) -> Result<(), ()> {
        let mut feeding = lock(&self.inner);
        if feeding.phase != Phase::Active {
            return Ok(());
        }
        let Feeding { cells, window, .. } = &mut *feeding;
        for cell in cells {
            if *window <= 0 {
                break;
            }
            let (base, revision, payload) = match cell.source.since(cell.base) {
                Change::Nothing => continue,
                Change::Patch {
                    revision,
                    operations,
                } => (Some(cell.base), revision, operations),
                Change::Whole { revision, value } => (None, revision, value),
            };
            if payload.len() + 1024 > message {
                return Err(());
            }
            cell.base = revision;
            *window -= payload.len() as i64;
            let key = Arc::as_ptr(&cell.source).cast::<()>() as usize;
            let target = (self.route, self.id);
            match outgoing
                .iter_mut()
                .find(|other| (other.cell, other.base, other.revision) == (key, base, revision))
            {
                Some(same) => same.targets.push(target),
                None => outgoing.push(Outgoing {
                    cell: key,
                    base,
                    revision,
                    member: cell.member,
                    trace: cell.source.trace(),
                    payload,
                    targets: SmallVec::from_slice(&[target]),
                }),
            }
        }
        Ok(())
    }

    /// Widens the window and sends what waited for it.
    pub(super) fn credit(&self, bytes: u64) {
        let mut feeding = lock(&self.inner);
        feeding.window = feeding
            .window
            .saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.send_events(&mut feeding);
        drop(feeding);
        self.changed();
    }

    fn send_events(&self, feeding: &mut Feeding) {
        while feeding.window > 0 {
            let Some(event) = feeding.events.pop_front() else {
                return;
            };
            match event {
                QueuedEvent::Event {
                    member,
                    payload,
                    trace,
                } => {
                    feeding.event_bytes -= payload.len();
                    self.send_event(feeding, member, &payload, &trace);
                }
                QueuedEvent::Lost { member, count } => {
                    let header = Header {
                        member: Some(member),
                        lost: Some(count),
                        ..Header::of(Kind::Event, self.id, self.route)
                    };
                    self.publisher.send(&header, Bytes::new());
                }
            }
        }
    }

    fn send_event(
        &self,
        feeding: &mut Feeding,
        member: &'static str,
        payload: &Bytes,
        trace: &TraceCarrier,
    ) {
        feeding.window -= payload.len() as i64;
        let traceparent = trace.traceparent();
        let header = Header {
            member: Some(member),
            trace: Some(&traceparent),
            trace_state: trace.tracestate().map(Into::into),
            ..Header::of(Kind::Event, self.id, self.route)
        };
        self.publisher.send(&header, payload.clone());
    }

    /// Sends nothing more.
    pub(super) fn end(&self) {
        let mut feeding = lock(&self.inner);
        feeding.phase = Phase::Ended;
        feeding.cells.clear();
        feeding.taps.clear();
        feeding.events.clear();
    }

    /// Ends the subscription and tells the subscriber why.
    pub(super) fn close(&self, error: RpcError) {
        self.end();
        send_failure(
            &self.publisher,
            Kind::Closed,
            self.id,
            self.route,
            error.into(),
        );
    }
}

impl Feed for Served {
    fn changed(&self) {
        // Only the first change since the last flush has to reach the publisher.
        if !self.marked.swap(true, Ordering::AcqRel)
            && let Some(served) = self.itself.upgrade()
        {
            self.publisher.mark(served);
        }
    }
}

impl EventSink for Tap {
    fn emitted(&self, payload: &Bytes, trace: &TraceCarrier) {
        let Some(served) = self.served.upgrade() else {
            return;
        };
        let mut feeding = lock(&served.inner);
        if feeding.phase != Phase::Active {
            return;
        }
        let oversized = payload.len() + 1024 > served.publisher.message;
        if feeding.window > 0 && feeding.events.is_empty() && !oversized {
            served.send_event(&mut feeding, self.member, payload, trace);
        } else if !oversized
            && feeding.events.len() < MOST_EVENTS
            && feeding.event_bytes < MOST_EVENT_BYTES
        {
            feeding.event_bytes += payload.len();
            feeding.events.push_back(QueuedEvent::Event {
                member: self.member,
                payload: payload.clone(),
                trace: trace.clone(),
            });
        } else {
            let mut newest = feeding
                .events
                .iter_mut()
                .rev()
                .map_while(|event| match event {
                    QueuedEvent::Lost { member, count } => Some((*member, count)),
                    QueuedEvent::Event { .. } => None,
                });
            match newest.find(|(member, _)| *member == self.member) {
                Some((_, count)) => *count += 1,
                None => feeding.events.push_back(QueuedEvent::Lost {
                    member: self.member,
                    count: 1,
                }),
            }
            served.send_events(&mut feeding);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context as Poller, Waker};

    use bezel_context::Context;

    use super::*;
    use crate::events::EventSource;
    use crate::provider::server_principal;
    use crate::wire::{Frame, Outbox};

    fn kinds(outbox: &Outbox) -> Vec<Kind> {
        let mut frames = VecDeque::<Frame>::new();
        let polled = outbox.poll_drain(&mut frames, &mut Poller::from_waker(Waker::noop()));
        assert!(polled.is_ready() || frames.is_empty());
        let kind = |frame: &Frame| Header::parse(&frame.header).expect("own header").kind;
        frames.iter().map(kind).collect()
    }

    #[test]
    fn an_event_reaches_a_subscription_only_between_its_snapshot_and_its_end() {
        let outbox = Outbox::new();
        let publisher = Publisher::new(outbox.clone(), 1 << 20);
        let served = Served::new(&publisher, (None, 1), ("test", None), 1000, Vec::new());
        let source = EventSource::<String>::new();
        let origin = source.events().origin(&server_principal());
        served.follow(&origin, "events");
        let cx = Context::background();
        source.emit(&cx, "too early".into());
        assert!(kinds(&outbox).is_empty());
        served.start();
        source.emit(&cx, "in time".into());
        assert_eq!(kinds(&outbox), vec![Kind::Snapshot, Kind::Event]);
        served.end();
        source.emit(&cx, "too late".into());
        assert!(kinds(&outbox).is_empty());
    }
}
