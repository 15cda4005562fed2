//! Reading the tree, and the few things that may be added to it from outside a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bezel_context::{Cancelled, Context};
use bezel_session_types::{CustomEntry, Entry, EntryBody, EntryId, LaneName};
use bezel_store::{CommitError, Page, ReadError};
use serde_json::Value;

use crate::events::EventKind;
use crate::harness::Harness;
use crate::state::Step;

const LABELS: &str = "label/";

/// The tree of a session.
#[derive(Debug, Clone)]
pub struct Tree {
    harness: Harness,
}

/// Something that was not added.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The entry to label does not exist.
    #[error("there is no entry {entry}")]
    Unknown {
        /// Which.
        entry: EntryId,
    },
    /// It could not be written.
    #[error("nothing was added to the session: {0}")]
    Storage(#[from] CommitError),
    /// The database could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The caller's context had ended.
    #[error("nothing was added to the session: {0}")]
    Cancelled(Cancelled),
}

impl Tree {
    pub(crate) fn new(harness: Harness) -> Self {
        Tree { harness }
    }

    /// The tip of a lane; none while it is empty.
    pub fn leaf(&self, lane: &LaneName) -> Option<EntryId> {
        self.harness.lane(lane).core.lock().tip.clone()
    }

    /// One entry.
    pub fn entry(&self, id: &EntryId) -> Result<Option<Entry>, ReadError> {
        self.harness
            .session()
            .store
            .read(|queries| queries.entry(id))
    }

    /// The last `limit` entries of the path that ends at `tip`. To page on, ask again with the
    /// parent of the first.
    pub fn path(&self, tip: &EntryId, limit: usize) -> Result<Page, ReadError> {
        self.harness
            .session()
            .store
            .read(|queries| queries.path(tip, limit))
    }

    /// The first `limit` entries that follow `after` on the path to `tip`; `None` where the path does not go
    /// through it. However long the path is, it costs what the page costs: for going on downwards after a jump.
    pub fn path_after(
        &self,
        tip: &EntryId,
        after: &EntryId,
        limit: usize,
    ) -> Result<Option<Page>, ReadError> {
        self.harness
            .session()
            .store
            .read(|queries| queries.path_after(tip, after, limit))
    }

    /// The last `limit` entries of a lane.
    pub fn recent(&self, lane: &LaneName, limit: usize) -> Result<Page, ReadError> {
        match self.leaf(lane) {
            Some(tip) => self.path(&tip, limit),
            None => Ok(Page {
                entries: Vec::new(),
                more: false,
            }),
        }
    }

    /// Appends somebody's own fact at the tip of a lane. The model never sees it.
    pub fn append_custom(
        &self,
        cx: &Context,
        lane: &LaneName,
        name: &str,
        value: Value,
    ) -> Result<Arc<Entry>, AppendError> {
        cx.status().map_err(AppendError::Cancelled)?;
        let lane = self.harness.lane(lane);
        let mut step = Step::default();
        let entry = CustomEntry {
            name: name.to_owned(),
            value,
        };
        step.append(EntryId::generate(), EntryBody::Custom(entry));
        let mut committed = lane.commit(&mut lane.core.lock(), step)?;
        Ok(committed.entries.pop().expect("one entry was appended"))
    }

    /// Up to `limit` entries of the whole tree before sequence number `before` (or the newest), in order
    /// of their being written.
    pub fn all(&self, before: Option<u64>, limit: usize) -> Result<Vec<Entry>, ReadError> {
        self.harness
            .session()
            .store
            .read(|queries| queries.entries_before(before, limit))
    }

    /// All labels, by entry.
    pub fn labels(&self) -> Result<BTreeMap<EntryId, String>, ReadError> {
        self.harness.session().store.read(|queries| {
            let mut labels = BTreeMap::new();
            for key in queries.keys(LABELS)? {
                if let Some(label) = queries.value(&key)? {
                    labels.insert(EntryId::new(&key[LABELS.len()..]), label);
                }
            }
            Ok(labels)
        })
    }

    /// The label of an entry.
    pub fn label(&self, entry: &EntryId) -> Result<Option<String>, ReadError> {
        self.harness
            .session()
            .store
            .read(|queries| queries.value(&label_key(entry)))
    }

    /// Labels an entry, or takes its label away.
    pub fn set_label(
        &self,
        cx: &Context,
        entry: &EntryId,
        label: Option<&str>,
    ) -> Result<(), AppendError> {
        cx.status().map_err(AppendError::Cancelled)?;
        if self.entry(entry)?.is_none() {
            return Err(AppendError::Unknown {
                entry: entry.clone(),
            });
        }
        let mut step = Step::default();
        match label {
            Some(label) => step.transaction.set_value(label_key(entry), label),
            None => step.transaction.delete_value(label_key(entry)),
        }
        step.transaction.journal(
            "label_set",
            serde_json::json!({ "entry": entry, "label": label }),
        );
        self.harness.session().store.commit(step.transaction)?;
        let label = label.map(str::to_owned);
        let entry = entry.clone();
        // Labels belong to no lane; those who follow the session follow its main one.
        self.harness
            .main()
            .publish(EventKind::LabelSet { entry, label });
        Ok(())
    }
}

/// Where the label of an entry is.
pub(crate) fn label_key(entry: &EntryId) -> String {
    format!("{LABELS}{entry}")
}
