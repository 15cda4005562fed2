//! Writing files of the session's directory: one path at a time, each from what it is known to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::contents::look_within;
use crate::git::{GitError, ObjectStore, Reader};
use crate::tree::{Node, TreePath};

/// How the names of unfinished files begin. They are in no checkpoint.
pub(crate) const TEMPORARY: &str = ".bezel-rewind-";

/// Moves between two words about how far it is.
const TOLD: usize = 50;
/// Files that are synced one by one.
const FEW: usize = 32;
/// Directories that are synced one by one: each costs little after the first.
const MANY_FOLDERS: usize = 500;
/// Files that wait for their names at once, and their bytes.
const MOST_READY: usize = 2_000;
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// What happens to one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Where.
    pub(crate) path: TreePath,
    /// What stands there.
    pub(crate) from: Option<Node>,
    /// What will stand there.
    pub(crate) to: Option<Node>,
}

/// What was not done, and why.
pub(crate) type Left = Vec<(TreePath, String)>;

/// Is told how many moves of how many are done.
#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Tell>);

type Tell = Arc<dyn Fn(usize, usize) + Send + Sync>;

impl Progress {
    pub(crate) fn new(tell: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(tell)))
    }

    fn tell(&self, done: usize, total: usize) {
        if let Some(tell) = &self.0 {
            tell(done, total);
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Progress")
    }
}

/// Does all moves. Each is done in one step, and not at all where something else stands than is known. Doing it
/// again does what is not done yet. Fails before the first where a content is lost. What was done is on disk
/// when this returns.
pub(crate) fn apply(
    root: &Path,
    store: &ObjectStore,
    moves: &[Move],
    progress: &Progress,
) -> Result<Left, GitError> {
    let mut reader = store.read()?;
    for kept in moves.iter().filter_map(|step| match &step.to {
        Some(Node::File { blob, .. }) => Some(blob),
        _ => None,
    }) {
        reader.blob(kept)?;
    }
    let mut apply = Apply {
        root,
        reader,
        left: BTreeMap::new(),
        ready: Vec::new(),
        bytes: 0,
    };
    apply.sweep(moves);
    // What goes, from the inside out; then what comes, from the outside in; permissions of directories last,
    // since they may forbid writing into them.
    let mut going: Vec<&Move> = moves.iter().filter(|step| goes(step)).collect();
    going.sort_by(|one, other| other.path.cmp(&one.path));
    let coming: Vec<&Move> = moves.iter().filter(|step| step.to.is_some()).collect();
    let total = going.len() + coming.len();
    for (done, step) in going.iter().enumerate() {
        if done % TOLD == 0 {
            progress.tell(done, total);
        }
        apply.attempt(step, Apply::remove)?;
    }
    for (done, step) in coming.iter().enumerate() {
        if done % TOLD == 0 {
            progress.tell(going.len() + done, total);
        }
        apply.attempt(step, Apply::make)?;
        if apply.ready.len() >= MOST_READY || apply.bytes >= MOST_BYTES {
            apply.flush()?;
        }
    }
    apply.flush()?;
    for step in moves.iter().rev().filter(|step| is_directory(&step.to)) {
        apply.attempt(step, Apply::permit)?;
    }
    sync_directories(root, moves);
    Ok(apply.left.into_iter().collect())
}

/// Whether something has to go before what comes can come.
fn goes(step: &Move) -> bool {
    let kind = |node: &Option<Node>| node.as_ref().map(std::mem::discriminant);
    step.from.is_some() && kind(&step.from) != kind(&step.to)
}

enum Failure {
    /// This path stays, the rest goes on.
    Left(String),
    Git(GitError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Left(match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => {
                "the directory holds files that are left alone".into()
            }
            _ => format!("it could not be written: {error}"),
        })
    }
}

struct Apply<'store> {
    root: &'store Path,
    reader: Reader,
    left: BTreeMap<TreePath, String>,
    /// Written beside their places, and not on disk yet.
    ready: Vec<Ready>,
    bytes: usize,
}

/// A file that is written and waits for its name.
struct Ready {
    step: Move,
    file: NamedTempFile,
}

