//! Walking the directory: what is there, without what is left alone.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{WalkBuilder, WalkState};
use serde::{Deserialize, Serialize};

use crate::restore::TEMPORARY;
use crate::tree::{TreePath, Unkept};

/// How close to the moment of looking a change may lie and still go unnoticed, in nanoseconds: clocks of file
/// systems are coarse.
pub(crate) const RACY: i64 = 1_000_000_000;
/// Threads of a walk. They live only while it runs.
const MOST_THREADS: usize = 4;

/// What tells that a file has not changed since it was read, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stat {
    /// In bytes.
    pub(crate) size: u64,
    /// Nanoseconds since 1970.
    pub(crate) modified: i64,
    /// Of the inode, nanoseconds since 1970.
    pub(crate) changed: i64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    /// The twelve permission bits.
    pub(crate) mode: u32,
}

/// What kind of thing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Link,
    Directory,
    Special,
}

/// Something that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: TreePath,
    pub(crate) kind: Kind,
    pub(crate) stat: Stat,
}

/// What a walk looks at.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// The directory, absolute and without links.
    pub(crate) root: PathBuf,
    /// Never entered, absolute: where Bezel keeps this session.
    pub(crate) without: Vec<PathBuf>,
    /// More is too much.
    pub(crate) most_entries: usize,
}

/// Why a walk gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The directory itself cannot be read.
    #[error("cannot list {}: {source}", .root.display())]
    Unreadable {
        /// Which.
        root: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is too much.
    #[error("there are more than {most} files in {}, git's ignored ones not counted", .root.display())]
    TooMany {
        /// Where.
        root: PathBuf,
        /// The limit.
        most: usize,
    },
    /// It was told to stop.
    #[error("it took too long")]
    Stopped,
}

/// Everything below the directory in order of paths, and the directories that could not be listed. With `only`,
/// these paths, what is below them, and the directories on the way to them.
pub(crate) fn scan(
    scope: &Scope,
    only: Option<&BTreeSet<TreePath>>,
    stop: &Arc<AtomicBool>,
) -> Result<(Vec<Found>, Vec<TreePath>), ScanError> {
    let root = &scope.root;
    let unreadable = |source| ScanError::Unreadable {
        root: root.clone(),
        source,
    };
    std::fs::read_dir(root).map_err(unreadable)?;
    let found: Mutex<Vec<Found>> = Mutex::default();
    let closed: Mutex<Vec<TreePath>> = Mutex::default();
    let count = AtomicUsize::new(0);
    let without = scope.without.clone();
    let (top, named) = (root.clone(), only.cloned());
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .ignore(false)
        .require_git(false)
        .same_file_system(true)
        .filter_entry(move |entry| {
            entry.depth() == 0
                || !(is_repository(entry.file_name().as_bytes())
                    || entry
                        .file_name()
                        .as_bytes()
                        .starts_with(TEMPORARY.as_bytes())
                    || without.iter().any(|path| path == entry.path())
                    || named
                        .as_ref()
                        .is_some_and(|named| !leads_to(entry.path(), &top, named)))
        })
        .threads(only.map_or_else(threads, |_| 1))
        .build_parallel();
    walk.run(|| {
        let mut batch = Batch {
            found: Vec::new(),
            all: &found,
        };
        let (closed, count) = (&closed, &count);
        Box::new(move |entry| {
            if stop.load(Ordering::Relaxed) {
                return WalkState::Quit;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    if let Some(path) = failed_path(&error).and_then(|path| below(path, root)) {
                        lock(closed).push(path);
                    }
                    return WalkState::Continue;
                }
            };
            // What has vanished since it was listed is not there.
            if let (Some(path), Ok(metadata)) = (below(entry.path(), root), entry.metadata()) {
                if count.fetch_add(1, Ordering::Relaxed) >= scope.most_entries {
                    return WalkState::Quit;
                }
                batch.found.push(Found {
                    path,
                    kind: kind(&metadata),
                    stat: Stat::of(&metadata),
                });
            }
            WalkState::Continue
        })
    });
    if stop.load(Ordering::Relaxed) {
        return Err(ScanError::Stopped);
    }
    if count.load(Ordering::Relaxed) >= scope.most_entries {
        return Err(ScanError::TooMany {
            root: root.clone(),
            most: scope.most_entries,
        });
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let closed = closed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((found, closed))
}

/// How many threads look at files.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS))
}

/// Whether it is one of `named`, below one, or on the way to one.
fn leads_to(path: &Path, root: &Path, named: &BTreeSet<TreePath>) -> bool {
    let Some(path) = below(path, root) else {
        return false;
    };
    let mut above = Some(path.clone());
    while let Some(parent) = above {
        if named.contains(&parent) {
            return true;
        }
        above = parent.parent();
    }
    let mut inside = path.as_bytes().to_vec();
    inside.push(b'/');
    let first = named.range(TreePath::new(inside)..).next();
    first.is_some_and(|first| first.is_below(&path))
}

/// Why a walk passes over something that is there.
pub(crate) fn passed_over(root: &Path, path: &TreePath, stat: &Stat) -> Unkept {
    let mut names = path.as_bytes().split(|byte| *byte == b'/');
    if names.any(is_repository) {
        return Unkept::Repository;
    }
    let top = root.symlink_metadata().map(|top| Stat::of(&top).device);
    match top {
        Ok(device) if device != stat.device => Unkept::Elsewhere,
        _ => Unkept::Ignored,
    }
}

/// Whether it is where a version control keeps its own: that is never looked into.
fn is_repository(name: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b".git", b".hg", b".jj", b".svn"];
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// What one thread of the walk found; handed over when it ends.
struct Batch<'all> {
    found: Vec<Found>,
    all: &'all Mutex<Vec<Found>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        lock(self.all).append(&mut self.found);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            failed_path(err)
        }
        _ => None,
    }
}

fn below(path: &Path, root: &Path) -> Option<TreePath> {
    let relative = path.strip_prefix(root).ok()?;
    let bytes = relative.as_os_str().as_bytes();
    (!bytes.is_empty()).then(|| TreePath::new(bytes))
}

pub(crate) fn kind(metadata: &Metadata) -> Kind {
    match metadata.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Special,
    }
}

impl Stat {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Stat {
            size: metadata.size(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            device: metadata.dev(),
            mode: metadata.mode() & 0o7777,
        }
    }

    /// Whether it changed so shortly before it was looked at, or later, that another change may look the same.
    pub(crate) fn is_racy(&self, seen_at: i64) -> bool {
        self.modified.max(self.changed).saturating_add(RACY) >= seen_at
    }
}

impl From<&rustix::fs::Stat> for Stat {
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the widths of the fields differ between systems"
    )]
    fn from(stat: &rustix::fs::Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
        Stat {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: u64::from(stat.st_ino),
            device: stat.st_dev as u64,
            mode: u32::from(stat.st_mode) & 0o7777,
        }
    }
}
