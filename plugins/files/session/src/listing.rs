//! All files and directories below one directory, packed tightly.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ignore::{DirEntry, WalkBuilder, WalkState};

/// Entries kept; of a larger tree, whichever are found first.
pub(crate) const MOST_ENTRIES: usize = 200_000;
/// Threads of a walk. They live only while it runs.
const MOST_THREADS: usize = 4;

/// Paths relative to the directory, sorted, with `/` between their parts. A directory ends in `/` here.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    text: String,
    /// Where each path ends in `text`.
    ends: Vec<u32>,
}

/// One entry of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a str,
    pub(crate) is_dir: bool,
}

impl Listing {
    /// Walks `directory`. What ignore files exclude and `.git` are left out, other hidden files are not. `stop`
    /// ends the walk early, with what was found until then.
    pub(crate) fn read(directory: &Path, most: usize, stop: &AtomicBool) -> io::Result<Self> {
        std::fs::read_dir(directory)?;
        let found: Mutex<Vec<String>> = Mutex::default();
        let threads =
            std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
        let walk = WalkBuilder::new(directory)
            .hidden(false)
            .require_git(false)
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
            .threads(threads)
            .build_parallel();
        walk.run(|| {
            Box::new(|entry| {
                if stop.load(Ordering::Relaxed) {
                    return WalkState::Quit;
                }
                let Some(path) = entry.ok().and_then(|entry| relative(&entry, directory)) else {
                    return WalkState::Continue;
                };
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                if found.len() >= most {
                    return WalkState::Quit;
                }
                found.push(path);
                WalkState::Continue
            })
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable();
        Ok(Self::pack(&found))
    }

    fn pack(paths: &[String]) -> Self {
        let mut listing = Listing::default();
        listing
            .text
            .reserve_exact(paths.iter().map(String::len).sum());
        listing.ends.reserve_exact(paths.len());
        for path in paths {
            let end = listing.text.len() + path.len();
            // Beyond 4 GiB of names there is nothing to complete any more.
            let Ok(end) = u32::try_from(end) else { break };
            listing.text.push_str(path);
            listing.ends.push(end);
        }
        listing
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The entry at `index`, which is below [`Self::len`].
    pub(crate) fn entry(&self, index: usize) -> Entry<'_> {
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        let path = &self.text[start..self.ends[index] as usize];
        match path.strip_suffix('/') {
            Some(path) => Entry { path, is_dir: true },
            None => Entry {
                path,
                is_dir: false,
            },
        }
    }
}

/// The path below `directory`; `None` for the directory itself and for names that are no UTF-8, which nobody could type.
fn relative(entry: &DirEntry, directory: &Path) -> Option<String> {
    let path = entry.path().strip_prefix(directory).ok()?.to_str()?;
    let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
    (!path.is_empty()).then(|| {
        if is_dir {
            format!("{path}/")
        } else {
            path.to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("temporary directory");
        for name in [
            "src/lib.rs",
            "src/deep/mod.rs",
            ".env",
            ".git/config",
            "target/out",
            "README.md",
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
            std::fs::write(path, "").expect("file");
        }
        std::fs::write(directory.path().join(".gitignore"), "/target\n").expect("file");
        directory
    }

    #[test]
    fn a_listing_has_files_and_directories_without_what_is_ignored() {
        let directory = tree();
        let listing = Listing::read(directory.path(), MOST_ENTRIES, &AtomicBool::new(false))
            .expect("a listing");
        let entries: Vec<(&str, bool)> = (0..listing.len())
            .map(|index| listing.entry(index))
            .map(|entry| (entry.path, entry.is_dir))
            .collect();
        assert_eq!(
            entries,
            [
                (".env", false),
                (".gitignore", false),
                ("README.md", false),
                ("src", true),
                ("src/deep", true),
                ("src/deep/mod.rs", false),
                ("src/lib.rs", false),
            ]
        );
    }

    #[test]
    fn a_listing_is_bounded_and_can_be_stopped() {
        let directory = tree();
        let three = Listing::read(directory.path(), 3, &AtomicBool::new(false)).expect("a listing");
        assert_eq!(three.len(), 3);
        let none = Listing::read(directory.path(), MOST_ENTRIES, &AtomicBool::new(true))
            .expect("a listing");
        assert_eq!(none.len(), 0);
        let missing = Listing::read(
            &directory.path().join("missing"),
            3,
            &AtomicBool::new(false),
        );
        assert_eq!(
            missing.expect_err("it is missing").kind(),
            io::ErrorKind::NotFound
        );
    }
}
