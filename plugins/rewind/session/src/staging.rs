//! Putting files back, bringing them again, and keeping them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bezel_session_types::EntryId;

use crate::contents::look_within;
use crate::git::Reader;
use crate::plan::{Plan, plan};
use crate::record::{Conversation, Item, Phase, StagedRecord};
use crate::restore::{Left, Move, Progress, apply};
use crate::rewinder::{Failure, Rewinder};
use crate::tree::{Node, Tree, TreePath};

/// A file that was overwritten on request, and where its content is now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetAside {
    pub(crate) path: TreePath,
    pub(crate) copy: PathBuf,
}

impl Rewinder {
    /// What going back to before the oldest of `numbers` does: the plan, and the directory as it is.
    pub(crate) fn preview(
        &mut self,
        numbers: &[u64],
        force: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Plan, Failure> {
        self.end_turn()?;
        let current = self.recorder.take(stop)?;
        let original = match &self.staged {
            Some(staged) => Arc::new(self.before_staging(staged)?),
            None => current.tree,
        };
        Ok(self.plan(numbers, &original, force))
    }

    /// What undoing would give: everything before the first staging, and what was overwritten on request since.
    fn before_staging(&self, staged: &StagedRecord) -> Result<Tree, Failure> {
        let mut tree = self.store.load(&staged.original)?;
        for item in &staged.items {
            match &item.original {
                Some(node) => tree.insert(item.path.clone(), node.clone()),
                None => tree.remove(&item.path),
            };
        }
        Ok(tree)
    }

    fn plan(&self, numbers: &[u64], original: &Tree, force: bool) -> Plan {
        let turns = self.turns.iter();
        let turns = turns.filter(|turn| numbers.contains(&turn.number) && !turn.undone);
        let turns: Vec<_> = turns.collect();
        let mut plan = plan(&turns, original, force);
        // What git ignores now, and did not then, is in no snapshot and still there.
        let staged = self.staged.iter().flat_map(|staged| &staged.items);
        let staged: BTreeSet<&TreePath> = staged.map(|item| &item.path).collect();
        let hidden = plan.items.extract_if(.., |item| {
            item.original.is_none()
                && !staged.contains(&item.path)
                && self.stands(&item.path).is_some()
        });
        let ignored = "git ignores it now";
        let hidden = hidden.map(|item| (item.path, ignored.to_owned()));
        plan.left_alone.extend(hidden.collect::<Vec<_>>());
        // What was ignored then as well says why by itself.
        let made = turns.iter().flat_map(|turn| &turn.changes);
        let never_kept: BTreeSet<&TreePath> = made
            .filter(|made| made.after.as_ref().is_some_and(Node::is_passed_over))
            .map(|made| &made.path)
            .collect();
        for (path, reason) in &mut plan.left_alone {
            let is_hidden = !original.contains_key(path) && !staged.contains(path);
            if is_hidden && !never_kept.contains(path) && self.stands(path).is_some() {
                *reason = ignored.to_owned();
            }
        }
        plan
    }

    /// What stands at a path now, ignored or not.
    fn stands(&self, path: &TreePath) -> Option<Node> {
        look_within(&self.root, path)
    }

    /// Puts the files back to before the turns `numbers`. What was set aside for it.
    pub(crate) fn stage(
        &mut self,
        (message, text): (&EntryId, &str),
        numbers: &[u64],
        force: bool,
        conversation: Conversation,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<SetAside>, Failure> {
        self.end_turn()?;
        let current = self.recorder.take(stop)?;
        let (original, tree, earlier) = match &self.staged {
            Some(staged) => {
                let tree = Arc::new(self.before_staging(staged)?);
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
        let (mut kept, mut displaced) = (Vec::new(), Vec::new());
        for item in &earlier {
            let stands = current.tree.get(&item.path);
            let mut item = item.clone();
            if stands != item.restored.as_ref() {
                // Whoever edits what was put back keeps it, and can still have the original back.
                if let Some(reason) = self.holds_back(&item.path, stands, force) {
                    plan.items.retain(|planned| planned.path != item.path);
                    plan.left_alone.push((item.path.clone(), reason));
                    kept.push(item);
                    continue;
                }
                // Undoing brings the edit back; what it would have brought back without that is set aside.
                displaced.extend(item.original.clone().map(|node| (item.path.clone(), node)));
                let target = item.original;
                item.original = stands.cloned();
                moves.insert(item.path.clone(), go(&item.path, &current.tree, &target));
                match planned(&mut plan.items, &item.path) {
                    Some(planned) => planned.original = item.original,
                    None => kept.push(Item {
                        restored: target,
                        ..item
                    }),
                }
                continue;
            }
            moves.insert(
                item.path.clone(),
                go(&item.path, &current.tree, &item.original),
            );
            if planned(&mut plan.items, &item.path).is_none() {
                kept.push(Item {
                    restored: item.original.clone(),
                    ..item
                });
            }
        }
        let left_alone = &mut plan.left_alone;
        plan.items.retain_mut(|item| {
            let stands = current.tree.get(&item.path);
            let is_staged = moves.contains_key(&item.path);
            if !is_staged && stands != item.original.as_ref() {
                if !force || stands.is_some_and(|node| !node.is_kept()) {
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
        let set_aside = self.set_aside(&displaced)?;
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
            phase: Phase::Staging { moves },
        };
        self.records.save_staged(&staged)?;
        self.staged = Some(staged);
        self.finish_staged()?;
        Ok(set_aside)
    }

    /// Why an edit of what was put back is not overwritten.
    fn holds_back(&self, path: &TreePath, stands: Option<&Node>, force: bool) -> Option<String> {
        match stands {
            _ if !force => Some("it was edited since it was put back".to_owned()),
            Some(Node::Unkept { reason }) => {
                Some(format!("what stands there is not kept: {reason}"))
            }
            None if self.stands(path).is_some() => Some("git ignores it now".to_owned()),
            _ => None,
        }
    }

    /// Brings back what was there before the first staging. How many files, what was left alone, and what was
    /// set aside: with `force` what was edited since, and what could not be brought back because of that.
    pub(crate) fn clear(
        &mut self,
        force: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<(usize, Left, Vec<SetAside>), Failure> {
        let mut staged = self.staged.clone().ok_or(Failure::NothingStaged)?;
        let mut moves: Vec<Move> = staged
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
        let edited: BTreeSet<TreePath> = edited.map(|(step, _)| step.path.clone()).collect();
        let (mut left, mut set_aside) = (Left::new(), Vec::new());
        if !edited.is_empty() {
            if !force {
                return Err(Failure::Edited(edited.into_iter().collect()));
            }
            let current = self.recorder.take(stop)?;
            let (mut overwritten, mut unreached) = (Vec::new(), Vec::new());
            moves.retain_mut(|step| {
                if !edited.contains(&step.path) {
                    return true;
                }
                let stands = current.tree.get(&step.path);
                if let Some(reason) = self.holds_back(&step.path, stands, force) {
                    left.push((step.path.clone(), reason));
                    unreached.extend(step.to.clone().map(|node| (step.path.clone(), node)));
                    return false;
                }
                overwritten.extend(stands.cloned().map(|node| (step.path.clone(), node)));
                step.from = stands.cloned();
                true
            });
            overwritten.append(&mut unreached);
            set_aside = self.set_aside(&overwritten)?;
        }
        let moves: Vec<Move> = moves
            .into_iter()
            .filter(|step| step.from != step.to)
            .collect();
        let files = count(&staged.items);
        staged.phase = Phase::Clearing { moves };
        self.records.save_staged(&staged)?;
        self.staged = Some(staged);
        let (unwritten, unreached) = self.finish_staged()?;
        set_aside.extend(unreached);
        left.extend(unwritten);
        Ok((files, left, set_aside))
    }

    /// Copies files that nothing refers to any more to a place where a person finds them.
    fn set_aside(&self, files: &[(TreePath, Node)]) -> Result<Vec<SetAside>, Failure> {
        let files = files.iter().filter(|(_, node)| !node.is_directory());
        let files: Vec<_> = files.filter(|(_, node)| node.is_kept()).collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.records.set_aside();
        std::fs::create_dir_all(&all)?;
        let folder = tempfile::Builder::new()
            .prefix(&format!("{}-", crate::snapshot::now() / 1_000_000))
            .tempdir_in(&all)?
            .keep();
        let moves: Vec<Move> = files
            .into_iter()
            .map(|(path, node)| Move {
                path: path.clone(),
                from: None,
                to: Some(node.clone()),
            })
            .collect();
        let left = apply(&folder, &self.store, &moves, &Progress::default())?;
        if let Some((path, reason)) = left.first() {
            let text = format!("{path} cannot be kept in {}: {reason}", folder.display());
            return Err(io::Error::other(text).into());
        }
        let set_aside = moves.into_iter().map(|step| SetAside {
            copy: step.path.within(&folder),
            path: step.path,
        });
        Ok(set_aside.collect())
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
    pub(crate) fn finish_staged(&mut self) -> Result<(Left, Vec<SetAside>), Failure> {
        let Some(staged) = self.staged.clone() else {
            return Ok(Default::default());
        };
        match &staged.phase {
            Phase::Staged => Ok(Default::default()),
            Phase::Staging { moves } => {
                let left = apply(&self.root, &self.store, moves, &self.progress)?;
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
                Ok((left, Vec::new()))
            }
            Phase::Clearing { moves } => {
                let left = apply(&self.root, &self.store, moves, &self.progress)?;
                // What could not be brought back is not lost with what was staged.
                let is_left = |step: &&Move| left.iter().any(|(path, _)| *path == step.path);
                let unreached = moves.iter().filter(is_left);
                let unreached: Vec<_> = unreached
                    .filter_map(|step| Some((step.path.clone(), step.to.clone()?)))
                    .collect();
                let set_aside = self.set_aside(&unreached)?;
                self.records.remove_staged()?;
                self.staged = None;
                Ok((left, set_aside))
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
                Ok(Default::default())
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

/// The item of this path; items are in order of paths.
fn planned<'plan>(items: &'plan mut [Item], path: &TreePath) -> Option<&'plan mut Item> {
    let place = items
        .binary_search_by(|planned| planned.path.cmp(path))
        .ok()?;
    items.get_mut(place)
}
