//! What calls change, recorded as they begin and end.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bezel_session_types::{EntryId, InvocationId};

use crate::brackets::{Brackets, Reach, made};
use crate::record::{Bracket, By, Claim, Made, Turn};
use crate::rewinder::{Failure, Rewinder};
use crate::scan::{ScanError, Stat, passed_over};
use crate::snapshot::SnapshotError;
use crate::tree::{Node, Tree, TreePath, changes};

/// What a call says that it may change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Touch {
    Anything,
    /// Absolute; links in them are not followed yet.
    Paths(Vec<PathBuf>),
}

/// How long after the last sign of life a process may still have been there.
const PULSE_SLACK: Duration = Duration::from_secs(3);

impl Rewinder {
    /// Whether a call is open.
    pub(crate) fn is_recording(&self) -> bool {
        self.brackets.is_open()
    }

    /// Whether the turn of `message` goes on.
    pub(crate) fn has_begun(&self, message: &EntryId) -> bool {
        let is_it = |turn: &Turn| turn.message == *message && !turn.ended;
        self.turns.last().is_some_and(is_it)
    }

    /// Records what a call of the turn of `message` may change, before it runs. On disk when this returns.
    pub(crate) fn begin_call(
        &mut self,
        message: &EntryId,
        call: &InvocationId,
        touch: &Touch,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let reach = match touch {
            Touch::Anything => Reach::Anything,
            Touch::Paths(paths) => self.reach(paths),
        };
        if matches!(&reach, Reach::Paths(paths) if paths.is_empty()) {
            return Ok(());
        }
        // Asked again after it was cut off before it ran.
        self.brackets.withdraw(call);
        let named = reach.paths().into_iter().flatten();
        let named = named.map(|path| (path.clone(), self.stat(path)));
        let named = named.collect();
        self.named.insert(call.clone(), named);
        if !self.has_begun(message) {
            self.end_turn()?;
        }
        let begun = self.look_before(message, call, reach, stop);
        // Who waited has gone, and the tool may run already: these are no longer the files before it.
        let begun = match begun {
            Ok(made) if stop.load(Ordering::Relaxed) => {
                self.brackets.withdraw(call);
                // What other calls had changed until then is not known a second time.
                if self.has_begun(message) {
                    self.write_turn(|turn| turn.add(made))?;
                }
                Err(SnapshotError::from(ScanError::Stopped).into())
            }
            begun => begun,
        };
        match begun {
            Ok(made) => {
                self.begin_turn(message)?;
                // The first sign of life is there before the call runs.
                std::fs::write(self.records.pulse(), "alive\n")?;
                self.write_turn(|turn| turn.add(made))
            }
            Err(error @ Failure::Snapshot(SnapshotError::Scan(ScanError::Stopped))) => Err(error),
            Err(error) => {
                self.begin_turn(message)?;
                let reason = format!("the files before a call could not be recorded: {error}");
                if error.is_lasting() {
                    self.brackets = Brackets::default();
                }
                self.write_turn(|turn| turn.note_problem(&reason))?;
                Err(error)
            }
        }
    }

