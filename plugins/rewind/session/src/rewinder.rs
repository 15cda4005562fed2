//! Checkpoints and going back, as a sequence of blocking steps. Whoever holds it is alone with the files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bezel_session_types::EntryId;

use crate::git::{GitError, ObjectStore, Reader};
use crate::plan::{Plan, plan};
use crate::record::{Conversation, Item, Phase, Records, StagedRecord, Turn};
use crate::restore::{Left, Move, apply};
use crate::scan::{ScanError, Scope};
use crate::snapshot::{Recorder, Snapshot, SnapshotError, look_within};
use crate::tree::{Change, Node, Tree, TreePath, changes};

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
    root: PathBuf,
    records: Records,
    store: ObjectStore,
    recorder: Recorder,
    turns: Vec<Turn>,
    staged: Option<StagedRecord>,
    /// Before the open turn, where this process has taken it.
    open: Option<Snapshot>,
}

impl Rewinder {
    /// Opens the store, and finishes what a crash has left in the middle.
    pub(crate) fn open(setting: &Setting) -> Result<Self, Failure> {
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
            open: None,
        };
        rewinder.finish_staged()?;
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

    /// Whether the turn of `message` has its checkpoint, and goes on.
    pub(crate) fn has_begun(&self, message: &EntryId) -> bool {
        let is_it = |turn: &Turn| turn.message == *message && turn.is_open();
        self.turns.last().is_some_and(is_it)
    }

    /// Records the files before the turn of `message`, and ends the turn before. What is staged stays as it is
    /// for good: the agent goes on from there.
    pub(crate) fn begin_turn(
        &mut self,
        message: &EntryId,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let snapshot = match self.recorder.take(stop) {
            // Who waited has gone, and the tool may run already: these are no longer the files before it.
            Ok(_) if stop.load(Ordering::Relaxed) => {
                return Err(SnapshotError::from(ScanError::Stopped).into());
            }
            Err(error @ SnapshotError::Scan(ScanError::Stopped)) => return Err(error.into()),
            Ok(snapshot) => snapshot,
            Err(error) => {
                let reason = error.to_string();
                self.close_unknown(&format!("its end could not be recorded: {reason}"))?;
                self.add_turn(message, None, Some(reason))?;
                return Err(error.into());
            }
        };
        self.close_with(&snapshot)?;
        if self.staged.is_some() {
            self.commit()?;
        }
        self.open = Some(snapshot.clone());
        self.add_turn(message, Some(snapshot), None)
    }

    /// A checkpoint that did not come in time.
    pub(crate) fn give_up_turn(&mut self, message: &EntryId, reason: &str) -> Result<(), Failure> {
        self.close_unknown("the next checkpoint could not be taken")?;
        self.add_turn(message, None, Some(reason.to_owned()))
    }

    fn add_turn(
        &mut self,
        message: &EntryId,
        before: Option<Snapshot>,
        problem: Option<String>,
    ) -> Result<(), Failure> {
        let turn = Turn {
            number: self.turns.last().map_or(1, |turn| turn.number + 1),
            message: message.clone(),
            taken_at: before.as_ref().map_or(0, |before| before.taken_at),
            before: before.map(|before| before.commit),
            after: None,
            changes: Vec::new(),
            problem,
            undone: false,
        };
        self.records.save_turn(&turn)?;
        self.turns.push(turn);
        Ok(())
    }

    /// Records the files after the turn that has ended, where one is open.
    pub(crate) fn end_turn(&mut self, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
        if !self.turns.last().is_some_and(Turn::is_open) {
            return Ok(());
        }
        match self.recorder.take(stop) {
            Ok(snapshot) => self.close_with(&snapshot)?,
            Err(error) => {
                self.close_unknown(&format!("its end could not be recorded: {error}"))?;
                return Err(error.into());
            }
        }
        self.recorder.remember()?;
        Ok(())
    }

