//! What is written down beside the object store: the turns, and what is staged.
//!
//! One file a fact, each replaced as a whole and synced: a crash leaves the old text or the new one.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bezel_session_types::{EntryId, InvocationId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::git::CommitId;
use crate::restore::Move;
use crate::tree::{Node, TreePath};

/// How turns are written down. Earlier ones were the difference of two looks at everything.
const FORM: u32 = 1;

/// What the turn of one message did to the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// How it is written down.
    #[serde(default)]
    form: u32,
    /// Its place among the session's turns, from 1.
    pub(crate) number: u64,
    /// The message that it answers.
    pub(crate) message: EntryId,
    /// What its calls changed, each path in the order of time. What was changed between two calls is not in it.
    pub(crate) changes: Vec<Made>,
    /// Calls that may be changing files now. After a crash: those that it cut off.
    #[serde(default)]
    pub(crate) open: Vec<Bracket>,
    /// No further call belongs to it.
    #[serde(default)]
    pub(crate) ended: bool,
    /// Why not all of what it changed is known, where it is not.
    pub(crate) problem: Option<String>,
    /// It was taken back, and that was kept.
    pub(crate) undone: bool,
}

/// What calls made of one path, without a change by anybody else in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Where.
    pub(crate) path: TreePath,
    /// What stood there; nothing where it did not exist.
    pub(crate) before: Option<Node>,
    /// What stood there afterwards.
    pub(crate) after: Option<Node>,
    /// How it is known whose work it is.
    #[serde(default)]
    pub(crate) by: By,
}

/// How it is known whose work a change is: the surest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// The call named the file before it ran.
    Name,
    /// It changed while a call ran that may change anything.
    #[default]
    Command,
    /// It changed between the start of such a call and the first look after a crash.
    Crash,
}

/// A call that may be changing files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bracket {
    /// Which.
    pub(crate) call: InvocationId,
    /// What it may change.
    pub(crate) claim: Claim,
}

/// What a call may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "claim", rename_all = "snake_case")]
pub(crate) enum Claim {
    /// Anything. Before it the directory was as in this checkpoint.
    Anything {
        /// Which.
        before: CommitId,
    },
    /// These paths and what is below them.
    Paths {
        /// In order.
        paths: BTreeSet<TreePath>,
        /// What stood there and on the way there.
        before: Vec<(TreePath, Node)>,
    },
}

impl Turn {
    pub(crate) fn new(number: u64, message: EntryId) -> Self {
        Turn {
            form: FORM,
            number,
            message,
            changes: Vec::new(),
            open: Vec::new(),
            ended: false,
            problem: None,
            undone: false,
        }
    }

    /// One of an earlier version does not tell a person's changes from the agent's: none of them counts.
    fn understood(mut self) -> Self {
        if self.form != FORM {
            self.form = FORM;
            self.ended = true;
            self.changes.clear();
            self.problem.get_or_insert_with(|| {
                "it was recorded by an earlier version, which could not tell your changes from the agent's".to_owned()
            });
        }
        self
    }

    /// Adds what calls made of paths.
    pub(crate) fn add(&mut self, made: Vec<Made>) {
        let places = self.changes.iter().enumerate();
        let mut newest: HashMap<TreePath, usize> = places
            .map(|(place, earlier)| (earlier.path.clone(), place))
            .collect();
        for made in made {
            let earlier = newest
                .get(&made.path)
                .map(|place| &mut self.changes[*place]);
            match earlier {
                Some(earlier) if earlier.after == made.before => {
                    earlier.after = made.after;
                    earlier.by = earlier.by.max(made.by);
                }
                _ => {
                    newest.insert(made.path.clone(), self.changes.len());
                    self.changes.push(made);
                }
            }
        }
    }

    /// What its calls last left at a path, where they changed it.
    pub(crate) fn left_at(&self, path: &TreePath) -> Option<&Option<Node>> {
        let mut changes = self.changes.iter();
        changes
            .rfind(|made| made.path == *path)
            .map(|made| &made.after)
    }

    /// Adds another reason why not all is known.
    pub(crate) fn note_problem(&mut self, reason: &str) {
        match &mut self.problem {
            Some(problem) if problem.contains(reason) => {}
            Some(problem) => {
                problem.push_str("; ");
                problem.push_str(reason);
            }
            none => *none = Some(reason.to_owned()),
        }
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
    /// How it is known that the agent changed it.
    #[serde(default)]
    pub(crate) by: Option<By>,
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
    },
    /// They are.
    Staged,
    /// They are being brought back to what they were.
    Clearing {
        /// What is done for it.
        moves: Vec<Move>,
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

    /// Where what was overwritten on request is kept.
    pub(crate) fn set_aside(&self) -> PathBuf {
        self.directory.join("set-aside")
    }

    /// Touched again and again while a call may change anything.
    pub(crate) fn pulse(&self) -> PathBuf {
        self.directory.join("pulse")
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
                turns.extend(read::<Turn>(&path)?.map(Turn::understood));
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
