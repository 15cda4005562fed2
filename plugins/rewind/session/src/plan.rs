//! What going back does to which file: decided from the turns alone, before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{By, Item, Turn};
use crate::restore::Left;
use crate::tree::{Node, Tree, TreePath};

/// What going back does.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    /// What is put back, in order of paths.
    pub(crate) items: Vec<Item>,
    /// What is not, and why.
    pub(crate) left_alone: Left,
    /// Turns whose changes are not known.
    pub(crate) gaps: Vec<String>,
}

/// What the agent made of one path in several turns.
#[derive(Debug, Clone, Copy)]
struct Span<'turns> {
    /// Before the first of them that changed it.
    first: Option<&'turns Node>,
    /// After the last.
    last: Option<&'turns Node>,
    /// Somebody else changed it in between, to something that going back would lose.
    edited: bool,
    by: By,
}

/// Adds `turns`, oldest first, up.
fn spans<'turns>(turns: &[&'turns Turn]) -> BTreeMap<&'turns TreePath, Span<'turns>> {
    let mut spans: BTreeMap<&TreePath, Span<'_>> = BTreeMap::new();
    for made in turns.iter().flat_map(|turn| &turn.changes) {
        let before = made.before.as_ref();
        let span = spans.entry(&made.path).or_insert(Span {
            first: before,
            last: before,
            edited: false,
            by: made.by,
        });
        span.edited |= before != span.last && before != span.first;
        span.last = made.after.as_ref();
        span.by = span.by.max(made.by);
    }
    spans
}

/// How many files differ through each of `turns` and those after it, in their order.
pub(crate) fn counts(turns: &[&Turn]) -> Vec<u32> {
    let mut counts = vec![0; turns.len()];
    let mut spans: BTreeMap<&TreePath, (Option<&Node>, Option<&Node>)> = BTreeMap::new();
    let mut count = 0u32;
    for (index, turn) in turns.iter().enumerate().rev() {
        for made in turn.changes.iter().rev() {
            let (first, last) = (made.before.as_ref(), made.after.as_ref());
            if [first, last].into_iter().flatten().any(Node::is_directory) {
                continue;
            }
            let span = spans.entry(&made.path).or_insert((last, last));
            count -= u32::from(span.0 != span.1);
            span.0 = first;
            count += u32::from(span.0 != span.1);
        }
        counts[index] = count;
    }
    counts
}

/// What takes `turns`, oldest first, back where the directory is as in `current`.
pub(crate) fn plan(turns: &[&Turn], current: &Tree, force: bool) -> Plan {
    let mut plan = Plan::default();
    for turn in turns {
        plan.gaps.extend(turn.problem.clone());
    }
    let spans = spans(turns);
    for (path, span) in &spans {
        let stands = current.get(*path);
        if stands == span.first {
            continue;
        }
        let mut leave = |reason: String| plan.left_alone.push(((*path).clone(), reason));
        match (stands, span.first) {
            (Some(Node::Unkept { reason }), _) | (_, Some(Node::Unkept { reason })) => {
                leave(reason.to_string());
                continue;
            }
            // A directory is there for what is in it; it goes only where all of that goes.
            (Some(Node::Directory { .. }), None) if holds_others(path, current, &spans, force) => {
                continue;
            }
            (Some(Node::Directory { .. }), Some(other))
                if !other.is_directory() && holds_others(path, current, &spans, force) =>
            {
                leave("it is a directory now, and holds files that stay".into());
                continue;
            }
            (Some(Node::Directory { .. }), Some(Node::Directory { .. })) => {}
            _ if stands != span.last && !force => {
                leave("it was edited after the agent's last change".into());
                continue;
            }
            _ if span.edited && !force => {
                leave("it was edited between two changes of the agent".into());
                continue;
            }
            _ => {}
        }
        plan.items.push(Item {
            path: (*path).clone(),
            original: stands.cloned(),
            restored: span.first.cloned(),
            by: Some(span.by),
        });
    }
    add_parents(&mut plan, current);
    plan
}

/// Whether `directory` holds something that no turn made.
fn holds_others(
    directory: &TreePath,
    current: &Tree,
    spans: &BTreeMap<&TreePath, Span<'_>>,
    force: bool,
) -> bool {
    let goes = |path: &TreePath| {
        let stands = current.get(path);
        let goes = |span: &Span<'_>| {
            span.first.is_none() && (force || stands == span.last && !span.edited)
        };
        spans.get(path).is_some_and(goes) && stands.is_some_and(Node::is_kept)
    };
    let below = current.range(directory.clone()..).skip(1);
    below
        .take_while(|(path, _)| path.as_bytes().starts_with(directory.as_bytes()))
        .filter(|(path, _)| path.is_below(directory))
        .any(|(path, _)| !goes(path))
}

