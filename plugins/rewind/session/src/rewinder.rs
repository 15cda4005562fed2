//! The checkpoints of one session, as blocking steps: what calls change is in [`turns`](crate::turns), going
//! back in [`staging`](crate::staging). Whoever holds it is alone with the files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use bezel_session_types::InvocationId;

use crate::brackets::Brackets;
use crate::git::{GitError, ObjectStore};
use crate::record::{Records, StagedRecord, Turn};
use crate::restore::{Left, Progress};
use crate::scan::{ScanError, Scope, Stat};
use crate::snapshot::{Recorder, SnapshotError};
use crate::tree::{Node, TreePath};

/// What a session's checkpoints are made of.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The session's directory.
    pub(crate) root: PathBuf,
    /// Where checkpoints are kept.
    pub(crate) records: PathBuf,
    /// Never recorded, absolute: where Bezel keeps this session.
    pub(crate) without: Vec<PathBuf>,
    /// When the session was made, milliseconds since 1970: what was said earlier was taken over from another.
    pub(crate) born: i64,
    /// Where `git` is looked for.
    pub(crate) path: Option<OsString>,
    /// More files are too much.
    pub(crate) most_entries: usize,
    /// More new content in one checkpoint is too much, in bytes.
    pub(crate) most_bytes: u64,
}

/// Something that could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the files could not be recorded: {0}")]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the checkpoints of this session could not be read or written: {0}")]
    Records(#[from] io::Error),
    /// Files were edited since they were put back.
    #[error("files were edited since they were put back")]
    Edited(Vec<TreePath>),
    #[error("nothing is staged")]
    NothingStaged,
}

impl Failure {
    /// Whether it will be so the next time as well, and cost as much.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(
            self,
            Failure::Snapshot(
                SnapshotError::TooMuch { .. } | SnapshotError::Scan(ScanError::TooMany { .. })
            )
        )
    }
}

/// The checkpoints of one session.
#[derive(Debug)]
pub(crate) struct Rewinder {
    pub(crate) root: PathBuf,
    pub(crate) records: Records,
    pub(crate) store: ObjectStore,
    pub(crate) recorder: Recorder,
    pub(crate) turns: Vec<Turn>,
    pub(crate) staged: Option<StagedRecord>,
    /// The calls that may be changing files now.
    pub(crate) brackets: Brackets,
    /// What stood where calls that named their files are to work, kept or not; while they run.
    pub(crate) named: HashMap<InvocationId, Vec<(TreePath, Option<Stat>)>>,
    /// Is told how far files are written.
    pub(crate) progress: Progress,
}

impl Rewinder {
    /// Opens the store, and finishes what a crash has left in the middle.
    pub(crate) fn open(setting: &Setting, progress: Progress) -> Result<Self, Failure> {
        std::fs::create_dir_all(&setting.records)?;
        let root = setting.root.canonicalize()?;
        let records = Records::new(setting.records.canonicalize()?);
        let store = ObjectStore::open(&records.store(), setting.path.as_deref())?;
        let without = setting
            .without
            .iter()
            .filter_map(|path| path.canonicalize().ok());
        let scope = Scope {
            root: root.clone(),
            without: without.filter(|path| *path != root).collect(),
            most_entries: setting.most_entries,
        };
        let recorder = Recorder::new(scope, setting.most_bytes, store.clone(), records.memory());
        let mut rewinder = Rewinder {
            root,
            turns: records.turns()?,
            staged: records.staged()?,
            records,
            store,
            recorder,
            brackets: Brackets::default(),
            named: HashMap::new(),
            progress,
        };
        let (_, set_aside) = rewinder.finish_staged()?;
        for file in set_aside {
            let (path, copy) = (file.path, file.copy.display());
            tracing::warn!(%path, %copy, "a file could not be brought back and is kept elsewhere");
        }
        rewinder.recover()?;
        Ok(rewinder)
    }

    pub(crate) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub(crate) fn staged(&self) -> Option<&StagedRecord> {
        self.staged.as_ref()
    }

    /// What the newest checkpoint does not hold.
    pub(crate) fn unkept(&self) -> Left {
        let tree = self
            .recorder
            .last()
            .into_iter()
            .flat_map(|last| last.tree.iter());
        tree.filter_map(|(path, node)| match node {
            Node::Unkept { reason } => Some((path.clone(), reason.to_string())),
            _ => None,
        })
        .collect()
    }
}