    fn close_with(&mut self, after: &Snapshot) -> Result<(), Failure> {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.is_open()) else {
            return Ok(());
        };
        let Some(commit) = &turn.before else {
            return Ok(());
        };
        let before = match self.open.take().filter(|open| open.commit == *commit) {
            Some(open) => Ok(open.tree),
            None => self.store.load(commit).map(Arc::new),
        };
        let mut closed = turn.clone();
        match before {
            Ok(before) => {
                closed.changes = made(&before, after, closed.taken_at, &self.root);
                closed.after = Some(after.commit.clone());
            }
            Err(error) => closed.problem = Some(error.to_string()),
        }
        self.records.save_turn(&closed)?;
        *turn = closed;
        Ok(())
    }

    fn close_unknown(&mut self, reason: &str) -> Result<(), Failure> {
        if let Some(turn) = self.turns.last_mut().filter(|turn| turn.is_open()) {
            turn.problem = Some(reason.to_owned());
            self.records.save_turn(turn)?;
        }
        Ok(())
    }

    /// What going back to before the oldest of `numbers` does: the plan, and the directory as it is.
    pub(crate) fn preview(
        &mut self,
        numbers: &[u64],
        force: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Plan, Failure> {
        self.end_turn(stop)?;
        let current = self.recorder.take(stop)?;
        let original = match &self.staged {
            Some(staged) => Arc::new(self.store.load(&staged.original)?),
            None => current.tree,
        };
        Ok(self.plan(numbers, &original, force))
    }

    fn plan(&self, numbers: &[u64], original: &Tree, force: bool) -> Plan {
        let turns = self.turns.iter();
        let turns = turns.filter(|turn| numbers.contains(&turn.number) && !turn.undone);
        let mut plan = plan(&turns.collect::<Vec<_>>(), original, force);
        // What git ignores now, and did not then, is in no snapshot and still there.
        let staged = self.staged.iter().flat_map(|staged| &staged.items);
        let staged: BTreeSet<&TreePath> = staged.map(|item| &item.path).collect();
        let hidden = plan.items.extract_if(.., |item| {
            item.original.is_none()
                && !staged.contains(&item.path)
                && self.stands(&item.path).is_some()
        });
        let hidden = hidden.map(|item| (item.path, "git ignores it now".to_owned()));
        plan.left_alone.extend(hidden.collect::<Vec<_>>());
        plan
    }

    /// What stands at a path now, ignored or not.
    fn stands(&self, path: &TreePath) -> Option<Node> {
        look_within(&self.root, path)
    }

    /// Puts the files back to before the turns `numbers`.
    pub(crate) fn stage(
        &mut self,
        (message, text): (&EntryId, &str),
        numbers: &[u64],
        force: bool,
        conversation: Conversation,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        self.end_turn(stop)?;
        let current = self.recorder.take(stop)?;
        let (original, tree, earlier) = match &self.staged {
            Some(staged) => {
                let tree = Arc::new(self.store.load(&staged.original)?);
                (staged.original.clone(), tree, staged.items.clone())
            }
            None => (
                current.commit.clone(),
                Arc::clone(&current.tree),
                Vec::new(),
            ),
        };
        let mut plan = self.plan(numbers, &tree, force);
        let mut moves: BTreeMap<TreePath, Move> = BTreeMap::new();
        let mut kept = Vec::new();
        for item in &earlier {
            // Whoever edits what was put back keeps it, and can still have the original back.
            if current.tree.get(&item.path) != item.restored.as_ref() && !force {
                plan.items.retain(|planned| planned.path != item.path);
                let reason = "it was edited since it was put back".to_owned();
                plan.left_alone.push((item.path.clone(), reason));
                kept.push(item.clone());
                continue;
            }
            moves.insert(
                item.path.clone(),
                go(&item.path, &current.tree, &item.original),
            );
            if plan.items.iter().all(|planned| planned.path != item.path) {
                kept.push(Item {
                    restored: item.original.clone(),
                    ..item.clone()
                });
            }
        }
        let left_alone = &mut plan.left_alone;
        plan.items.retain_mut(|item| {
            let stands = current.tree.get(&item.path);
            let is_staged = moves.contains_key(&item.path);
            if !is_staged && stands != item.original.as_ref() {
                if !force {
                    let reason = "it was edited while other files were put back".to_owned();
                    left_alone.push((item.path.clone(), reason));
                    return false;
                }
                item.original = stands.cloned();
            }
            moves.insert(
                item.path.clone(),
                go(&item.path, &current.tree, &item.restored),
            );
            true
        });
        plan.items.extend(kept);
        plan.items.sort_by(|one, other| one.path.cmp(&other.path));
        let moves = moves
            .into_values()
            .filter(|step| step.from != step.to)
            .collect();
        let staged = StagedRecord {
            message: message.clone(),
            text: text.to_owned(),
            original,
            items: plan.items,
            left_alone: plan.left_alone,
            gaps: plan.gaps,
            turns: numbers.to_vec(),
            conversation,
            phase: Phase::Staging { moves, force },
        };
        self.records.save_staged(&staged)?;
        self.staged = Some(staged);
        self.finish_staged()?;
        Ok(())
    }

    /// Brings back what was there before the first staging. How many files, and what was left alone.
    pub(crate) fn clear(
        &mut self,
        force: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<(usize, Left), Failure> {
        let mut staged = self.staged.clone().ok_or(Failure::NothingStaged)?;
        let moves: Vec<Move> = staged
            .items
            .iter()
            .map(|item| Move {
                path: item.path.clone(),
                from: self.stands(&item.path),
                to: item.original.clone(),
            })
            .collect();
        let edited = moves.iter().zip(&staged.items).filter(|(step, item)| {
            step.from != item.restored && step.from != step.to && !is_unchanged_kind(step)
        });
        let edited: Vec<TreePath> = edited.map(|(step, _)| step.path.clone()).collect();
        if !edited.is_empty() {
            if !force {
                return Err(Failure::Edited(edited));
            }
            // What is overwritten stays in the store, for whoever needs it badly.
            self.recorder.take(stop)?;
        }
        let moves = moves
            .into_iter()
            .filter(|step| step.from != step.to)
            .collect();
        let files = count(&staged.items);
        staged.phase = Phase::Clearing { moves, force };
        self.records.save_staged(&staged)?;
        self.staged = Some(staged);
        Ok((files, self.finish_staged()?))
    }

    /// Notes what becomes of the conversation.
    pub(crate) fn note_conversation(&mut self, conversation: Conversation) -> Result<(), Failure> {
        let Some(staged) = &self.staged else {
            return Ok(());
        };
        if staged.conversation == conversation {
            return Ok(());
        }
        let noted = StagedRecord {
            conversation,
            ..staged.clone()
        };
        self.records.save_staged(&noted)?;
        self.staged = Some(noted);
        Ok(())
    }

    /// Keeps the files as they are; the turns that are taken back count no more. How many files.
    pub(crate) fn commit(&mut self) -> Result<usize, Failure> {
        let mut staged = self.staged.clone().ok_or(Failure::NothingStaged)?;
        let files = count(&staged.items);
        staged.phase = Phase::Committing;
        self.records.save_staged(&staged)?;
        self.staged = Some(staged);
        self.finish_staged()?;
        Ok(files)
    }

    /// Takes what is staged as far as its phase says. Doing it twice is doing it once.
    fn finish_staged(&mut self) -> Result<Left, Failure> {
        let Some(staged) = self.staged.clone() else {
            return Ok(Left::new());
        };
        match &staged.phase {
            Phase::Staged => Ok(Left::new()),
            Phase::Staging { moves, force } => {
                let left = apply(&self.root, &self.store, moves, *force)?;
                let mut done = staged.clone();
                // What stands as it did is not staged; what was begun is, so that it can be brought back.
                done.items.retain(|item| {
                    let is_back = item.restored == item.original
                        || left.iter().any(|(path, _)| *path == item.path);
                    !is_back || self.stands(&item.path) != item.original
                });
                done.left_alone.extend(left.iter().cloned());
                done.phase = Phase::Staged;
                self.records.save_staged(&done)?;
                self.staged = Some(done);
                Ok(left)
            }
            Phase::Clearing { moves, force } => {
                let left = apply(&self.root, &self.store, moves, *force)?;
                self.records.remove_staged()?;
                self.staged = None;
                Ok(left)
            }
            Phase::Committing => {
                for turn in &mut self.turns {
                    if staged.turns.contains(&turn.number) && !turn.undone {
                        turn.undone = true;
                        self.records.save_turn(turn)?;
                    }
                }
                self.records.remove_staged()?;
                self.staged = None;
                Ok(Left::new())
            }
        }
    }

    /// Gives contents back, for showing.
    pub(crate) fn reader(&self) -> Result<Reader, Failure> {
        Ok(self.store.read()?)
    }
}

fn go(path: &TreePath, current: &Tree, to: &Option<Node>) -> Move {
    Move {
        path: path.clone(),
        from: current.get(path).cloned(),
        to: to.clone(),
    }
}

/// Whether it is and stays a directory: nothing is lost by that.
fn is_unchanged_kind(step: &Move) -> bool {
    [&step.from, &step.to]
        .into_iter()
        .all(|node| node.as_ref().is_some_and(Node::is_directory))
}

/// How many of them are files: directories come and go with what is in them.
pub(crate) fn count(items: &[Item]) -> usize {
    items.iter().filter(|item| item.is_file()).count()
}

/// What a turn made of the files. Where it changed what git ignores, files that merely come to light are older
/// than the turn: not its work.
fn made(before: &Tree, after: &Snapshot, began: i64, root: &Path) -> Vec<Change> {
    let mut made = changes(before, &after.tree);
    if !made
        .iter()
        .any(|change| change.path.name() == b".gitignore")
    {
        return made;
    }
    let is_older = |path: &TreePath| {
        let metadata = path.within(root).symlink_metadata();
        let born = metadata.and_then(|metadata| metadata.created());
        let born = born
            .ok()
            .and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
        // Where nobody knows, it is taken for older: it stays.
        born.is_none_or(|born| i64::try_from(born.as_nanos()).unwrap_or(i64::MAX) < began)
    };
    made.retain(|change| change.before.is_some() || !is_older(&change.path));
    made
}
