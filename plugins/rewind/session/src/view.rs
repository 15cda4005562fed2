//! Checkpoints as the contract shows them.

use std::collections::BTreeSet;
use std::time::Duration;

use bezel_rewind_contract::{
    ChangeKind, FileChange, LeftAlone, Origin, Point, Preview, Reach, Staged,
};
use similar::{Algorithm, ChangeTag, TextDiff};

use crate::git::Reader;
use crate::history::Said;
use crate::plan::{Plan, counts};
use crate::record::{By, Conversation, Item, Turn};
use crate::restore::Left;
use crate::rewinder::{Failure, Rewinder};
use crate::staging::{SetAside, count};
use crate::tree::{Node, TreePath};

/// Bytes of a file whose difference is shown.
const LONGEST_TEXT: usize = 256 * 1024;
/// Bytes of all differences together.
const MOST_PATCHES: usize = 512 * 1024;
/// Time for one difference; what is not refined by then is shown coarse.
const PATIENCE: Duration = Duration::from_millis(200);
/// Files that are named with their differences, and in the state.
const MOST_SHOWN: usize = 1_000;
const MOST_IN_STATE: usize = 100;
/// What is named of what is left alone.
pub(crate) const MOST_NAMED: usize = 20;

/// Why nothing is known of what came before a session was made of another one.
pub(crate) const TAKEN_OVER: &str =
    "it was taken over from another session, whose checkpoints it has not";

/// The messages with what their turns did, oldest first. What was said before `born` was taken over, in
/// milliseconds since 1970.
pub(crate) fn points(said: &[Said], turns: &[Turn], born: i64) -> Vec<Point> {
    // A turn belongs to its message; those of other branches to none.
    let own = |said: &Said| {
        turns
            .iter()
            .filter(|turn| turn.message == said.id)
            .collect::<Vec<_>>()
    };
    let on_path: Vec<&Turn> = said
        .iter()
        .flat_map(own)
        .filter(|turn| !turn.undone)
        .collect();
    let since = counts(&on_path);
    let since_message = |message: usize| {
        let later = said[message..]
            .iter()
            .flat_map(own)
            .find(|turn| !turn.undone);
        let place =
            later.and_then(|turn| on_path.iter().position(|other| other.number == turn.number));
        place.map_or(0, |place| since[place])
    };
    let point = |(index, said): (usize, &Said)| {
        let own = own(said);
        let made = own.iter().flat_map(|turn| &turn.changes);
        let files = made.filter(|made| {
            let nodes = [&made.before, &made.after];
            !nodes.into_iter().flatten().any(Node::is_directory)
        });
        let files: BTreeSet<&TreePath> = files.map(|made| &made.path).collect();
        Point {
            message: said.id.clone(),
            text: said.text.clone(),
            at: said.at,
            files: number(files.len()),
            files_since: since_message(index),
            problem: match own.is_empty() && said.at < born {
                true => Some(TAKEN_OVER.to_owned()),
                false => own.iter().find_map(|turn| turn.problem.clone()),
            },
        }
    };
    said.iter().enumerate().map(point).collect()
}

pub(crate) fn preview(rewinder: &Rewinder, plan: &Plan) -> Result<Preview, Failure> {
    Ok(Preview {
        total: number(count(&plan.items)),
        files: files(rewinder, &plan.items, true)?,
        left_alone: left_alone(&plan.left_alone),
        gaps: plan.gaps.clone(),
    })
}

/// What is staged, with or without differences.
pub(crate) fn staged(rewinder: &Rewinder, patches: bool) -> Result<Option<Staged>, Failure> {
    let Some(staged) = rewinder.staged() else {
        return Ok(None);
    };
    Ok(Some(Staged {
        message: staged.message.clone(),
        text: staged.text.clone(),
        said: String::new(),
        reach: match staged.conversation {
            Conversation::Stays => Reach::Files,
            Conversation::Wanted { .. } | Conversation::Departs { .. } => {
                Reach::FilesAndConversation
            }
        },
        total: number(count(&staged.items)),
        files: files(rewinder, &staged.items, patches)?,
        left_alone: left_alone(&staged.left_alone),
        set_aside: Vec::new(),
        gaps: staged.gaps.clone(),
    }))
}

