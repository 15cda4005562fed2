//! What a cell holds under its lock: the value as JSON and typed, its history, who follows it.

use std::sync::{Arc, Weak};

use bezel_context::TraceCarrier;
use bytes::Bytes;
use serde_json::Value;

use super::StateValue;
use super::core::{Entry, Projection};
use super::history::History;
use super::patch::{Operation, difference};
use super::replication::Feed;

pub(super) struct Held<T> {
    /// The value as JSON; of the three forms there is always one.
    pub(super) document: Option<Value>,
    /// The value with its type; absent until somebody reads it.
    pub(super) typed: Option<Arc<T>>,
    /// The value as it came from its owner, until it is patched.
    pub(super) raw: Option<Bytes>,
    /// The value that followers were brought to, and its revision, where it was replaced since. What changed
    /// is found out when somebody is to be told: most of many quick changes nobody sees.
    pub(super) told: Option<(u64, Value)>,
    /// Counts everything that a watcher could see, from 1.
    pub(super) version: u64,
    /// The owner's count of values.
    pub(super) revision: u64,
    pub(super) ready: bool,
    pub(super) stale: bool,
    pub(super) trace: TraceCarrier,
    pub(super) history: History,
    pub(super) feeds: Vec<Weak<dyn Feed>>,
    pub(super) encoded: Option<(u64, Bytes)>,
    /// About how long the encoded value is, to judge whether a patch is worth it.
    pub(super) length: usize,
    pub(super) encoded_patch: Option<(u64, u64, Bytes)>,
    pub(super) listeners: Vec<Arc<Entry<T>>>,
    pub(super) projections: Vec<Projection<T>>,
}

impl<T: StateValue> Held<T> {
    pub(super) fn typed(&mut self) -> Arc<T> {
        if let Some(typed) = &self.typed {
            return Arc::clone(typed);
        }
        let read = match (&self.document, &self.raw) {
            (Some(document), _) => T::deserialize(document),
            (None, Some(raw)) => serde_json::from_slice(raw),
            (None, None) => unreachable!("a cell holds its value in one form"),
        };
        let typed = Arc::new(read.unwrap_or_else(|error| {
            tracing::error!(%error, value = std::any::type_name::<T>(), "a state value does not fit its type");
            T::default()
        }));
        self.typed = Some(Arc::clone(&typed));
        typed
    }

    pub(super) fn document(&mut self) -> Result<&mut Value, serde_json::Error> {
        if self.document.is_none() {
            self.document = Some(match (&self.raw, &self.typed) {
                (Some(raw), _) => serde_json::from_slice(raw)?,
                (None, Some(typed)) => serde_json::to_value(&**typed)?,
                (None, None) => unreachable!("a cell holds its value in one form"),
            });
            self.raw = None;
        }
        Ok(self.document.as_mut().expect("the document was just made"))
    }

    pub(super) fn followed(&self) -> bool {
        self.feeds.iter().any(|feed| feed.strong_count() > 0)
    }

    /// The next revision is there, and nobody knows yet what it changed.
    pub(super) fn step(&mut self, trace: &TraceCarrier) {
        self.version += 1;
        self.revision += 1;
        self.trace = trace.clone();
        self.encoded = None;
        self.encoded_patch = None;
    }

    /// The next revision is there, by these operations; by none where nobody has to be told.
    pub(super) fn advance(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
        trace: &TraceCarrier,
    ) {
        self.step(trace);
        let mut operations = operations.into_iter().peekable();
        if operations.peek().is_some() {
            let revision = self.revision;
            self.history.push(revision - 1, revision, operations);
        } else {
            self.told = None;
            self.history.clear();
        }
    }

    /// Finds out what changed since followers were told, before they are told again or an operation adds to it.
    pub(super) fn settle(&mut self) {
        let Some((base, before)) = self.told.take() else {
            return;
        };
        let revision = self.revision;
        match self.document() {
            Ok(document) => {
                let operations = difference(&before, document);
                self.history.push(base, revision, operations);
            }
            // It has no JSON form, so there is nothing to patch to.
            Err(_) => self.history.clear(),
        }
    }

    pub(super) fn encode(&mut self) -> Bytes {
        if let Some((revision, bytes)) = &self.encoded
            && *revision == self.revision
        {
            return bytes.clone();
        }
        let length = self.length + 64;
        let encoded = match (&self.document, &self.raw, &self.typed) {
            (Some(document), ..) => crate::json::to_vec_of(length, document),
            (None, Some(raw), _) => Ok(raw.to_vec()),
            (None, None, Some(typed)) => crate::json::to_vec_of(length, &**typed),
            (None, None, None) => unreachable!("a cell holds its value in one form"),
        };
        let bytes = encoded.map_or_else(
            |error| {
                tracing::error!(%error, value = std::any::type_name::<T>(), "a state value has no JSON form");
                Bytes::from_static(b"null")
            },
            Bytes::from,
        );
        self.length = bytes.len();
        self.encoded = Some((self.revision, bytes.clone()));
        bytes
    }
}
