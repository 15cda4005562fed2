//! The queue in front of a connection: bounded in bytes, filled without waiting, emptied in batches.
//!
//! Small frames do not wait behind large ones that they have nothing to do with.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll};

use futures::task::AtomicWaker;

use super::Frame;
use super::passing::{Ahead, LARGE, may_pass};
use crate::sync::lock;

/// A peer that lets this many bytes wait is dropped.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The sending end of a connection. Cheap to clone.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    writer: AtomicWaker,
    /// The connection's task: woken when the queue takes nothing more, and when it was to be told of room.
    closed: AtomicWaker,
    /// Whether somebody waits for the queue to be emptied.
    wants_room: AtomicBool,
    /// The queue's bytes, for those who only want to know.
    bytes: AtomicUsize,
    limit: usize,
}

#[derive(Default)]
struct Queue {
    /// Small frames, and none that has to stay behind one of the large.
    frames: VecDeque<Frame>,
    /// Large frames, and small ones that stay behind them.
    large: VecDeque<(Ahead, Frame)>,
    bytes: usize,
    state: QueueState,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    #[default]
    Open,
    /// Takes nothing more; what waits is still sent.
    Closed,
    /// The peer did not read; nothing is sent any more.
    Overflowed(usize),
}

/// Why a frame was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutboxError {
    /// The connection has ended.
    #[error("the connection is closed")]
    Closed,
    /// Too much waits already.
    #[error("the peer does not read: its queue is full")]
    Full,
}

/// What a writer finds in the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Drained {
    /// Frames were moved out.
    Frames,
    /// The queue is closed and empty.
    End,
    /// The peer let too many bytes wait.
    Overflow(usize),
}

impl Outbox {
    /// An empty queue.
    pub fn new() -> Self {
        Outbox::bounded(MOST_BYTES)
    }

    /// An empty queue that holds `limit` bytes at most, and one message more.
    pub fn bounded(limit: usize) -> Self {
        Outbox(Arc::new(Shared {
            queue: Mutex::default(),
            writer: AtomicWaker::new(),
            closed: AtomicWaker::new(),
            wants_room: AtomicBool::new(false),
            bytes: AtomicUsize::new(0),
            limit,
        }))
    }

    /// Queues a frame. A peer whose queue is full is given up: it is slow, and must not slow others.
    pub fn send(&self, frame: Frame) -> Result<(), OutboxError> {
        self.push(frame, Some(true))
    }

    /// Queues a frame, unless the queue is full.
    pub fn try_send(&self, frame: Frame) -> Result<(), OutboxError> {
        self.push(frame, Some(false))
    }

    /// Queues a frame although the queue is full: for the few that say who came and went.
    pub(crate) fn send_beyond(&self, frame: Frame) -> Result<(), OutboxError> {
        self.push(frame, None)
    }

    fn push(&self, frame: Frame, give_up: Option<bool>) -> Result<(), OutboxError> {
        let mut queue = lock(&self.0.queue);
        if queue.state != QueueState::Open {
            return Err(OutboxError::Closed);
        }
        if let Some(give_up) = give_up
            && queue.bytes >= self.0.limit
        {
            if give_up {
                queue.state = QueueState::Overflowed(queue.bytes);
                queue.frames = VecDeque::new();
                queue.large = VecDeque::new();
                drop(queue);
                self.0.writer.wake();
                self.0.closed.wake();
            }
            return Err(OutboxError::Full);
        }
        queue.bytes += frame.len();
        self.0.bytes.store(queue.bytes, Ordering::Relaxed);
        let behind = frame.payload.len() >= LARGE
            || !may_pass(&frame, queue.large.iter().map(|(ahead, _)| ahead));
        let first = match behind {
            true => {
                queue.large.push_back((Ahead::of(&frame), frame));
                queue.large.len() == 1
            }
            false => {
                queue.frames.push_back(frame);
                queue.frames.len() == 1
            }
        };
        drop(queue);
        if first {
            self.0.writer.wake();
        }
        Ok(())
    }

    /// Takes nothing more. What waits is still sent.
    pub fn close(&self) {
        let mut queue = lock(&self.0.queue);
        if queue.state == QueueState::Open {
            queue.state = QueueState::Closed;
        }
        drop(queue);
        self.0.writer.wake();
        self.0.closed.wake();
    }

    /// Whether the connection takes no more frames.
    pub fn is_closed(&self) -> bool {
        lock(&self.0.queue).state != QueueState::Open
    }

    /// Ready once the connection takes no more frames: `Some` bytes if its peer let so many wait.
    pub(crate) fn poll_closed(&self, poller: &mut Poller<'_>) -> Poll<Option<usize>> {
        self.0.closed.register(poller.waker());
        match lock(&self.0.queue).state {
            QueueState::Open => Poll::Pending,
            QueueState::Closed => Poll::Ready(None),
            QueueState::Overflowed(bytes) => Poll::Ready(Some(bytes)),
        }
    }

