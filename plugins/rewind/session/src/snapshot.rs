//! Recording the directory: only what changed since the last time is read.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bezel_rewind_contract::LARGEST_FILE;
use serde::{Deserialize, Serialize};

use crate::git::{CommitId, GitError, ObjectStore, Writer};
use crate::scan::{Found, Kind, ScanError, Scope, Stat, kind, scan};
use crate::tree::{BlobId, Node, Tree, TreePath, Unkept, changes};

/// How close to the moment of reading a change may lie and still go unnoticed, in nanoseconds: clocks of file
/// systems are coarse.
const RACY: i64 = 1_000_000_000;
/// How often a file is read again that changes meanwhile.
const ATTEMPTS: usize = 3;
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
                self.last = None;
                self.attempt(stop)
            }
            taken => taken,
        }
    }

    fn attempt(&mut self, stop: &Arc<AtomicBool>) -> Result<Snapshot, SnapshotError> {
        let taken_at = now();
        let (found, closed) = scan(&self.scope, stop)?;
        let mut writing = Writing {
            store: &self.store,
            writer: None,
            left: self.most_bytes,
            most: self.most_bytes,
        };
        let (mut tree, mut known) = (Tree::new(), HashMap::with_capacity(found.len()));
        let mut fresh = false;
        for found in found {
            if stop.load(Ordering::Relaxed) {
                return Err(ScanError::Stopped.into());
            }
            let before = self.known.get(&found.path);
            let is_racy = found.stat.modified.max(found.stat.changed) + RACY >= self.read_at;
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
            tree.insert(found.path, node);
        }
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
                let writer = match writing.writer.take() {
                    Some(writer) => writer,
                    None => self.store.write()?,
                };
                Snapshot {
                    commit: writer.commit(&tree, earlier)?,
                    tree: Arc::new(tree),
                    taken_at,
                }
            }
        };
        self.unsaved |=
            fresh || known.len() != self.known.len() || same_commit(&self.last, &snapshot);
        self.known = known;
        self.read_at = taken_at;
        self.last = Some(snapshot.clone());
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

impl Writing<'_> {
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

/// What stands at a path, and a file's content.
enum Looked {
    Nothing,
    File {
        stat: Stat,
        blob: BlobId,
        content: Vec<u8>,
    },
    Other(Stat, Node),
    Unkept(Unkept),
}

impl Looked {
    fn node(self, stat: Stat) -> Option<(Stat, Node)> {
        match self {
            Looked::Nothing => None,
            Looked::File { stat, blob, .. } => {
                let mode = stat.mode;
                Some((stat, Node::File { mode, blob }))
            }
            Looked::Other(stat, node) => Some((stat, node)),
            Looked::Unkept(reason) => Some((stat, Node::Unkept { reason })),
        }
    }

    /// As a node of a tree; nothing where nothing stands.
    fn into_node(self) -> Option<Node> {
        match self {
            Looked::Nothing => None,
            Looked::File { stat, blob, .. } => Some(Node::File {
                mode: stat.mode,
                blob,
            }),
            Looked::Other(_, node) => Some(node),
            Looked::Unkept(reason) => Some(Node::Unkept { reason }),
        }
    }
}

/// What stands at a path below `root`; nothing where a link or a file is on the way.
pub(crate) fn look_within(root: &Path, path: &TreePath) -> Option<Node> {
    let mut parent = path.parent();
    while let Some(directory) = parent {
        if !directory.within(root).symlink_metadata().ok()?.is_dir() {
            return None;
        }
        parent = directory.parent();
    }
    look_at(&path.within(root)).into_node()
}

/// Looks at one path without following a link at its end.
fn look_at(path: &Path) -> Looked {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return absent_or_closed(&error),
    };
    let stat = Stat::of(&metadata);
    match kind(&metadata) {
        Kind::File => read(path),
        Kind::Directory => Looked::Other(stat, Node::Directory { mode: stat.mode }),
        Kind::Special => Looked::Unkept(Unkept::Special),
        Kind::Link => match std::fs::read_link(path) {
            Ok(target) => {
                let target = TreePath::new(target.as_os_str().as_bytes());
                Looked::Other(stat, Node::Link { target })
            }
            Err(error) => absent_or_closed(&error),
        },
    }
}

fn absent_or_closed(error: &io::Error) -> Looked {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Looked::Nothing,
        _ => Looked::Unkept(Unkept::Unreadable),
    }
}

fn read(path: &Path) -> Looked {
    for _ in 0..ATTEMPTS {
        let read = open(path).and_then(|mut file| {
            let before = file.metadata()?;
            if before.len() > LARGEST_FILE {
                return Ok(Err(Unkept::Large));
            }
            let content = read_all(&mut file, &before)?;
            let after = file.metadata()?;
            let steady =
                Stat::of(&before) == Stat::of(&after) && content.len() as u64 == after.len();
            Ok(Ok(steady.then_some((Stat::of(&after), content))))
        });
        match read {
            Ok(Ok(Some((stat, content)))) => {
                return Looked::File {
                    stat,
                    blob: BlobId::of(&content),
                    content,
                };
            }
            Ok(Ok(None)) => {}
            Ok(Err(reason)) => return Looked::Unkept(reason),
            Err(error) => return absent_or_closed(&error),
        }
    }
    Looked::Unkept(Unkept::Changing)
}

/// Neither follows a link nor waits for the other end of a pipe that has taken the file's place.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn read_all(file: &mut File, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
    file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
