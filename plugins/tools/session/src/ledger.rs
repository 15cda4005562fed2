//! What the agent knows of each file, so that it overwrites nothing blindly.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bezel_context::{Cancelled, Context};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

use crate::paths::canonical;

/// Files up to this size are compared by content, larger ones by size, time and inode.
pub(crate) const COMPARED_BYTES: u64 = 8 * 1024 * 1024;

/// Remembers, for each file, its state when the agent last read or wrote it, and serialises its writers.
///
/// Shared by all tools of a session. It lives as long as the worker: after a restart every file counts as
/// unread, which costs the model one more read.
#[derive(Debug, Default)]
pub struct FileLedger {
    // Plain mutexes: held for one map operation, never across an await.
    seen: Mutex<HashMap<PathBuf, Stamp>>,
    locks: Mutex<HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
}

/// How a file on disk stands to what the agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The agent has neither read nor written it.
    Unread,
    /// It is as the agent last saw it.
    Unchanged,
    /// Something else changed it since.
    Changed,
}

/// The right to change certain files until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct FileLocks {
    _guards: Vec<OwnedMutexGuard<()>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    inode: u64,
    digest: Option<[u8; 32]>,
}

impl FileLedger {
    /// A ledger that knows no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes the state of a file that the agent has just read or written. `content` is the whole file, where
    /// it was at hand.
    pub fn record(&self, path: &Path, metadata: &Metadata, content: Option<&[u8]>) {
        let stamp = Stamp {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: metadata.ino(),
            digest: content.map(digest),
        };
        lock(&self.seen).insert(canonical(path), stamp);
    }

    /// Notes what the agent made of a file by changing a part of it. Where it did not know the rest, it does
    /// not know it now either: what stood there before stays unseen.
    pub fn amend(&self, before: Standing, path: &Path, metadata: &Metadata, content: &[u8]) {
        if before == Standing::Unchanged {
            self.record(path, metadata, Some(content));
        }
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, path: &Path) {
        lock(&self.seen).remove(&canonical(path));
    }

    /// Compares a file with what was noted. `content` is the whole file, where it is at hand; then its time
    /// does not matter, so that a touched or restored file counts as unchanged.
    pub fn standing(&self, path: &Path, metadata: &Metadata, content: Option<&[u8]>) -> Standing {
        let Some(known) = lock(&self.seen).get(&canonical(path)).cloned() else {
            return Standing::Unread;
        };
        let same = match (known.digest, content) {
            (Some(before), Some(now)) => known.size == metadata.len() && before == digest(now),
            _ => {
                let modified = (metadata.mtime(), metadata.mtime_nsec());
                (known.size, known.modified, known.inode)
                    == (metadata.len(), modified, metadata.ino())
            }
        };
        if same {
            Standing::Unchanged
        } else {
            Standing::Changed
        }
    }

    /// Waits until nobody else of this session changes these files. The order of `paths` does not matter.
    pub async fn lock(&self, cx: &Context, paths: &[PathBuf]) -> Result<FileLocks, Cancelled> {
        let mut keys: Vec<PathBuf> = paths.iter().map(|path| canonical(path)).collect();
        keys.sort();
        keys.dedup();
        let mut guards = Vec::with_capacity(keys.len());
        for key in keys {
            let mutex = self.mutex(key);
            guards.push(cx.run(mutex.lock_owned()).await?);
        }
        Ok(FileLocks { _guards: guards })
    }

    fn mutex(&self, key: PathBuf) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = lock(&self.locks);
        if let Some(mutex) = locks.get(&key).and_then(Weak::upgrade) {
            return mutex;
        }
        locks.retain(|_, mutex| mutex.strong_count() > 0);
        let mutex = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(key, Arc::downgrade(&mutex));
        mutex
    }
}

fn digest(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn file(&self, text: &str) -> (PathBuf, Metadata) {
            let path = self.0.path().join("file");
            std::fs::write(&path, text).expect("file");
            let metadata = path.metadata().expect("metadata");
            (path, metadata)
        }
    }

    fn scratch() -> Scratch {
        Scratch(tempfile::tempdir().expect("temporary directory"))
    }

    #[test]
    fn a_change_is_seen_even_with_equal_size_and_time() {
        let scratch = scratch();
        let ledger = FileLedger::new();
        let (path, metadata) = scratch.file("one");
        assert_eq!(
            ledger.standing(&path, &metadata, Some(b"one")),
            Standing::Unread
        );
        ledger.record(&path, &metadata, Some(b"one"));
        assert_eq!(
            ledger.standing(&path, &metadata, Some(b"one")),
            Standing::Unchanged
        );
        assert_eq!(
            ledger.standing(&path, &metadata, Some(b"two")),
            Standing::Changed
        );
        ledger.forget(&path);
        assert_eq!(
            ledger.standing(&path, &metadata, Some(b"one")),
            Standing::Unread
        );
    }

    #[test]
    fn a_touched_file_with_the_same_content_counts_as_unchanged() {
        let scratch = scratch();
        let ledger = FileLedger::new();
        let (path, metadata) = scratch.file("one");
        ledger.record(&path, &metadata, Some(b"one"));
        let file = std::fs::File::options()
            .append(true)
            .open(&path)
            .expect("open");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .expect("touch");
        let touched = path.metadata().expect("metadata");
        assert_eq!(
            ledger.standing(&path, &touched, Some(b"one")),
            Standing::Unchanged
        );
        assert_eq!(ledger.standing(&path, &touched, None), Standing::Changed);
    }

    #[test]
    fn another_name_of_the_file_is_the_same_file() {
        let scratch = scratch();
        let ledger = FileLedger::new();
        let (path, metadata) = scratch.file("one");
        let link = scratch.0.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("link");
        ledger.record(&link, &metadata, Some(b"one"));
        assert_eq!(
            ledger.standing(&path, &metadata, Some(b"one")),
            Standing::Unchanged
        );
    }

    #[tokio::test]
    async fn writers_of_one_file_wait_for_each_other_and_a_cancelled_wait_ends() {
        let scratch = scratch();
        let ledger = FileLedger::new();
        let (path, _) = scratch.file("one");
        let other = scratch.0.path().join("other");
        let (cx, cancel) = Context::background().with_cancel();
        let held = ledger
            .lock(&cx, &[path.clone(), path.clone()])
            .await
            .expect("free");
        let free = ledger.lock(&cx, std::slice::from_ref(&other)).await;
        assert!(free.is_ok());
        let both = [other, path.clone()];
        drop(free);
        let waiting = ledger.lock(&cx, &both);
        cancel.cancel();
        assert!(waiting.await.is_err());
        drop(held);
        assert!(ledger.lock(&Context::background(), &both).await.is_ok());
    }
}