impl Apply<'_> {
    fn attempt(
        &mut self,
        step: &Move,
        work: impl FnOnce(&mut Self, &Move) -> Result<(), Failure>,
    ) -> Result<(), GitError> {
        if self.left.contains_key(&step.path) {
            return Ok(());
        }
        let done = work(self, step);
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Left(reason)) => {
                self.left.insert(step.path.clone(), reason);
                Ok(())
            }
            Err(Failure::Git(error)) => Err(error),
        }
    }

    /// Whether the path may be touched: true when there is something to do.
    fn stands(&self, step: &Move) -> Result<bool, Failure> {
        let stands = look_within(self.root, &step.path);
        if stands == step.to {
            return Ok(false);
        }
        if stands == step.from || stands.is_none() && goes(step) {
            return Ok(true);
        }
        match stands {
            // Its permissions alone are in the way, and a directory loses nothing.
            Some(Node::Directory { .. }) if is_directory(&step.from) => Ok(true),
            Some(Node::Unkept { reason }) => Err(Failure::Left(format!(
                "what stands there is not kept: {reason}"
            ))),
            _ => Err(Failure::Left(
                "it was edited since, or is ignored now".into(),
            )),
        }
    }

    fn remove(&mut self, step: &Move) -> Result<(), Failure> {
        // Where a link is on the way, what one would find behind it is somewhere else.
        if look_within(self.root, &step.path).is_none() || !self.stands(step)? {
            return Ok(());
        }
        let path = step.path.within(self.root);
        let removed = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir(&path),
            Ok(_) => std::fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn make(&mut self, step: &Move) -> Result<(), Failure> {
        let Some(to) = &step.to else { return Ok(()) };
        self.real_parents(&step.path)?;
        if !self.stands(step)? {
            return Ok(());
        }
        let path = step.path.within(self.root);
        let parent = path.parent().unwrap_or(self.root);
        match to {
            Node::Directory { .. } => match std::fs::create_dir_all(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(Failure::Left("something else stands there".into()))
                }
                made => Ok(made?),
            },
            Node::Link { target } => {
                std::fs::create_dir_all(parent)?;
                let temporary = tempfile::Builder::new()
                    .prefix(TEMPORARY)
                    .make_in(parent, |path| symlink(target.as_path(), path))?;
                temporary.persist(&path).map_err(|error| error.error)?;
                Ok(())
            }
            Node::File { mode, blob } => {
                std::fs::create_dir_all(parent)?;
                let content = self.reader.blob(blob).map_err(Failure::Git)?;
                let mut file = tempfile::Builder::new()
                    .prefix(TEMPORARY)
                    .tempfile_in(parent)?;
                file.write_all(&content)?;
                file.as_file()
                    .set_permissions(Permissions::from_mode(*mode))?;
                self.bytes += content.len();
                self.ready.push(Ready {
                    step: step.clone(),
                    file,
                });
                Ok(())
            }
            Node::Unkept { reason } => Err(Failure::Left(reason.to_string())),
        }
    }

    /// Has what is ready on disk, and only then gives each its name: a power cut leaves the old or the new.
    fn flush(&mut self) -> Result<(), GitError> {
        let ready = std::mem::take(&mut self.ready);
        self.bytes = 0;
        // One call for all waits for whatever else is being written there: not for a few.
        let is_synced = ready.len() > FEW && sync_file_system(self.root);
        for Ready { step, file } in ready {
            let mut file = Some(file);
            let named = |apply: &mut Self, step: &Move| {
                let Some(file) = file.take() else {
                    return Ok(());
                };
                if !is_synced {
                    file.as_file().sync_data()?;
                }
                // Somebody may have written there since.
                apply.real_parents(&step.path)?;
                if apply.stands(step)? {
                    file.persist(step.path.within(apply.root))
                        .map_err(|error| error.error)?;
                }
                Ok(())
            };
            self.attempt(&step, named)?;
        }
        Ok(())
    }

    fn permit(&mut self, step: &Move) -> Result<(), Failure> {
        let Some(Node::Directory { mode }) = &step.to else {
            return Ok(());
        };
        self.real_parents(&step.path)?;
        let path = step.path.within(self.root);
        if path.symlink_metadata()?.is_dir() {
            std::fs::set_permissions(&path, Permissions::from_mode(*mode))?;
        }
        Ok(())
    }

    /// Nothing is written through a link: that would be somewhere else.
    fn real_parents(&self, path: &TreePath) -> Result<(), Failure> {
        let mut parent = path.parent();
        while let Some(directory) = parent {
            match directory.within(self.root).symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => {
                    return Err(Failure::Left(format!("{directory} is a link now")));
                }
                _ => parent = directory.parent(),
            }
        }
        Ok(())
    }

    /// Deletes unfinished files that an earlier attempt has left beside what it was to write.
    fn sweep(&self, moves: &[Move]) {
        let mut folders: Vec<_> = moves.iter().map(|step| step.path.parent()).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            let folder = folder.map_or(self.root.to_owned(), |folder| folder.within(self.root));
            let Ok(entries) = std::fs::read_dir(folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
                    && let Err(error) = std::fs::remove_file(entry.path())
                {
                    tracing::debug!(%error, path = %entry.path().display(), "an unfinished file stays");
                }
            }
        }
    }
}

fn is_directory(node: &Option<Node>) -> bool {
    node.as_ref().is_some_and(Node::is_directory)
}

/// Has names that came and went on disk.
fn sync_directories(root: &Path, moves: &[Move]) {
    let folders = moves.iter().map(|step| step.path.parent());
    let folders: BTreeSet<_> = folders.collect();
    if folders.len() > MANY_FOLDERS && sync_file_system(root) {
        return;
    }
    for folder in folders {
        let folder = folder.map_or(root.to_owned(), |folder| folder.within(root));
        // One that is gone has its name gone from the one above, which is among them or as it was.
        if let Err(error) = File::open(&folder).and_then(|folder| folder.sync_all()) {
            tracing::debug!(%error, path = %folder.display(), "a directory was not synced");
        }
    }
}

/// Has everything on disk that was written to the file system of `root`. Whether that was done.
#[cfg(target_os = "linux")]
fn sync_file_system(root: &Path) -> bool {
    let synced = File::open(root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
    if let Err(error) = &synced {
        tracing::debug!(%error, "the file system was not synced as a whole");
    }
    synced.is_ok()
}

/// Has everything on disk that was written to the file system of `root`. Whether that was done.
#[cfg(not(target_os = "linux"))]
fn sync_file_system(_root: &Path) -> bool {
    false
}
