//! Recording the directory: only what changed since the last time is read.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::contents::{Looked, look_at};
use crate::git::{CommitId, GitError, ObjectStore, Writer};
use crate::index::{Index, Look};
use crate::scan::{Found, Kind, ScanError, Scope, Stat, scan};
use crate::tree::{Change, Node, Tree, TreePath, Unkept, changes};

/// The directory at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Its name in the store.
    pub(crate) commit: CommitId,
    pub(crate) tree: Arc<Tree>,
    /// When the walk began, nanoseconds since 1970.
    pub(crate) taken_at: i64,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The directory could not be walked.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There is too much to read.
    #[error("there are more than {} MiB to record", .most / (1024 * 1024))]
    TooMuch {
        /// The limit in bytes.
        most: u64,
    },
    /// The store did not take it.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Takes snapshots of one directory, and remembers the last.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) scope: Scope,
    /// More new content in one snapshot is too much, in bytes.
    pub(crate) most_bytes: u64,
    store: ObjectStore,
    /// Where what is known of files is kept between processes.
    memory: PathBuf,
    known: HashMap<TreePath, (Stat, Node)>,
    /// When what is known was read.
    read_at: i64,
    /// The last walk, where the next one may be saved.
    index: Option<Index>,
    last: Option<Snapshot>,
    unsaved: bool,
}

#[derive(Serialize, Deserialize)]
struct Memory {
    commit: CommitId,
    read_at: i64,
    known: Vec<(TreePath, Stat, Node)>,
    unkept: Vec<(TreePath, Node)>,
}

impl Recorder {
    pub(crate) fn new(scope: Scope, most_bytes: u64, store: ObjectStore, memory: PathBuf) -> Self {
        let mut recorder = Recorder {
            scope,
            most_bytes,
            store,
            memory,
            known: HashMap::new(),
            read_at: 0,
            index: None,
            last: None,
            unsaved: false,
        };
        recorder.recall();
        recorder
    }

    /// The newest snapshot.
    pub(crate) fn last(&self) -> Option<&Snapshot> {
        self.last.as_ref()
    }

    /// Takes up what an earlier process knew. What does not fit is read anew.
    fn recall(&mut self) {
        let memory = std::fs::read(&self.memory).ok();
        let memory = memory.and_then(|bytes| serde_json::from_slice::<Memory>(&bytes).ok());
        let Some(memory) = memory else { return };
        let kept = memory
            .known
            .iter()
            .map(|(path, _, node)| (path.clone(), node.clone()));
        let tree: Tree = kept.chain(memory.unkept).collect();
        self.last = Some(Snapshot {
            commit: memory.commit,
            tree: Arc::new(tree),
            taken_at: memory.read_at,
        });
        self.read_at = memory.read_at;
        let known = memory.known.into_iter();
        self.known = known
            .map(|(path, stat, node)| (path, (stat, node)))
            .collect();
    }

    /// Keeps what is known for the next process. Losing it costs time, nothing else.
    pub(crate) fn remember(&mut self) -> io::Result<()> {
        let Some(last) = self.last.as_ref().filter(|_| self.unsaved) else {
            return Ok(());
        };
        let (mut known, mut unkept) = (Vec::new(), Vec::new());
        for (path, node) in last.tree.iter() {
            match self.known.get(path) {
                Some((stat, _)) => known.push((path.clone(), *stat, node.clone())),
                None => unkept.push((path.clone(), node.clone())),
            }
        }
        let memory = Memory {
            commit: last.commit.clone(),
            read_at: self.read_at,
            known,
            unkept,
        };
        crate::record::replace(&self.memory, &serde_json::to_vec(&memory)?)?;
        self.unsaved = false;
        Ok(())
    }

