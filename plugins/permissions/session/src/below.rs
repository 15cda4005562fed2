//! What lies below a directory that somebody reads as a whole.

use crate::place::Resolved;

/// What counts of what lies below a directory.
pub(crate) struct Below {
    pub(crate) paths: Vec<Resolved>,
    /// Whether all of it was looked through.
    pub(crate) all: bool,
}

/// Looks through what lies below a directory, links not followed; git's own store apart.
pub(crate) fn below(root: &Resolved, hidden: bool, counts: impl Fn(&Resolved) -> bool) -> Below {
    /// Entries looked at.
    const MOST_ENTRIES: usize = 200_000;
    /// Files that are named one by one.
    const MOST_PATHS: usize = 50;
    let mut found = Below {
        paths: Vec::new(),
        all: true,
    };
    let mut directories = vec![(root.given.clone(), root.real.clone())];
    let mut entries = 0;
    while let Some((given, real)) = directories.pop() {
        let Ok(listing) = std::fs::read_dir(&real) else {
            continue;
        };
        for entry in listing.filter_map(Result::ok) {
            let name = entry.file_name();
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            if name == ".git" || (is_hidden && !hidden) {
                continue;
            }
            entries += 1;
            if entries > MOST_ENTRIES || found.paths.len() == MOST_PATHS {
                found.all = false;
                return found;
            }
            let path = Resolved {
                given: given.join(&name),
                real: real.join(&name),
            };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push((path.given, path.real));
            } else if counts(&path) {
                found.paths.push(path);
            }
        }
    }
    found
}
