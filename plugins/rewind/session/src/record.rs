//! What is written down beside the object store: the turns, and what is staged.
//!
//! One file a fact, each replaced as a whole and synced: a crash leaves the old text or the new one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bezel_session_types::EntryId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::git::CommitId;
use crate::restore::Move;
use crate::tree::{Change, Node, TreePath};

/// What the turn of one message did to the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Its place among the session's turns, from 1.
    pub(crate) number: u64,
    /// The message that it answers.
    pub(crate) message: EntryId,
    /// Before its first tool that may change files. None where that could not be recorded.
    pub(crate) before: Option<CommitId>,
    /// When that was, nanoseconds since 1970.
    pub(crate) taken_at: i64,
    /// After its end. None while it runs, or where that could not be recorded.
    pub(crate) after: Option<CommitId>,
    /// What differs between the two.
    pub(crate) changes: Vec<Change>,
    /// Why what it changed is not known, where it is not.
    pub(crate) problem: Option<String>,
    /// It was taken back, and that was kept.
    pub(crate) undone: bool,
}

impl Turn {
    /// Whether it has not been looked at after its end.
    pub(crate) fn is_open(&self) -> bool {
        self.before.is_some() && self.after.is_none() && self.problem.is_none()
    }
}

/// What was put back and can be undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StagedRecord {
    /// Back to before this message.
    pub(crate) message: EntryId,
    /// The beginning of its text.
    pub(crate) text: String,
    /// The whole directory before anything was put back.
    pub(crate) original: CommitId,
    /// What is put back, in order of paths.
    pub(crate) items: Vec<Item>,
    /// What is not, and why.
    pub(crate) left_alone: Vec<(TreePath, String)>,
    /// Turns whose changes are not known.
    pub(crate) gaps: Vec<String>,
    /// The turns that this takes back.
    pub(crate) turns: Vec<u64>,
    /// What becomes of the conversation.
    #[serde(default)]
    pub(crate) conversation: Conversation,
    /// How far it is.
    pub(crate) phase: Phase,
}

/// What becomes of the conversation that what is staged belongs to. That it is to depart is kept by the session
/// itself, beside its tip: it departs and forgets that in one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "conversation", rename_all = "snake_case")]
pub(crate) enum Conversation {
    /// It stays.
    #[default]
    Stays,
    /// It is to go on from there; the session may not have been told.
    Wanted {
        /// Before the message; none where that is the first entry.
        from: Option<EntryId>,
    },
    /// The session was told. Where it knows nothing of that any more, it has gone somewhere.
    Departs {
        /// Before the message; none where that is the first entry.
        from: Option<EntryId>,
    },
}

/// One path that is put back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item {
    /// Where.
    pub(crate) path: TreePath,
    /// What stood there before the first staging.
    pub(crate) original: Option<Node>,
    /// What it is put back to.
    pub(crate) restored: Option<Node>,
}

impl Item {
    /// Whether it is more than a directory that comes or goes.
    pub(crate) fn is_file(&self) -> bool {
        let mut nodes = [&self.original, &self.restored].into_iter().flatten();
        nodes.any(|node| !node.is_directory())
    }
}

/// How far a staging is. What a crash leaves in the middle is finished at the next start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The files are being put back.
    Staging {
        /// What is done for it.
        moves: Vec<Move>,
        /// Whatever stands there.
        force: bool,
    },
    /// They are.
    Staged,
    /// They are being brought back to what they were.
    Clearing {
        /// What is done for it.
        moves: Vec<Move>,
        /// Whatever stands there.
        force: bool,
    },
    /// They stay.
    Committing,
}

/// Where all of it is.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    directory: PathBuf,
}

impl Records {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Records { directory }
    }

    /// Where contents are.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("objects.git")
    }

    /// Where what is known of files is kept between processes.
    pub(crate) fn memory(&self) -> PathBuf {
        self.directory.join("known.json")
    }

    /// Whether there is anything to take up.
    pub(crate) fn exist(&self) -> bool {
        self.directory.is_dir()
    }

    /// All turns, in order.
    pub(crate) fn turns(&self) -> io::Result<Vec<Turn>> {
        let entries = match std::fs::read_dir(self.folder()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut turns = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                turns.extend(read::<Turn>(&path)?);
            }
        }
        turns.sort_by_key(|turn| turn.number);
        Ok(turns)
    }

    pub(crate) fn save_turn(&self, turn: &Turn) -> io::Result<()> {
        std::fs::create_dir_all(self.folder())?;
        let path = self.folder().join(format!("{:08}.json", turn.number));
        replace(&path, &serde_json::to_vec(turn)?)
    }

    pub(crate) fn staged(&self) -> io::Result<Option<StagedRecord>> {
        read(&self.staged_file())
    }

    pub(crate) fn save_staged(&self, staged: &StagedRecord) -> io::Result<()> {
        replace(&self.staged_file(), &serde_json::to_vec(staged)?)
    }

    pub(crate) fn remove_staged(&self) -> io::Result<()> {
        match std::fs::remove_file(self.staged_file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Whether something is staged.
    pub(crate) fn has_staged(&self) -> bool {
        self.staged_file().exists()
    }

    fn folder(&self) -> PathBuf {
        self.directory.join("turns")
    }

    fn staged_file(&self) -> PathBuf {
        self.directory.join("staged.json")
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    Ok(Some(value))
}

/// Replaces a file as a whole, on disk before it returns.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    std::fs::File::open(folder)?.sync_all()
}
