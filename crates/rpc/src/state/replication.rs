//! A cell as the two sides of a connection see it: bytes, revisions, patches, no type.

use std::any::Any;
use std::sync::{Arc, Weak};

use super::StateValue;
use super::core::Core;
use super::patch::{Operation, PatchError};
use bezel_context::TraceCarrier;
use bytes::Bytes;

/// Is told that a cell changed; owned by a provider's connection.
pub(crate) trait Feed: Send + Sync {
    fn changed(&self);
}

/// What a replica at some revision has to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Nothing,
    Patch { revision: u64, operations: Bytes },
    Whole { revision: u64, value: Bytes },
}

/// A cell as the providing side of a connection sees it: bytes and revisions, no type.
pub(crate) trait Source: Send + Sync {
    fn attach(&self, feed: Weak<dyn Feed>);
    fn whole(&self) -> (u64, Bytes);
    fn since(&self, base: u64) -> Change;
    fn trace(&self) -> TraceCarrier;
}

/// A cell as the consuming side of a connection sees it.
pub(crate) trait Replica: Send + Sync {
    /// Puts a value in place without telling anybody. It is JSON, and read when somebody wants it.
    fn install(&self, value: Bytes, revision: u64, trace: TraceCarrier);
    /// Brings the value from `base` to `revision`, without telling anybody.
    fn patch(
        &self,
        base: u64,
        revision: u64,
        operations: Vec<Operation>,
        trace: TraceCarrier,
    ) -> Result<(), PatchError>;
    /// Marks the value as no longer followed.
    fn lose(&self);
    /// Tells watchers and listeners.
    fn announce(&self);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: StateValue> Source for Core<T> {
    fn attach(&self, feed: Weak<dyn Feed>) {
        let mut inner = self.lock();
        inner.feeds.retain(|other| other.strong_count() > 0);
        inner.feeds.push(feed);
    }

    fn whole(&self) -> (u64, Bytes) {
        let mut inner = self.lock();
        let revision = inner.revision;
        inner.settle();
        inner.history.seal(revision);
        (revision, inner.encode())
    }

    fn since(&self, base: u64) -> Change {
        let mut inner = self.lock();
        let revision = inner.revision;
        if revision == base {
            return Change::Nothing;
        }
        inner.settle();
        inner.history.seal(revision);
        if let Some((from, to, operations)) = &inner.encoded_patch
            && (*from, *to) == (base, revision)
        {
            return Change::Patch {
                revision,
                operations: operations.clone(),
            };
        }
        let since = inner.history.since(base);
        if since
            .as_ref()
            .is_some_and(|(operations, _)| operations.is_empty())
        {
            // It changed, and changed back.
            return Change::Nothing;
        }
        let patch = since.map(|(operations, bytes)| (crate::json::to_vec(&operations), bytes));
        if let Some((Ok(operations), bytes)) = patch {
            let operations = Bytes::from(operations);
            if operations.len() > inner.length + 64 {
                let whole = inner.encode();
                if whole.len() <= operations.len() {
                    return Change::Whole {
                        revision,
                        value: whole,
                    };
                }
            }
            inner.length += bytes;
            inner.encoded_patch = Some((base, revision, operations.clone()));
            return Change::Patch {
                revision,
                operations,
            };
        }
        Change::Whole {
            revision,
            value: inner.encode(),
        }
    }

    fn trace(&self) -> TraceCarrier {
        self.lock().trace.clone()
    }
}

impl<T: StateValue> Replica for Core<T> {
    fn install(&self, value: Bytes, revision: u64, trace: TraceCarrier) {
        let mut inner = self.lock();
        inner.document = None;
        inner.raw = Some(value);
        inner.typed = None;
        inner.version += 1;
        inner.revision = revision;
        inner.ready = true;
        inner.stale = false;
        inner.trace = trace;
    }

