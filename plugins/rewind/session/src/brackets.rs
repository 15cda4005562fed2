//! Whose work a change is.
//!
//! Every call that may change files is a bracket. What changes inside of one, on paths that its call may
//! change, is the agent's; what changes between brackets is somebody else's and is never written. A call that
//! names its files claims these, any other claims everything. Brackets overlap: what changes while several are
//! open belongs to all of them together, so two commands at once share what they change, and a path is looked
//! at again whenever a call that claims it ends.

use std::collections::{BTreeMap, BTreeSet};

use bezel_session_types::InvocationId;

use crate::record::{Bracket, By, Claim, Made};
use crate::snapshot::Snapshot;
use crate::tree::{Change, Node, Tree, TreePath, changes};

/// What a call may change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reach {
    Anything,
    /// Below the directory; in order.
    Paths(BTreeSet<TreePath>),
}

/// The calls that may be changing files now, and what stood there before that.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    calls: BTreeMap<InvocationId, Reach>,
    /// Everything, while a call may change anything.
    all: Option<Snapshot>,
    /// What is known better than from `all`, or the claimed paths where there is no `all`.
    some: BTreeMap<TreePath, Option<Node>>,
}

impl Brackets {
    pub(crate) fn is_open(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether everything is looked at when this ends.
    pub(crate) fn has_all(&self) -> bool {
        self.all.is_some()
    }

    pub(crate) fn reach(&self, call: &InvocationId) -> Option<&Reach> {
        self.calls.get(call)
    }

    /// Since when everything is claimed, nanoseconds since 1970.
    pub(crate) fn all_since(&self) -> Option<i64> {
        self.all.as_ref().map(|all| all.taken_at)
    }

    /// A call begins that may change anything. `now` is everything, where nothing else claims that yet. Gives
    /// what calls that named their files have changed until now.
    pub(crate) fn begin_all(&mut self, call: &InvocationId, now: Option<Snapshot>) -> Vec<Made> {
        self.calls.insert(call.clone(), Reach::Anything);
        let Some(now) = now else { return Vec::new() };
        let claims = self.calls.values().filter_map(Reach::paths);
        let claims: BTreeSet<TreePath> = claims.flatten().cloned().collect();
        let (before, after) = (self.known(&claims), covered(&now.tree, &claims));
        self.some.clear();
        self.all = Some(now);
        made(changes(&before, &after), By::Name, &claims)
    }

    /// A call begins that may change `paths`. `now` is what stands there, where nothing claims everything.
    pub(crate) fn begin_some(
        &mut self,
        call: &InvocationId,
        paths: BTreeSet<TreePath>,
        now: Option<&Tree>,
    ) {
        if let Some(now) = now {
            for path in paths.iter().chain(now.keys()) {
                // Another call claims it since earlier.
                let known = self.some.entry(path.clone());
                known.or_insert_with(|| now.get(path).cloned());
            }
        }
        self.calls.insert(call.clone(), Reach::Paths(paths));
    }

    /// A call has ended that might change anything, with everything as in `now`. Gives the changes since the
    /// last look.
    pub(crate) fn end_all(&mut self, call: &InvocationId, now: Snapshot) -> Vec<Made> {
        self.calls.remove(call);
        let Some(all) = self.all.take() else {
            return Vec::new();
        };
        let known = std::mem::take(&mut self.some);
        let mut found: BTreeMap<TreePath, Change> = changes(&all.tree, &now.tree)
            .into_iter()
            .map(|change| (change.path.clone(), change))
            .collect();
        for (path, before) in known {
            let after = now.tree.get(&path).cloned();
            match before == after {
                true => found.remove(&path),
                false => {
                    let change = Change {
                        path: path.clone(),
                        before,
                        after,
                    };
                    found.insert(path, change)
                }
            };
        }
        self.all = Some(now);
        self.narrow();
        made(found.into_values(), By::Command, &BTreeSet::new())
    }

    /// A call has ended that named `paths`, where now stands what `now` says. Gives what changed there.
    pub(crate) fn end_some(&mut self, call: &InvocationId, now: &Tree) -> Vec<Made> {
        let Some(Reach::Paths(paths)) = self.calls.remove(call) else {
            return Vec::new();
        };
        let before = self.known(&paths);
        let found = changes(&before, now);
        for change in &found {
            self.some.insert(change.path.clone(), change.after.clone());
        }
        self.forget();
        made(found, By::Name, &paths)
    }

    /// A call that was to run and never did.
    pub(crate) fn withdraw(&mut self, call: &InvocationId) {
        self.calls.remove(call);
        self.narrow();
        self.forget();
    }

    /// Where nothing claims everything any more, only what is claimed by name is still known.
    fn narrow(&mut self) {
        if self.all.is_none() || self.calls.values().any(|reach| *reach == Reach::Anything) {
            return;
        }
        let mut some = BTreeMap::new();
        for paths in self.calls.values().filter_map(Reach::paths) {
            for path in paths {
                some.entry(path.clone()).or_insert(None);
            }
            let known = self.known(paths).into_iter();
            some.extend(known.map(|(path, node)| (path, Some(node))));
        }
        (self.all, self.some) = (None, some);
    }

    /// Forgets what nobody claims any more.
    fn forget(&mut self) {
        if self.all.is_none() {
            let claims: Vec<_> = self.calls.values().filter_map(Reach::paths).collect();
            let is_claimed = |path: &TreePath| claims.iter().any(|paths| is_covered(path, paths));
            self.some.retain(|path, _| is_claimed(path));
        }
    }

    /// What stood at `paths`, below them and on the way to them, at the last look.
    fn known(&self, paths: &BTreeSet<TreePath>) -> Tree {
        let all = self.all.as_ref();
        let mut known = all.map_or_else(Tree::new, |all| covered(&all.tree, paths));
        for (path, node) in self.some.iter().filter(|(path, _)| is_covered(path, paths)) {
            match node {
                Some(node) => known.insert(path.clone(), node.clone()),
                None => known.remove(path),
            };
        }
        known
    }

    /// As it is written down.
    pub(crate) fn written(&self) -> Vec<Bracket> {
        let claim = |reach: &Reach| match reach {
            Reach::Anything => self.all.as_ref().map(|all| Claim::Anything {
                before: all.commit.clone(),
            }),
            Reach::Paths(paths) => Some(Claim::Paths {
                paths: paths.clone(),
                before: self.known(paths).into_iter().collect(),
            }),
        };
        let written = self.calls.iter().filter_map(|(call, reach)| {
            let call = call.clone();
            claim(reach).map(|claim| Bracket { call, claim })
        });
        written.collect()
    }
}

impl Reach {
    pub(crate) fn paths(&self) -> Option<&BTreeSet<TreePath>> {
        match self {
            Reach::Anything => None,
            Reach::Paths(paths) => Some(paths),
        }
    }
}

/// Changes as what calls made. On the way to `named` only what came or went is theirs.
pub(crate) fn made(
    changes: impl IntoIterator<Item = Change>,
    by: By,
    named: &BTreeSet<TreePath>,
) -> Vec<Made> {
    let is_own = |change: &Change| {
        change.before.is_none() || change.after.is_none() || !is_on_the_way(&change.path, named)
    };
    let changes = changes.into_iter().filter(is_own);
    let made = changes.map(|change| Made {
        path: change.path,
        before: change.before,
        after: change.after,
        by,
    });
    made.collect()
}

/// What stands at `paths`, below them, and on the way to them.
fn covered(tree: &Tree, paths: &BTreeSet<TreePath>) -> Tree {
    let mut found = Tree::new();
    for path in paths {
        let mut above = Some(path.clone());
        while let Some(place) = above {
            if let Some(node) = tree.get(&place) {
                found.insert(place.clone(), node.clone());
            }
            above = place.parent();
        }
        let mut first = path.as_bytes().to_vec();
        first.push(b'/');
        let below = tree.range(TreePath::new(first)..);
        let below = below.take_while(|(place, _)| place.is_below(path));
        found.extend(below.map(|(place, node)| (place.clone(), node.clone())));
    }
    found
}

fn is_covered(path: &TreePath, paths: &BTreeSet<TreePath>) -> bool {
    let mut above = Some(path.clone());
    while let Some(place) = above {
        if paths.contains(&place) {
            return true;
        }
        above = place.parent();
    }
    is_on_the_way(path, paths)
}

fn is_on_the_way(path: &TreePath, paths: &BTreeSet<TreePath>) -> bool {
    paths.iter().any(|named| named.is_below(path))
}