    /// Records the directory as it is now. `stop` ends it early, with an error.
    pub(crate) fn take(&mut self, stop: &Arc<AtomicBool>) -> Result<Snapshot, SnapshotError> {
        match self.attempt(stop) {
            // What is remembered of the store may be wrong, or git was killed: once more, from nothing.
            Err(SnapshotError::Git(error)) => {
                tracing::warn!(%error, "a checkpoint is taken again from nothing");
                self.known.clear();
                (self.index, self.last) = (None, None);
                self.attempt(stop)
            }
            taken => taken,
        }
    }

    fn attempt(&mut self, stop: &Arc<AtomicBool>) -> Result<Snapshot, SnapshotError> {
        match self.look_again(stop)? {
            Some(snapshot) => Ok(snapshot),
            None => self.walk(stop),
        }
    }

    /// Where the last walk would find the same paths: looks at each, and reads what changed. None where it may
    /// find others.
    fn look_again(&mut self, stop: &Arc<AtomicBool>) -> Result<Option<Snapshot>, SnapshotError> {
        let taken_at = now();
        let (Some(mut index), Some(last)) = (self.index.take(), self.last.clone()) else {
            return Ok(None);
        };
        let held = |found: &Found| self.known.contains_key(&found.path);
        let differing = match index.look(&self.scope, self.read_at, held, stop) {
            Look::Same(differing) => differing,
            Look::Walk => return Ok(None),
            Look::Stopped => {
                self.index = Some(index);
                return Err(ScanError::Stopped.into());
            }
        };
        let mut writing = Writing::new(&self.store, self.most_bytes);
        let (mut changes, mut looked) = (Vec::new(), Vec::new());
        for (number, stat) in differing {
            if stop.load(Ordering::Relaxed) {
                return Err(ScanError::Stopped.into());
            }
            let found = index.entry(number);
            let found = Found {
                path: found.path.clone(),
                kind: found.kind,
                stat,
            };
            let before = last.tree.get(&found.path);
            let Some((stat, node)) = writing.look(&self.scope.root, &found, before)? else {
                return Ok(None);
            };
            // It became something else since it was looked at.
            if node.is_directory() {
                return Ok(None);
            }
            if before != Some(&node) {
                changes.push(Change {
                    path: found.path.clone(),
                    before: before.cloned(),
                    after: Some(node.clone()),
                });
            }
            index.note(number, stat);
            looked.push((found.path, stat, node));
        }
        let snapshot = match changes.is_empty() {
            true => Snapshot { taken_at, ..last },
            false => {
                let mut tree = last.tree;
                let new = Arc::make_mut(&mut tree);
                for change in &changes {
                    if let Some(node) = &change.after {
                        new.insert(change.path.clone(), node.clone());
                    }
                }
                let commit = writing.commit(&tree, Some((&last.commit, &changes)))?;
                Snapshot {
                    commit,
                    tree,
                    taken_at,
                }
            }
        };
        for (path, stat, node) in looked {
            self.unsaved |= match node.is_kept() {
                true => self.known.insert(path, (stat, node.clone())) != Some((stat, node)),
                false => self.known.remove(&path).is_some(),
            };
        }
        self.keep(snapshot.clone(), Some(index), taken_at);
        Ok(Some(snapshot))
    }

    fn keep(&mut self, snapshot: Snapshot, index: Option<Index>, taken_at: i64) {
        self.unsaved |= same_commit(&self.last, &snapshot);
        self.index = index;
        self.read_at = taken_at;
        self.last = Some(snapshot);
    }