    fn look_before(
        &mut self,
        message: &EntryId,
        call: &InvocationId,
        reach: Reach,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Made>, Failure> {
        let is_known = self.brackets.has_all();
        match reach {
            Reach::Anything if is_known => Ok(self.brackets.begin_all(call, None)),
            Reach::Anything => {
                let now = self.recorder.take(stop)?;
                Ok(self.brackets.begin_all(call, Some(now)))
            }
            Reach::Paths(paths) if is_known => {
                self.brackets.begin_some(call, paths, None);
                Ok(Vec::new())
            }
            Reach::Paths(paths) => {
                // What its own calls have left is recorded already.
                let turn = self.turns.last().filter(|_| self.has_begun(message));
                let wanted = |path: &TreePath, node: &_| {
                    let left = turn.and_then(|turn| turn.left_at(path));
                    left.is_none_or(|left| left.as_ref() != Some(node))
                };
                let now = self.recorder.look_named(&paths, wanted, stop)?;
                self.brackets.begin_some(call, paths, Some(&now));
                Ok(Vec::new())
            }
        }
    }

    /// Records what a call has changed, after it has ended.
    pub(crate) fn end_call(
        &mut self,
        call: &InvocationId,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let Some(reach) = self.brackets.reach(call).cloned() else {
            self.named.remove(call);
            return Ok(());
        };
        let ended = match reach {
            Reach::Anything => self.end_all(call, stop),
            Reach::Paths(paths) => {
                let looked = self.recorder.look_named(&paths, |_, _| false, stop);
                let ended = looked.map(|now| {
                    let mut made = self.brackets.end_some(call, &now);
                    made.extend(self.passed_over(call, &now, &made));
                    made
                });
                ended.map_err(Failure::from)
            }
        };
        self.named.remove(call);
        match ended {
            Ok(made) => self.write_turn(|turn| turn.add(made)),
            Err(error) => {
                let reason = format!("what a call changed could not be recorded: {error}");
                // Where it is not known what was changed, nothing that comes later can be told from it.
                self.brackets = Brackets::default();
                self.write_turn(|turn| turn.note_problem(&reason))?;
                Err(error)
            }
        }
    }

    /// What a call has changed of what it named and what is not kept: it stays, and going back says so.
    fn passed_over(&self, call: &InvocationId, now: &Tree, made: &[Made]) -> Vec<Made> {
        let is_kept =
            |path: &TreePath| now.contains_key(path) || made.iter().any(|made| made.path == *path);
        let named = self.named.get(call).into_iter().flatten();
        let changed = named.filter_map(|(path, before)| {
            let after = self.stat(path);
            let stat = after.as_ref().or(before.as_ref())?;
            if after == *before || is_kept(path) {
                return None;
            }
            let reason = passed_over(&self.root, path, stat);
            let unkept = Some(Node::Unkept { reason });
            Some(Made {
                path: path.clone(),
                before: unkept.clone(),
                after: unkept,
                by: By::Name,
            })
        });
        changed.collect()
    }

    fn stat(&self, path: &TreePath) -> Option<Stat> {
        let metadata = path.within(&self.root).symlink_metadata().ok()?;
        Some(Stat::of(&metadata))
    }

    fn end_all(
        &mut self,
        call: &InvocationId,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Made>, Failure> {
        let since = self.brackets.all_since().unwrap_or_default();
        let now = self.recorder.take(stop)?;
        let mut made = self.brackets.end_all(call, now);
        self.without_older(&mut made, since);
        Ok(made)
    }

    /// A call that was to run and did not: what changed meanwhile is not its work.
    pub(crate) fn withdraw(&mut self, call: &InvocationId) -> Result<(), Failure> {
        self.named.remove(call);
        if self.brackets.reach(call).is_none() {
            return Ok(());
        }
        self.brackets.withdraw(call);
        self.write_turn(|_| {})
    }

    /// Begins the turn of `message` where it has not begun, and ends the one before. What is staged stays as
    /// it is for good: the agent goes on from there.
    fn begin_turn(&mut self, message: &EntryId) -> Result<(), Failure> {
        if self.has_begun(message) {
            return Ok(());
        }
        self.end_turn()?;
        if self.staged.is_some() {
            self.commit()?;
        }
        let number = self.turns.last().map_or(1, |turn| turn.number + 1);
        self.turns.push(Turn::new(number, message.clone()));
        Ok(())
    }

    /// A call whose files could not be recorded in time. Nothing more is, until the session is opened again.
    pub(crate) fn give_up(&mut self, message: &EntryId, reason: &str) -> Result<(), Failure> {
        self.brackets = Brackets::default();
        self.begin_turn(message)?;
        self.write_turn(|turn| turn.note_problem(reason))
    }

    /// No further call belongs to the turn. What has not ended by now never ran.
    pub(crate) fn end_turn(&mut self) -> Result<(), Failure> {
        if self.turns.last().is_none_or(|turn| turn.ended) {
            return Ok(());
        }
        self.brackets = Brackets::default();
        self.named.clear();
        self.write_turn(|turn| turn.ended = true)?;
        self.recorder.remember()?;
        Ok(())
    }

    fn write_turn(&mut self, change: impl FnOnce(&mut Turn)) -> Result<(), Failure> {
        if let Some(turn) = self.turns.last_mut() {
            change(turn);
            turn.open = self.brackets.written();
            self.records.save_turn(turn)?;
        }
        Ok(())
    }

    /// After a crash: what the calls that it cut off have changed, as far as that can be told.
    pub(crate) fn recover(&mut self) -> Result<(), Failure> {
        let Some(turn) = self.turns.last() else {
            return Ok(());
        };
        if turn.open.is_empty() {
            return Ok(());
        }
        let alive = last_alive(&self.records.pulse());
        let (mut found, mut problem) = (Vec::new(), None);
        for Bracket { claim, .. } in &turn.open.clone() {
            match self.look_after_crash(claim) {
                Ok(made) => found.push(made),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        let mut seen = BTreeSet::new();
        let mut made: Vec<Made> = found.into_iter().flatten().collect();
        // What two of them claim is one change.
        made.retain(|made| seen.insert(made.path.clone()));
        // What came after the process was gone is not its work.
        if let Some(alive) = alive {
            made.retain(|made| made.after.is_none() || !self.is_newer(&made.path, alive));
        }
        self.write_turn(|turn| {
            turn.add(made);
            if let Some(problem) = problem {
                let reason = "what a call changed that a crash cut off could not be recorded";
                turn.note_problem(&format!("{reason}: {problem}"));
            }
        })
    }

    fn look_after_crash(&mut self, claim: &Claim) -> Result<Vec<Made>, Failure> {
        let stop = Arc::default();
        match claim {
            Claim::Anything { before } => {
                let before = self.store.load(before)?;
                let now = self.recorder.take(&stop)?;
                let found = changes(&before, &now.tree);
                Ok(made(found, By::Crash, &BTreeSet::new()))
            }
            Claim::Paths { paths, before } => {
                let now = self.recorder.look_named(paths, |_, _| false, &stop)?;
                let before: Tree = before.iter().cloned().collect();
                Ok(made(changes(&before, &now), By::Crash, paths))
            }
        }
    }

    /// Whether it was changed after `moment`, as its times say.
    fn is_newer(&self, path: &TreePath, moment: SystemTime) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = path.within(&self.root).symlink_metadata();
        let moment = moment.duration_since(SystemTime::UNIX_EPOCH);
        match (metadata, moment) {
            (Ok(metadata), Ok(moment)) => {
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                let moment = (
                    i64::try_from(moment.as_secs()).unwrap_or(i64::MAX),
                    i64::from(moment.subsec_nanos()),
                );
                changed > moment
            }
            _ => false,
        }
    }

    /// Where a call changed what git ignores, files that merely come to light are older than the call.
    fn without_older(&self, made: &mut Vec<Made>, began: i64) {
        if !made.iter().any(|made| made.path.name() == b".gitignore") {
            return;
        }
        let is_older = |path: &TreePath| {
            let metadata = path.within(&self.root).symlink_metadata();
            let born = metadata.and_then(|metadata| metadata.created()).ok();
            let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
            // Where nobody knows, it is taken for older: it stays.
            born.is_none_or(|born| i64::try_from(born.as_nanos()).unwrap_or(i64::MAX) < began)
        };
        made.retain(|made| made.before.is_some() || !is_older(&made.path));
    }

    /// What a call that names its files may change, as paths below the directory: both a link and what it
    /// leads to. What lies outside is not covered.
    fn reach(&self, named: &[PathBuf]) -> Reach {
        let mut paths = BTreeSet::new();
        for path in named {
            let Some(name) = path.file_name() else {
                return Reach::Anything;
            };
            let parent = path.parent().unwrap_or(Path::new("/"));
            let (Some(parent), Some(target)) = (real(parent), real(path)) else {
                return Reach::Anything;
            };
            for place in [parent.join(name), target] {
                match place.strip_prefix(&self.root) {
                    Ok(inside) if inside.as_os_str().is_empty() => return Reach::Anything,
                    Ok(inside) => {
                        paths.insert(TreePath::of(inside));
                    }
                    Err(_) => {}
                }
            }
        }
        Reach::Paths(paths)
    }
}

/// Where a path leads, links followed as far as it exists. None where that cannot be told.
fn real(path: &Path) -> Option<PathBuf> {
    let (mut there, mut missing) = (path, Vec::new());
    loop {
        match there.canonicalize() {
            Ok(found) => return Some(found.join(missing.iter().rev().collect::<PathBuf>())),
            Err(error) if is_missing(&error) => {}
            Err(_) => return None,
        }
        missing.push(there.file_name()?);
        there = there.parent()?;
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Until when the process that a crash ended may have been there.
fn last_alive(pulse: &Path) -> Option<SystemTime> {
    let modified = pulse.metadata().and_then(|metadata| metadata.modified());
    modified.ok().map(|at| at + PULSE_SLACK)
}
