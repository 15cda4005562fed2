//! Who waits for an answer in this process, and what waits for one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_session_types::{InvocationId, PendingRequest};
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use super::{Asked, ChannelId, PendingRequests, WaitError};
use crate::state::LaneCore;

/// The channels of a session: those that were opened, and those that something waits in.
pub(crate) struct Channels {
    // A plain mutex: held to look a channel up or make it.
    channels: Mutex<BTreeMap<ChannelId, Arc<Channel>>>,
    /// How many requests of all channels wait.
    open: Open,
}

type Open = Arc<watch::Sender<usize>>;

/// What this process knows of a channel beside what is committed.
pub(super) struct Channel {
    /// What waits, by invocation id, which is the order of asking. Changed under the lock of the lane that the call is of.
    pending: watch::Sender<PendingRequests>,
    open: Open,
    // A plain mutex: held to add, take out or find a waiter.
    waiters: Mutex<HashMap<InvocationId, oneshot::Sender<Arc<Value>>>>,
}

/// A place to wait for one answer; given up when dropped.
pub(super) struct Waiter<'channel> {
    channel: &'channel Channel,
    invocation_id: &'channel InvocationId,
    answer: oneshot::Receiver<Arc<Value>>,
}

impl Default for Channels {
    fn default() -> Self {
        Channels {
            channels: Mutex::default(),
            open: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl Channels {
    /// How many requests wait, of whichever channel, now and from now on.
    pub(crate) fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Shows what an earlier process left asked.
    pub(crate) fn restore<'lanes>(&self, lanes: impl Iterator<Item = &'lanes Arc<LaneCore>>) {
        let mut pending: BTreeMap<ChannelId, Vec<PendingRequest<Arc<Value>>>> = BTreeMap::new();
        for core in lanes {
            let state = core.lock();
            let open = state.open_calls();
            let waiting =
                |asked: &&Asked| asked.response.is_none() && open.contains(&asked.invocation_id);
            for asked in state.notes.asked.iter().filter(waiting) {
                let channel = pending.entry(asked.channel.clone()).or_default();
                channel.push(PendingRequest {
                    id: asked.invocation_id.clone(),
                    request: Arc::clone(&asked.request),
                    asker: None,
                });
            }
        }
        for (id, mut pending) in pending {
            pending.sort_by(|one, other| one.id.cmp(&other.id));
            self.channel(&id).change(|shown| *shown = pending.into());
        }
    }

    /// Ends the wait for something that was asked.
    pub(crate) fn withdraw(&self, asked: &Asked) {
        let channel = self.channel(&asked.channel);
        channel.hide(|shown| *shown == asked.invocation_id);
        channel.waiters().remove(&asked.invocation_id);
    }

    pub(super) fn channel(&self, id: &ChannelId) -> Arc<Channel> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channels.entry(id.clone()).or_insert_with(|| {
            Arc::new(Channel {
                pending: watch::Sender::new(Arc::from([])),
                open: Arc::clone(&self.open),
                waiters: Mutex::default(),
            })
        });
        Arc::clone(channel)
    }
}

impl Channel {
    /// What waits, now and from now on.
    pub(super) fn pending(&self) -> watch::Receiver<PendingRequests> {
        self.pending.subscribe()
    }

    /// Changes what waits, and how many wait in all.
    fn change(&self, change: impl FnOnce(&mut PendingRequests)) {
        self.pending.send_if_modified(|pending| {
            let before = pending.len();
            change(pending);
            let now = pending.len();
            if now == before {
                return false;
            }
            self.open.send_modify(|open| *open = (*open + now) - before);
            true
        });
    }

    pub(super) fn wait_for<'channel>(
        &'channel self,
        invocation_id: &'channel InvocationId,
    ) -> Result<Waiter<'channel>, WaitError> {
        let mut waiters = self.waiters();
        if waiters.contains_key(invocation_id) {
            return Err(WaitError::Waiting {
                invocation_id: invocation_id.clone(),
            });
        }
        let (sender, answer) = oneshot::channel();
        waiters.insert(invocation_id.clone(), sender);
        Ok(Waiter {
            channel: self,
            invocation_id,
            answer,
        })
    }

    pub(super) fn wake(&self, invocation_id: &InvocationId, response: Arc<Value>) {
        if let Some(waiter) = self.waiters().remove(invocation_id)
            && waiter.send(response).is_err()
        {
            tracing::debug!(%invocation_id, "nobody waits any more: whoever asks again finds the answer");
        }
    }

    pub(super) fn show(&self, asked: &Asked) {
        self.change(|pending| {
            let mut longer = pending.to_vec();
            let at = longer.partition_point(|other| other.id < asked.invocation_id);
            let shown = PendingRequest {
                id: asked.invocation_id.clone(),
                request: Arc::clone(&asked.request),
                asker: None,
            };
            longer.insert(at, shown);
            *pending = longer.into();
        });
    }

    pub(super) fn hide(&self, is_gone: impl Fn(&InvocationId) -> bool) {
        self.change(|pending| {
            let left = pending.iter().filter(|shown| !is_gone(&shown.id));
            *pending = left.cloned().collect();
        });
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<InvocationId, oneshot::Sender<Arc<Value>>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// The answer; none once it is no longer waited for.
    pub(super) async fn answered(mut self) -> Option<Arc<Value>> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // An answered or withdrawn one is out already, and another may wait in its place.
        self.answer.close();
        let mut waiters = self.channel.waiters();
        if waiters
            .get(self.invocation_id)
            .is_some_and(oneshot::Sender::is_closed)
        {
            waiters.remove(self.invocation_id);
        }
    }
}