    fn walk(&mut self, stop: &Arc<AtomicBool>) -> Result<Snapshot, SnapshotError> {
        let taken_at = now();
        let root = self.scope.root.symlink_metadata().ok();
        let root = root.map(|metadata| Stat::of(&metadata));
        let (found, closed) = scan(&self.scope, None, stop)?;
        let mut writing = Writing::new(&self.store, self.most_bytes);
        let (mut tree, mut known) = (Tree::new(), HashMap::with_capacity(found.len()));
        let (mut fresh, mut entries) = (false, Vec::with_capacity(found.len()));
        for found in found {
            if stop.load(Ordering::Relaxed) {
                return Err(ScanError::Stopped.into());
            }
            let before = self.known.get(&found.path);
            let is_racy = found.stat.is_racy(self.read_at);
            let (stat, node) = match before {
                Some((stat, node)) if *stat == found.stat && !is_racy => (*stat, node.clone()),
                _ => {
                    fresh = true;
                    let held = before.map(|(_, node)| node);
                    match writing.look(&self.scope.root, &found, held)? {
                        Some(looked) => looked,
                        // It has vanished since it was found.
                        None => continue,
                    }
                }
            };
            if node.is_kept() {
                known.insert(found.path.clone(), (stat, node.clone()));
            }
            tree.insert(found.path.clone(), node);
            let stat = match found.kind {
                // Before it was listed, so that whatever comes later shows.
                Kind::Directory => found.stat,
                _ => stat,
            };
            entries.push(Found { stat, ..found });
        }
        let is_whole = closed.is_empty();
        for path in closed {
            let reason = Unkept::Unreadable;
            tree.insert(path, Node::Unkept { reason });
        }
        let same = self.last.as_ref().filter(|last| *last.tree == tree);
        let snapshot = match same {
            Some(last) => Snapshot {
                taken_at,
                ..last.clone()
            },
            None => {
                let differences = self.last.as_ref().map(|last| changes(&last.tree, &tree));
                let earlier = self.last.as_ref().zip(differences.as_deref());
                let earlier = earlier.map(|(last, changes)| (&last.commit, changes));
                Snapshot {
                    commit: writing.commit(&tree, earlier)?,
                    tree: Arc::new(tree),
                    taken_at,
                }
            }
        };
        self.unsaved |= fresh || known.len() != self.known.len();
        self.known = known;
        // A directory that could not be listed is tried again.
        let root = root.filter(|_| is_whole);
        let index = root.map(|root| Index::new(&self.scope, root, entries));
        self.keep(snapshot.clone(), index, taken_at);
        Ok(snapshot)
    }
}

fn same_commit(last: &Option<Snapshot>, snapshot: &Snapshot) -> bool {
    last.as_ref()
        .is_none_or(|last| last.commit != snapshot.commit)
}

/// Contents on their way to the store. Git is started with the first.
struct Writing<'store> {
    store: &'store ObjectStore,
    writer: Option<Writer>,
    left: u64,
    most: u64,
}

impl<'store> Writing<'store> {
    fn new(store: &'store ObjectStore, most: u64) -> Self {
        Writing {
            store,
            writer: None,
            left: most,
            most,
        }
    }

    /// Records `tree`, as the difference to an earlier one where there is one.
    fn commit(
        &mut self,
        tree: &Tree,
        earlier: Option<(&CommitId, &[Change])>,
    ) -> Result<CommitId, SnapshotError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.store.write()?,
        };
        Ok(writer.commit(tree, earlier)?)
    }

    /// What stands there, read anew; its content is in the store afterwards. `None` where nothing does.
    fn look(
        &mut self,
        root: &Path,
        found: &Found,
        held: Option<&Node>,
    ) -> Result<Option<(Stat, Node)>, SnapshotError> {
        match found.kind {
            Kind::File => {}
            _ => return Ok(look_at(&found.path.within(root)).node(found.stat)),
        }
        let looked = look_at(&found.path.within(root));
        if let Looked::File {
            stat,
            blob,
            content,
        } = looked
        {
            let is_held =
                matches!(held, Some(Node::File { blob: earlier, .. }) if *earlier == blob);
            if !is_held {
                let size = content.len() as u64;
                self.left = self
                    .left
                    .checked_sub(size)
                    .ok_or(SnapshotError::TooMuch { most: self.most })?;
                let writer = match &mut self.writer {
                    Some(writer) => writer,
                    none => none.insert(self.store.write()?),
                };
                writer.blob(&content)?;
            }
            let mode = stat.mode;
            return Ok(Some((stat, Node::File { mode, blob })));
        }
        Ok(looked.node(found.stat))
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

mod named;
#[cfg(test)]
mod tests;