/// What comes back needs its directories, and they go again with it.
fn add_parents(plan: &mut Plan, current: &Tree) {
    let present: BTreeMap<TreePath, Option<Node>> = plan
        .items
        .iter()
        .map(|item| (item.path.clone(), item.restored.clone()))
        .collect();
    let (mut missing, mut impossible) = (BTreeSet::new(), BTreeSet::new());
    for item in plan.items.iter().filter(|item| item.restored.is_some()) {
        let (mut parent, mut needed) = (item.path.parent(), Vec::new());
        while let Some(directory) = parent {
            let will_stand = match present.get(&directory) {
                Some(restored) => restored.as_ref(),
                None => current.get(&directory),
            };
            match will_stand {
                Some(Node::Directory { .. }) => {}
                None if current.get(&directory).is_none_or(Node::is_directory) => {
                    needed.push(directory.clone());
                }
                _ => {
                    impossible.insert(item.path.clone());
                    needed.clear();
                    break;
                }
            }
            parent = directory.parent();
        }
        missing.extend(needed);
    }
    plan.items.retain(|item| {
        // A directory that was to go stays when something comes back into it.
        !impossible.contains(&item.path) && !missing.contains(&item.path)
    });
    for path in impossible {
        let reason = "its directory was replaced by something else".into();
        plan.left_alone.push((path, reason));
    }
    for path in missing {
        if !current.contains_key(&path) {
            plan.items.push(Item {
                path,
                original: None,
                restored: Some(Node::Directory { mode: 0o755 }),
                by: None,
            });
        }
    }
    plan.items.sort_by(|one, other| one.path.cmp(&other.path));
}

#[cfg(test)]
mod tests {
    use bezel_session_types::EntryId;

    use super::*;
    use crate::record::Made;
    use crate::tree::BlobId;

    fn file(content: &str) -> Option<Node> {
        Some(Node::File {
            mode: 0o644,
            blob: BlobId::of(content.as_bytes()),
        })
    }

    fn directory() -> Option<Node> {
        Some(Node::Directory { mode: 0o755 })
    }

    fn turn(changes: &[(&str, Option<Node>, Option<Node>)]) -> Turn {
        let mut turn = Turn::new(1, EntryId::new("m"));
        turn.changes = changes
            .iter()
            .map(|(path, before, after)| Made {
                path: TreePath::new(*path),
                before: before.clone(),
                after: after.clone(),
                by: By::Name,
            })
            .collect();
        turn
    }

    fn tree(nodes: &[(&str, Option<Node>)]) -> Tree {
        let nodes = nodes.iter().cloned();
        nodes
            .filter_map(|(path, node)| Some((TreePath::new(path), node?)))
            .collect()
    }

    fn shown(plan: &Plan) -> Vec<String> {
        let items = plan.items.iter().map(|item| match &item.restored {
            None => format!("-{}", item.path),
            Some(node) if node.is_directory() => format!("+{}/", item.path),
            Some(_) => format!("+{}", item.path),
        });
        let left = plan
            .left_alone
            .iter()
            .map(|(path, reason)| format!("{path}: {reason}"));
        items.chain(left).collect()
    }

    #[test]
    fn a_file_goes_back_to_before_the_first_of_several_turns() {
        let (one, two) = (
            turn(&[("a", file("1"), file("2"))]),
            turn(&[("a", file("2"), file("3"))]),
        );
        let plan = plan(&[&one, &two], &tree(&[("a", file("3"))]), false);
        assert_eq!(plan.items[0].restored, file("1"));
        assert_eq!(counts(&[&one, &two]), [1, 1]);
    }

    #[test]
    fn what_a_later_turn_took_back_itself_is_not_counted_and_not_written() {
        let (one, two) = (
            turn(&[("a", file("1"), file("2"))]),
            turn(&[("a", file("2"), file("1"))]),
        );
        assert_eq!(counts(&[&one, &two]), [0, 1]);
        assert_eq!(
            plan(&[&one, &two], &tree(&[("a", file("1"))]), false),
            Plan::default()
        );
    }

    #[test]
    fn a_file_that_a_person_edited_since_is_left_alone_and_named_unless_forced() {
        let one = turn(&[("a", file("1"), file("2"))]);
        let edited = tree(&[("a", file("mine"))]);
        assert_eq!(
            shown(&plan(&[&one], &edited, false)),
            ["a: it was edited after the agent's last change"]
        );
        assert_eq!(shown(&plan(&[&one], &edited, true)), ["+a"]);
    }

    #[test]
    fn a_new_directory_stays_while_a_person_has_something_in_it() {
        let one = turn(&[("d", None, directory()), ("d/a", None, file("1"))]);
        let alone = tree(&[("d", directory()), ("d/a", file("1"))]);
        assert_eq!(shown(&plan(&[&one], &alone, false)), ["-d", "-d/a"]);
        let shared = tree(&[
            ("d", directory()),
            ("d/a", file("1")),
            ("d/mine", file("2")),
        ]);
        assert_eq!(shown(&plan(&[&one], &shared, false)), ["-d/a"]);
    }

    #[test]
    fn a_file_comes_back_with_the_directories_that_a_person_has_deleted_since() {
        let one = turn(&[("d/e/a", file("1"), None)]);
        assert_eq!(
            shown(&plan(&[&one], &Tree::new(), false)),
            ["+d/", "+d/e/", "+d/e/a"]
        );
        let replaced = tree(&[("d", file("x"))]);
        assert_eq!(
            shown(&plan(&[&one], &replaced, false)),
            ["d/e/a: its directory was replaced by something else"]
        );
    }
}
