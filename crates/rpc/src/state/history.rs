//! A short ring of changes, so that a replica a little behind gets a patch instead of the whole value.

use std::collections::VecDeque;

use super::patch::Operation;

/// Changes that weigh more than this together are forgotten, oldest first.
const MOST_BYTES: usize = 256 * 1024;
const MOST_ENTRIES: usize = 64;

/// The changes from some revision on, grouped at the revisions that a replica may stand at.
#[derive(Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The newest revision that a replica was brought to: a change after it starts a new entry.
    sealed: u64,
}

#[derive(Debug)]
struct Entry {
    base: u64,
    revision: u64,
    operations: Vec<Operation>,
    bytes: usize,
}

impl History {
    /// Records the change from `base` to `revision`.
    pub(crate) fn push(
        &mut self,
        base: u64,
        revision: u64,
        operations: impl IntoIterator<Item = Operation>,
    ) {
        let mergeable = self
            .entries
            .back()
            .is_some_and(|entry| entry.revision == base && entry.revision != self.sealed);
        if !mergeable {
            self.entries.push_back(Entry {
                base,
                revision,
                operations: Vec::new(),
                bytes: 0,
            });
        }
        let entry = self
            .entries
            .back_mut()
            .expect("an entry was just pushed or found");
        entry.revision = revision;
        for operation in operations {
            let weight = operation.weight();
            match entry.operations.last_mut() {
                Some(last) => {
                    let before = if matches!(operation, Operation::Set { .. }) {
                        last.weight()
                    } else {
                        0
                    };
                    match last.absorb(operation) {
                        None => {
                            entry.bytes = entry.bytes - before + weight;
                            self.bytes = self.bytes - before + weight;
                            continue;
                        }
                        Some(operation) => entry.operations.push(operation),
                    }
                }
                None => entry.operations.push(operation),
            }
            entry.bytes += weight;
            self.bytes += weight;
        }
        while self.bytes > MOST_BYTES || self.entries.len() > MOST_ENTRIES {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes;
        }
    }

    /// Forgets everything: the value was replaced, or nobody follows it.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Says that a replica now stands at `revision`.
    pub(crate) fn seal(&mut self, revision: u64) {
        self.sealed = self.sealed.max(revision);
    }

    /// All operations after `base`, and about how many bytes they take; `None` when it is too far back.
    pub(crate) fn since(&self, base: u64) -> Option<(Vec<&Operation>, usize)> {
        let start = self.entries.iter().position(|entry| entry.base == base)?;
        let entries = self.entries.range(start..);
        let bytes = entries.clone().map(|entry| entry.bytes).sum();
        Some((entries.flat_map(|entry| &entry.operations).collect(), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::path::Path;

    fn append(text: &str) -> Operation {
        Operation::Append {
            path: Path::root(),
            text: text.into(),
        }
    }

    #[test]
    fn appends_between_two_seals_become_one_operation() {
        let mut history = History::default();
        history.seal(0);
        for revision in 1..=1000 {
            history.push(revision - 1, revision, [append("x")]);
        }
        let (operations, _) = history.since(0).expect("base 0 is in the ring");
        assert_eq!(operations, vec![&append(&"x".repeat(1000))]);
        history.seal(1000);
        history.push(1000, 1001, [append("y")]);
        assert_eq!(history.since(1000).expect("sealed").0, vec![&append("y")]);
        assert_eq!(history.since(0).expect("kept").0.len(), 2);
        assert!(history.since(500).is_none());
    }

    #[test]
    fn the_ring_is_bounded_in_bytes() {
        let mut history = History::default();
        for revision in 1..=100 {
            history.seal(revision - 1);
            history.push(revision - 1, revision, [append(&"x".repeat(10_000))]);
        }
        assert!(history.bytes <= MOST_BYTES);
        assert!(history.since(0).is_none() && history.since(99).is_some());
    }
}