    fn patch(
        &self,
        base: u64,
        revision: u64,
        operations: Vec<Operation>,
        trace: TraceCarrier,
    ) -> Result<(), PatchError> {
        let mut inner = self.lock();
        let misfit = |reason| PatchError {
            verb: "patch",
            path: "(root)".into(),
            reason,
            expected: "a fresh snapshot",
        };
        if inner.revision != base || !inner.ready {
            return Err(misfit("the patch is for another revision"));
        }
        let document = inner
            .document()
            .map_err(|_| misfit("the value has no JSON form"))?;
        for operation in operations {
            if let Err(error) = operation.apply(document) {
                // Half a patch is a value that the owner never had: keep the last one that was read,
                // else fall back to the initial one.
                inner.document = None;
                inner.raw = None;
                if inner.typed.is_none() {
                    inner.typed = Some(Arc::new(T::default()));
                    inner.ready = false;
                    inner.version += 1;
                }
                return Err(error);
            }
        }
        inner.typed = None;
        inner.version += 1;
        inner.revision = revision;
        inner.trace = trace;
        Ok(())
    }

    fn lose(&self) {
        let mut inner = self.lock();
        if inner.ready && !inner.stale {
            inner.stale = true;
            inner.version += 1;
        }
    }

    fn announce(&self) {
        Core::announce(self);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::state::path::Path;

    fn replica() -> Arc<Core<Vec<String>>> {
        let core = Core::new(Vec::new(), false);
        core.install(Bytes::from_static(b"[\"a\"]"), 5, TraceCarrier::root());
        core
    }

    /// Adds an element, then fails.
    fn half() -> Vec<Operation> {
        let items = vec![Value::from("b")];
        let splice = Operation::Splice {
            path: Path::root(),
            index: 1,
            delete: 0,
            items,
        };
        let misfit = Operation::Append {
            path: Path::root(),
            text: "x".into(),
        };
        vec![splice, misfit]
    }

    #[test]
    fn a_patch_that_fails_half_way_shows_no_half_applied_value() {
        let read = replica();
        assert_eq!(*read.get(), vec!["a"]);
        assert!(read.patch(5, 6, half(), TraceCarrier::root()).is_err());
        assert_eq!((*read.get()).clone(), vec!["a"]);

        let unread = replica();
        assert!(unread.patch(5, 6, half(), TraceCarrier::root()).is_err());
        assert!(unread.get().is_empty() && !unread.current().ready);
    }

    #[test]
    fn a_patch_for_another_revision_is_refused_and_changes_nothing() {
        let core = replica();
        assert!(core.patch(4, 6, Vec::new(), TraceCarrier::root()).is_err());
        assert_eq!(*core.get(), vec!["a"]);
        core.patch(5, 9, Vec::new(), TraceCarrier::root())
            .expect("it fits");
        assert!(core.patch(5, 9, Vec::new(), TraceCarrier::root()).is_err());
    }

    struct Follower;

    impl Feed for Follower {
        fn changed(&self) {}
    }

    #[test]
    fn a_value_that_changed_and_changed_back_is_not_sent_and_the_next_one_still_fits() {
        let root = TraceCarrier::root();
        let owner = Core::new(vec!["a".to_owned()], true);
        let feed: Arc<dyn Feed> = Arc::new(Follower);
        owner.attach(Arc::downgrade(&feed));
        let (base, value) = owner.whole();
        let replica = Core::new(Vec::<String>::new(), false);
        replica.install(value, base, root.clone());
        for value in ["b", "c", "a"] {
            assert!(owner.replace(vec![value.into()], &root).unwrap());
        }
        assert_eq!(owner.since(base), Change::Nothing);
        owner.replace(vec!["a".into(), "d".into()], &root).unwrap();
        let Change::Patch {
            revision,
            operations,
        } = owner.since(base)
        else {
            panic!("a patch is shorter");
        };
        let operations = serde_json::from_slice(&operations).unwrap();
        replica.patch(base, revision, operations, root).unwrap();
        assert_eq!(*replica.get(), ["a", "d"]);
    }
}
