//! What a cell holds under its lock: the value as JSON and typed, its history, who follows it.

use std::sync::{Arc, Weak};

use bezel_context::TraceCarrier;
use bytes::Bytes;
use serde_json::Value;

use super::StateValue;
use super::core::{Entry, Projection};
use super::history::History;
use super::patch::Operation;
use super::replication::Feed;

pub(super) struct Held<T> {
    /// The value as JSON; absent only while `typed` is present.
    pub(super) document: Option<Value>,
    /// The value with its type; absent until somebody reads it.
    pub(super) typed: Option<Arc<T>>,
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
        let document = self
            .document
            .as_ref()
            .expect("a cell holds its value as JSON or typed");
        let typed = Arc::new(T::deserialize(document).unwrap_or_else(|error| {
            tracing::error!(%error, value = std::any::type_name::<T>(), "a state value does not fit its type");
            T::default()
        }));
        self.typed = Some(Arc::clone(&typed));
        typed
    }

    pub(super) fn document(&mut self) -> Result<&mut Value, serde_json::Error> {
        if self.document.is_none() {
            let typed = self
                .typed
                .as_ref()
                .expect("a cell holds its value as JSON or typed");
            self.document = Some(serde_json::to_value(&**typed)?);
        }
        Ok(self.document.as_mut().expect("the document was just made"))
    }

    pub(super) fn followed(&self) -> bool {
        self.feeds.iter().any(|feed| feed.strong_count() > 0)
    }

    pub(super) fn advance(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
        trace: &TraceCarrier,
    ) {
        self.version += 1;
        self.revision += 1;
        self.trace = trace.clone();
        self.encoded = None;
        self.encoded_patch = None;
        let mut operations = operations.into_iter().peekable();
        if operations.peek().is_some() {
            self.history.push(self.revision, operations);
        } else {
            self.history.clear();
        }
    }

    pub(super) fn encode(&mut self) -> Bytes {
        if let Some((revision, bytes)) = &self.encoded
            && *revision == self.revision
        {
            return bytes.clone();
        }
        let encoded = match (&self.document, &self.typed) {
            (Some(document), _) => serde_json::to_vec(document),
            (None, Some(typed)) => serde_json::to_vec(&**typed),
            (None, None) => unreachable!("a cell holds its value as JSON or typed"),
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
