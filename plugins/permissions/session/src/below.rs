//! What lies below a directory that somebody reads as a whole.

use ignore::WalkBuilder;

use crate::place::{Resolved, follow};
use crate::shell::Depth;

/// Entries looked at.
const MOST_ENTRIES: usize = 200_000;
/// Files that are named one by one.
const MOST_PATHS: usize = 50;

/// What counts of what lies below a directory.
#[derive(Default)]
pub(crate) struct Below {
    pub(crate) paths: Vec<Resolved>,
    /// Whether all of it was looked through.
    pub(crate) all: bool,
}

/// Looks through what lies below a directory, as far as that is read, git's own store apart. Nothing where just names
/// are.
pub(crate) fn below(root: &Resolved, depth: Depth, counts: impl Fn(&Resolved) -> bool) -> Below {
    match depth {
        Depth::Names => Below {
            all: true,
            ..Below::default()
        },
        Depth::Visible => {
            let mut walk = WalkBuilder::new(&root.real);
            walk.add_custom_ignore_filename(".rgignore");
            unignored(root, &mut walk, counts)
        }
        Depth::Added => {
            let mut walk = WalkBuilder::new(&root.real);
            walk.hidden(false).ignore(false).require_git(false);
            unignored(root, &mut walk, counts)
        }
        Depth::Whole => whole(root, false, counts),
        Depth::Followed => whole(root, true, counts),
    }
}

/// What files of rules do not leave out, in the reading of those who search by these rules.
fn unignored(root: &Resolved, walk: &mut WalkBuilder, counts: impl Fn(&Resolved) -> bool) -> Below {
    let mut found = Below {
        all: true,
        ..Below::default()
    };
    walk.filter_entry(|entry| entry.file_name() != ".git");
    for (entries, entry) in walk.build().flatten().enumerate() {
        if entries == MOST_ENTRIES || found.paths.len() == MOST_PATHS {
            found.all = false;
            break;
        }
        let Ok(inside) = entry.path().strip_prefix(&root.real) else {
            continue;
        };
        let path = Resolved {
            given: root.given.join(inside),
            real: entry.path().to_owned(),
        };
        let is_directory = entry.file_type().is_none_or(|kind| kind.is_dir());
        if !is_directory && counts(&path) {
            found.paths.push(path);
        }
    }
    found
}

fn whole(root: &Resolved, links: bool, counts: impl Fn(&Resolved) -> bool) -> Below {
    let mut found = Below {
        all: true,
        ..Below::default()
    };
    let mut directories = vec![(root.given.clone(), root.real.clone())];
    let mut entries = 0;
    while let Some((given, real)) = directories.pop() {
        let Ok(listing) = std::fs::read_dir(&real) else {
            continue;
        };
        for entry in listing.filter_map(Result::ok) {
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            entries += 1;
            if entries > MOST_ENTRIES || found.paths.len() == MOST_PATHS {
                found.all = false;
                return found;
            }
            let mut path = Resolved {
                given: given.join(&name),
                real: real.join(&name),
            };
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
                directories.push((path.given, path.real));
                continue;
            }
            if links && kind.is_ok_and(|kind| kind.is_symlink()) {
                path.real = follow(&path.real);
                // What lies behind it is not looked through.
                found.all &= !path.real.is_dir();
            }
            if counts(&path) {
                found.paths.push(path);
            }
        }
    }
    found
}
