//! Looking at a few paths that a call names, instead of everything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Recorder, SnapshotError, Writing};
use crate::contents::look_at;
use crate::scan::scan;
use crate::tree::{Node, Tree, TreePath, Unkept};

impl Recorder {
    /// What stands at `paths`, below them, and on the way to them, by the same rules as everywhere: what git
    /// ignores is not there. Contents that `wanted` asks for are in the store afterwards.
    pub(crate) fn look_named(
        &mut self,
        paths: &BTreeSet<TreePath>,
        wanted: impl Fn(&TreePath, &Node) -> bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Tree, SnapshotError> {
        match self.attempt_named(paths, &wanted, stop) {
            // Git was killed: once more.
            Err(SnapshotError::Git(error)) => {
                tracing::warn!(%error, "files are recorded a second time");
                self.attempt_named(paths, &wanted, stop)
            }
            looked => looked,
        }
    }

    fn attempt_named(
        &self,
        paths: &BTreeSet<TreePath>,
        wanted: &impl Fn(&TreePath, &Node) -> bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Tree, SnapshotError> {
        let (found, closed) = scan(&self.scope, Some(paths), stop)?;
        let mut writing = Writing::new(&self.store, self.most_bytes);
        let mut tree = Tree::new();
        for found in found {
            let known = self.known.get(&found.path);
            if let Some((stat, node)) = known
                && *stat == found.stat
                && !found.stat.is_racy(self.read_at)
            {
                tree.insert(found.path, node.clone());
                continue;
            }
            let looked = look_at(&found.path.within(&self.scope.root)).node(found.stat);
            let Some((_, mut node)) = looked else {
                continue;
            };
            let is_held = known.is_some_and(|(_, known)| is_same_content(known, &node));
            if !is_held && wanted(&found.path, &node) {
                let held = known.map(|(_, node)| node);
                match writing.look(&self.scope.root, &found, held)? {
                    Some((_, looked)) => node = looked,
                    None => continue,
                }
            }
            tree.insert(found.path, node);
        }
        for path in closed {
            let reason = Unkept::Unreadable;
            tree.insert(path, Node::Unkept { reason });
        }
        if writing.writer.is_some() {
            let files = tree.iter().filter(|(path, node)| wanted(path, node));
            let files = files.map(|(path, node)| (path.clone(), node.clone()));
            writing.commit(&files.collect(), None)?;
        }
        Ok(tree)
    }
}

fn is_same_content(one: &Node, other: &Node) -> bool {
    match (one, other) {
        (Node::File { blob: one, .. }, Node::File { blob: other, .. }) => one == other,
        _ => false,
    }
}