pub(crate) fn left_alone(left: &Left) -> Vec<LeftAlone> {
    let named = left.iter().map(|(path, reason)| LeftAlone {
        path: path.to_string(),
        reason: reason.clone(),
    });
    named.collect()
}

pub(crate) fn set_aside(files: Vec<SetAside>) -> Vec<bezel_rewind_contract::SetAside> {
    let shown = files
        .into_iter()
        .map(|file| bezel_rewind_contract::SetAside {
            path: file.path.to_string(),
            copy: file.copy.to_string_lossy().into_owned(),
        });
    shown.collect()
}

fn origin(item: &Item) -> Origin {
    match item.by {
        None | Some(By::Name) => Origin::Named,
        Some(By::Command) => Origin::Command,
        Some(By::Crash) => Origin::Crash,
    }
}

/// Items as changes of files; directories come and go with what is in them and are not named.
fn files(rewinder: &Rewinder, items: &[Item], patches: bool) -> Result<Vec<FileChange>, Failure> {
    let items: Vec<&Item> = items.iter().filter(|item| item.is_file()).collect();
    let most = if patches { MOST_SHOWN } else { MOST_IN_STATE };
    let items = &items[..items.len().min(most)];
    if !patches {
        let plain = |item: &&Item| FileChange {
            path: item.path.to_string(),
            kind: kind(item),
            origin: origin(item),
            added: 0,
            removed: 0,
            patch: String::new(),
        };
        return Ok(items.iter().map(plain).collect());
    }
    let (mut left, mut reader) = (MOST_PATCHES, rewinder.reader()?);
    let mut changes = Vec::new();
    for item in items {
        let old = content(&mut reader, item.original.as_ref())?;
        let new = content(&mut reader, item.restored.as_ref())?;
        let (patch, added, removed) = difference(&item.path, &old, &new);
        let fits = patch.len() <= left;
        left = left.saturating_sub(patch.len());
        changes.push(FileChange {
            path: item.path.to_string(),
            kind: kind(item),
            origin: origin(item),
            added,
            removed,
            patch: if fits { patch } else { String::new() },
        });
    }
    Ok(changes)
}

fn content(reader: &mut Reader, node: Option<&Node>) -> Result<Vec<u8>, Failure> {
    match node {
        Some(Node::File { blob, .. }) => Ok(reader.blob(blob)?),
        Some(Node::Link { target }) => Ok(target.as_bytes().to_vec()),
        _ => Ok(Vec::new()),
    }
}

fn kind(item: &Item) -> ChangeKind {
    match (&item.original, &item.restored) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Removed,
        (Some(Node::File { blob: one, .. }), Some(Node::File { blob: other, .. })) => {
            if one == other {
                ChangeKind::Mode
            } else {
                ChangeKind::Changed
            }
        }
        (Some(Node::Link { .. }), Some(Node::Link { .. })) => ChangeKind::Changed,
        _ => ChangeKind::Replaced,
    }
}

/// A unified difference of two texts and its lines; nothing where one is no text or is too long.
fn difference(path: &TreePath, old: &[u8], new: &[u8]) -> (String, u32, u32) {
    let text = |bytes: &[u8]| {
        let short = bytes.len() <= LONGEST_TEXT && !bytes.contains(&0);
        short
            .then(|| String::from_utf8(bytes.to_vec()).ok())
            .flatten()
    };
    let (Some(old), Some(new)) = (text(old), text(new)) else {
        return (String::new(), 0, 0);
    };
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(PATIENCE)
        .diff_lines(&old, &new);
    let lines = |tag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    let (added, removed) = (lines(ChangeTag::Insert), lines(ChangeTag::Delete));
    let name = path.to_string();
    let patch = diff
        .unified_diff()
        .context_radius(3)
        .header(&name, &name)
        .to_string();
    (patch, number(added), number(removed))
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use bezel_session_types::EntryId;

    use super::*;

    #[test]
    fn what_was_said_before_the_session_was_made_is_said_to_be_unknown() {
        let said = |id: &str, at| Said {
            id: EntryId::new(id),
            text: id.into(),
            at,
        };
        let points = points(&[said("copied", 9), said("own", 10)], &[], 10);
        let problems: Vec<_> = points.into_iter().map(|point| point.problem).collect();
        assert_eq!(problems, [Some(TAKEN_OVER.to_owned()), None]);
    }
}
