//! What observers hear: passive, in order, after the commit for everything durable, never replayed.
//!
//! Every subscriber has a queue of its own. Deltas of one part that nobody has read yet are joined,
//! so that a slow reader costs memory for the text and nothing else. A reader that falls too far
//! behind is told so once ([`EventKind::Gap`]) and looks at the state again.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context as PollContext, Poll};

use bezel_session_types::{
    AssistantMessage, CompactionReason, Cost, Entry, EntryId, InvocationId, LaneName, ModelRef,
    OperationId, Progress, QueuedMessage, RunOutcome, ToolResultMessage, Usage,
};
use futures::Stream;
use futures::task::AtomicWaker;
use serde_json::Value;

/// Something that happened in a lane.
#[derive(Debug, Clone)]
pub struct HarnessEvent {
    /// Where.
    pub lane: Arc<LaneName>,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum EventKind {
    /// An operation began.
    RunStart {
        /// Which.
        operation_id: OperationId,
    },
    /// An operation ended.
    RunEnd {
        /// Which.
        operation_id: OperationId,
        /// How.
        outcome: RunOutcome,
    },
    /// A model request of a run begins.
    TurnStart {
        /// Of which operation.
        operation_id: OperationId,
        /// Place in the operation, from 1.
        turn: u32,
    },
    /// The answer, and the calls in it, are settled.
    TurnEnd {
        /// Of which operation.
        operation_id: OperationId,
        /// Place in the operation, from 1.
        turn: u32,
    },
    /// An answer begins to come in.
    MessageStart {
        /// The id that its entry will have.
        entry: EntryId,
        /// From which model.
        model: ModelRef,
    },
    /// More of an answer.
    MessageUpdate {
        /// Which answer.
        entry: EntryId,
        /// What came.
        delta: MessageDelta,
    },
    /// An answer ended.
    MessageEnd {
        /// Which answer.
        entry: EntryId,
        /// The message as it entered the tree; none when it was dropped to be asked for again.
        message: Option<Arc<AssistantMessage>>,
        /// The reserved ids of its calls' results, in the calls' order.
        invocations: Vec<InvocationId>,
    },
    /// A call runs.
    ToolStart {
        /// Which call.
        invocation_id: InvocationId,
        /// The provider's id of it.
        call_id: String,
        /// The tool.
        tool: Arc<str>,
        /// The arguments that it runs with.
        arguments: Arc<Value>,
    },
    /// A running call shows more.
    ToolUpdate {
        /// Which call.
        invocation_id: InvocationId,
        /// What it shows.
        progress: Progress,
    },
    /// A call settled, run or not.
    ToolEnd {
        /// Which call.
        invocation_id: InvocationId,
        /// What it came to.
        result: Arc<ToolResultMessage>,
        /// Files that it says it changed, absolute.
        changes: Vec<PathBuf>,
    },
    /// An entry is in the tree.
    EntryAdded {
        /// The entry.
        entry: Arc<Entry>,
    },
    /// The messages that wait changed.
    QueueUpdate {
        /// All that wait now, in order of admission.
        queued: Arc<[QueuedMessage]>,
    },
    /// A request failed and will be tried again.
    RetryScheduled {
        /// Of which operation.
        operation_id: OperationId,
        /// Which retry it will be, from 1.
        attempt: u32,
        /// When, milliseconds since 1970.
        until: i64,
        /// What went wrong.
        error: String,
    },
    /// Older entries are being summarised.
    CompactionStart {
        /// Of which operation.
        operation_id: OperationId,
        /// Why.
        reason: CompactionReason,
    },
    /// The summary stands in the tree, or there is none.
    CompactionEnd {
        /// Of which operation.
        operation_id: OperationId,
        /// Why there is none.
        error: Option<String>,
    },
    /// The lane is about to move to another place in the tree.
    NavigationStart {
        /// Which operation does it.
        operation_id: OperationId,
    },
    /// The lane moved, or stays where it was.
    NavigationEnd {
        /// Which operation did it.
        operation_id: OperationId,
        /// The tip now; none before the first entry.
        tip: Option<EntryId>,
        /// Why it stays.
        error: Option<String>,
    },
    /// An entry has another label, or none any more.
    LabelSet {
        /// Which entry.
        entry: EntryId,
        /// The label now.
        label: Option<String>,
    },
    /// A model request was counted.
    Usage {
        /// Of which operation.
        operation_id: OperationId,
        /// Which model.
        model: ModelRef,
        /// Tokens.
        usage: Usage,
        /// Price, where known.
        cost: Option<Cost>,
    },
    /// Somebody asked to end an operation; it is on its way.
    OperationAbort {
        /// Which.
        operation_id: OperationId,
    },
    /// A hook failed or overran its deadline; it was passed over, or the call it guards was blocked.
    HandlerError {
        /// Who registered it.
        registrant: Arc<str>,
        /// Which hook.
        hook: &'static str,
        /// What went wrong.
        message: String,
    },
    /// The lane stopped because its state could not be written or read, or because a hook does not let it begin. Nothing
    /// committed is lost.
    Fault {
        /// The operation that was left where it stands; the next message, or resuming, takes it up.
        operation_id: Option<OperationId>,
        /// What went wrong and what to do.
        message: String,
        /// Whether a hook does not let it begin.
        refused: bool,
    },
    /// The reader fell behind and missed events: look at the state again.
    Gap,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageDelta {
    /// Text, appended to part `part` of the content.
    Text {
        /// Place in the content, from 0.
        part: usize,
        /// The text.
        text: String,
    },
    /// Reasoning, appended to part `part` of the content.
    Thinking {
        /// Place in the content, from 0.
        part: usize,
        /// The text.
        text: String,
    },
    /// A call begins.
    ToolCallStart {
        /// Place among the calls of this answer, from 0.
        index: usize,
        /// The provider's id.
        id: String,
        /// The tool.
        name: String,
    },
    /// Raw JSON text of a call's arguments, appended.
    ToolCallArguments {
        /// Place among the calls of this answer, from 0.
        index: usize,
        /// The text.
        text: String,
    },
}

/// Queued events beyond which a reader has fallen behind.
const QUEUE_LIMIT: usize = 8192;
/// Progress text that is kept for a reader that has not read yet, in bytes.
const PROGRESS_LIMIT: usize = 64 * 1024;

/// Hands events to subscribers.
#[derive(Default)]
pub(crate) struct Hub(Arc<Mutex<Subscribers>>);

#[derive(Default)]
struct Subscribers {
    closed: bool,
    queues: Vec<Arc<Queue>>,
}

struct Queue {
    lane: Option<LaneName>,
    // A plain mutex: held to push or pop one event.
    events: Mutex<Pending>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Pending {
    queue: VecDeque<HarnessEvent>,
    closed: bool,
}

/// A subscription. Dropping it ends it.
pub struct HarnessEvents {
    hub: Weak<Mutex<Subscribers>>,
    queue: Arc<Queue>,
}

impl Hub {
    pub(crate) fn subscribe(&self, lane: Option<LaneName>) -> HarnessEvents {
        let mut subscribers = lock(&self.0);
        let pending = Pending {
            closed: subscribers.closed,
            ..Pending::default()
        };
        let queue = Arc::new(Queue {
            lane,
            events: Mutex::new(pending),
            waker: AtomicWaker::new(),
        });
        subscribers.queues.push(Arc::clone(&queue));
        HarnessEvents {
            hub: Arc::downgrade(&self.0),
            queue,
        }
    }

    pub(crate) fn publish(&self, lane: &Arc<LaneName>, kind: EventKind) {
        let subscribers = lock(&self.0);
        let heard = |queue: &&Arc<Queue>| queue.lane.as_ref().is_none_or(|only| *only == **lane);
        let mut queues = subscribers.queues.iter().filter(heard).peekable();
        while let Some(queue) = queues.next() {
            if queues.peek().is_none() {
                queue.push(lane, kind);
                return;
            }
            queue.push(lane, kind.clone());
        }
    }

    /// Ends all subscriptions once their events are read.
    pub(crate) fn close(&self) {
        let mut subscribers = lock(&self.0);
        subscribers.closed = true;
        for queue in &subscribers.queues {
            lock(&queue.events).closed = true;
            queue.waker.wake();
        }
    }
}

impl Queue {
    fn push(&self, lane: &Arc<LaneName>, kind: EventKind) {
        let mut pending = lock(&self.events);
        let kind = match pending.queue.back_mut() {
            Some(last) if last.lane == *lane => match last.kind.join(kind) {
                None => return,
                Some(kind) => kind,
            },
            _ => kind,
        };
        if pending.queue.len() >= QUEUE_LIMIT {
            pending.queue.clear();
            pending.queue.push_back(HarnessEvent {
                lane: Arc::clone(lane),
                kind: EventKind::Gap,
            });
        }
        pending.queue.push_back(HarnessEvent {
            lane: Arc::clone(lane),
            kind,
        });
        drop(pending);
        self.waker.wake();
    }
}

impl EventKind {
    /// Takes `next` into this event where both append to one thing; gives it back otherwise.
    fn join(&mut self, next: EventKind) -> Option<EventKind> {
        match (self, next) {
            (
                EventKind::MessageUpdate { entry, delta },
                EventKind::MessageUpdate {
                    entry: of,
                    delta: more,
                },
            ) if *entry == of => delta
                .join(more)
                .map(|delta| EventKind::MessageUpdate { entry: of, delta }),
            (
                EventKind::ToolUpdate {
                    invocation_id,
                    progress: Progress::Append(text),
                },
                EventKind::ToolUpdate {
                    invocation_id: of,
                    progress: Progress::Append(more),
                },
            ) if *invocation_id == of => {
                text.push_str(&more);
                keep_tail(text, PROGRESS_LIMIT);
                None
            }
            (_, next) => Some(next),
        }
    }
}

impl MessageDelta {
    fn join(&mut self, next: MessageDelta) -> Option<MessageDelta> {
        match (&mut *self, next) {
            (
                Self::Text { part, text },
                Self::Text {
                    part: of,
                    text: more,
                },
            )
            | (
                Self::Thinking { part, text },
                Self::Thinking {
                    part: of,
                    text: more,
                },
            )
            | (
                Self::ToolCallArguments { index: part, text },
                Self::ToolCallArguments {
                    index: of,
                    text: more,
                },
            ) if *part == of => {
                text.push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

/// Drops the front of `text` once it is twice as long as `limit`, on a character boundary.
pub(crate) fn keep_tail(text: &mut String, limit: usize) {
    if text.len() > limit * 2 {
        let mut cut = text.len() - limit;
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        text.drain(..cut);
    }
}

impl HarnessEvents {
    /// The next event; `None` once the harness is closed and all was read.
    pub async fn next(&mut self) -> Option<HarnessEvent> {
        futures::StreamExt::next(&mut &mut *self).await
    }

    /// The next event, if there is one now.
    pub fn try_next(&mut self) -> Option<HarnessEvent> {
        lock(&self.queue.events).queue.pop_front()
    }
}

impl Stream for HarnessEvents {
    type Item = HarnessEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Option<HarnessEvent>> {
        self.queue.waker.register(cx.waker());
        let mut pending = lock(&self.queue.events);
        match pending.queue.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if pending.closed || self.hub.strong_count() == 0 => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for HarnessEvents {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            lock(&hub)
                .queues
                .retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for HarnessEvents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HarnessEvents")
            .field("lane", &self.queue.lane)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