    /// Ready once the peer let too many bytes wait; how many.
    pub fn poll_overflow(&self, poller: &mut Poller<'_>) -> Poll<usize> {
        match self.poll_closed(poller) {
            Poll::Ready(Some(bytes)) => Poll::Ready(bytes),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Wakes the connection's task when frames are next taken out.
    pub(crate) fn tell_of_room(&self) {
        self.0.wants_room.store(true, Ordering::Release);
    }

    /// How many bytes wait.
    pub fn waiting(&self) -> usize {
        self.0.bytes.load(Ordering::Acquire)
    }

    /// Moves all waiting frames to the end of `batch`. One task at a time may wait here.
    pub fn poll_drain(
        &self,
        batch: &mut VecDeque<Frame>,
        poller: &mut Poller<'_>,
    ) -> Poll<Drained> {
        let mut take = |queue: &mut Queue| {
            batch.append(&mut queue.frames);
            batch.extend(queue.large.drain(..).map(|(_, frame)| frame));
            queue.bytes = 0;
            true
        };
        self.poll_take(&mut take, poller)
    }

    /// Moves small frames and large ones to the ends of their queues: of the small all, of the large as many as
    /// `room` bytes hold, and one more. One task at a time may wait here.
    pub(super) fn poll_drain_lanes(
        &self,
        (small, large): (&mut VecDeque<Frame>, &mut VecDeque<(Ahead, Frame)>),
        mut room: usize,
        poller: &mut Poller<'_>,
    ) -> Poll<Drained> {
        let mut take = |queue: &mut Queue| {
            let mut moved = !queue.frames.is_empty();
            queue.bytes -= queue.frames.iter().map(Frame::len).sum::<usize>();
            if small.is_empty() {
                std::mem::swap(small, &mut queue.frames);
            } else {
                small.append(&mut queue.frames);
            }
            while room > 0
                && let Some((ahead, frame)) = queue.large.pop_front()
            {
                room = room.saturating_sub(frame.len());
                queue.bytes -= frame.len();
                large.push_back((ahead, frame));
                moved = true;
            }
            moved
        };
        self.poll_take(&mut take, poller)
    }

    fn poll_take(
        &self,
        take: &mut dyn FnMut(&mut Queue) -> bool,
        poller: &mut Poller<'_>,
    ) -> Poll<Drained> {
        if let Some(drained) = self.take(take) {
            return Poll::Ready(drained);
        }
        self.0.writer.register(poller.waker());
        self.take(take).map_or(Poll::Pending, Poll::Ready)
    }

    fn take(&self, take: &mut dyn FnMut(&mut Queue) -> bool) -> Option<Drained> {
        let mut queue = lock(&self.0.queue);
        if let QueueState::Overflowed(bytes) = queue.state {
            return Some(Drained::Overflow(bytes));
        }
        if queue.frames.is_empty() && queue.large.is_empty() {
            return (queue.state == QueueState::Closed).then_some(Drained::End);
        }
        let moved = take(&mut queue);
        self.0.bytes.store(queue.bytes, Ordering::Release);
        if moved && self.0.wants_room.swap(false, Ordering::AcqRel) {
            self.0.closed.wake();
        }
        moved.then_some(Drained::Frames)
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Outbox")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(size: usize) -> Frame {
        Frame {
            header: vec![b'h'; 9].into(),
            payload: vec![b'p'; size - 10].into(),
        }
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_given_up_and_its_queue_is_freed() {
        let outbox = Outbox::bounded(1000);
        for _ in 0..10 {
            outbox.send(frame(100)).expect("it fits");
        }
        assert_eq!(outbox.try_send(frame(100)), Err(OutboxError::Full));
        assert!(!outbox.is_closed());
        assert_eq!(outbox.send(frame(100)), Err(OutboxError::Full));
        assert!(outbox.is_closed());
        let mut batch = VecDeque::new();
        let drained = std::future::poll_fn(|poller| outbox.poll_drain(&mut batch, poller)).await;
        assert_eq!(drained, Drained::Overflow(1000));
    }

    #[tokio::test]
    async fn a_closed_outbox_still_delivers_what_waits() {
        let outbox = Outbox::new();
        outbox.send(frame(20)).expect("open");
        outbox.close();
        assert_eq!(outbox.send(frame(20)), Err(OutboxError::Closed));
        let mut batch = VecDeque::new();
        let mut drain =
            async || std::future::poll_fn(|poller| outbox.poll_drain(&mut batch, poller)).await;
        assert_eq!(drain().await, Drained::Frames);
        assert_eq!(drain().await, Drained::End);
        assert_eq!(batch.len(), 1);
    }
}
