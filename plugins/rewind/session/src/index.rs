//! What the last walk found, so that the next look need not walk.
//!
//! Names come and go only with a change of the directory that they are in, and what is ignored follows from
//! names and from a few files of rules. Where none of these has changed since the walk, the same paths are
//! there, and one look at each tells whether what stands there has changed. Anything else, or any doubt, is a
//! reason to walk again. As for files, what changed less than [`RACY`](crate::scan::RACY) before the last look is in doubt: the
//! clock of a file system may not tell two changes apart.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::gitignore::gitconfig_excludes_path;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, statat};

use crate::scan::{Found, Kind, Scope, Stat, threads};

/// Paths that one thread looks at before another is worth it.
const SHARE: usize = 1_000;

/// What the last walk found, and what made it find just that.
#[derive(Debug)]
pub(crate) struct Index {
    /// In order of paths.
    entries: Vec<Found>,
    root: Stat,
    /// Files of ignore rules that are read, and ones above the directory that would be.
    rules: Vec<(PathBuf, Option<Stat>)>,
    /// Where rules from above the directory are.
    above: Vec<PathBuf>,
}

/// What a look found.
pub(crate) enum Look {
    /// The same paths. These, by number, are to be looked at more closely, and stand there so.
    Same(Vec<(usize, Stat)>),
    /// There may be others.
    Walk,
    /// It was told to stop.
    Stopped,
}

impl Index {
    /// Remembers a walk that began with `root` as the state of the directory itself.
    pub(crate) fn new(scope: &Scope, root: Stat, entries: Vec<Found>) -> Self {
        let above = rules_above(&scope.root);
        let mut paths = above.clone();
        let directories = entries.iter().filter(|found| found.kind == Kind::Directory);
        let directories = directories.map(|found| found.path.within(&scope.root));
        for directory in std::iter::once(scope.root.clone()).chain(directories) {
            let rules = directory.join(".gitignore");
            // One that is a link may lead to nothing now and to something later.
            paths.extend(rules.symlink_metadata().is_ok().then_some(rules));
            paths.extend(repository_rules(&directory));
        }
        let rules = paths.into_iter().map(|path| {
            let stat = followed(&path);
            (path, stat)
        });
        Index {
            rules: rules.collect(),
            entries,
            root,
            above,
        }
    }

    /// The entry of this number.
    pub(crate) fn entry(&self, number: usize) -> &Found {
        &self.entries[number]
    }

    /// Remembers how this entry stands now.
    pub(crate) fn note(&mut self, number: usize, stat: Stat) {
        self.entries[number].stat = stat;
    }

    /// Looks at every path. `seen_at` is when the last look or walk began; an entry that is not `held` is
    /// always looked at more closely.
    pub(crate) fn look(
        &self,
        scope: &Scope,
        seen_at: i64,
        held: impl Fn(&Found) -> bool + Sync,
        stop: &Arc<AtomicBool>,
    ) -> Look {
        let is_safe = |now: Option<Stat>, then: Option<Stat>| {
            now == then && !now.is_some_and(|stat| stat.is_racy(seen_at))
        };
        let root = scope.root.symlink_metadata();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (Ok(root), Ok(directory)) = (root, open(&scope.root, flags, Mode::empty())) else {
            return Look::Walk;
        };
        if !is_safe(Some(Stat::of(&root)), Some(self.root))
            || rules_above(&scope.root) != self.above
            || !self
                .rules
                .iter()
                .all(|(path, then)| is_safe(followed(path), *then))
        {
            return Look::Walk;
        }
        let share = self.entries.len().div_ceil(threads()).max(SHARE);
        let shares = self.entries.chunks(share).enumerate();
        let looked: Vec<Look> = std::thread::scope(|scope| {
            let (directory, held) = (&directory, &held);
            let mut others = Vec::new();
            let mut own = None;
            for (number, entries) in shares {
                let work = move || look_at(directory, entries, number * share, seen_at, held, stop);
                match number {
                    0 => own = Some(work),
                    _ => others.push(scope.spawn(work)),
                }
            }
            let own = own.map(|work| work());
            let others = others
                .into_iter()
                .map(|other| other.join().unwrap_or(Look::Walk));
            own.into_iter().chain(others).collect()
        });
        let mut all = Vec::new();
        for look in looked {
            match look {
                Look::Same(differing) => all.extend(differing),
                other => return other,
            }
        }
        Look::Same(all)
    }
}

fn look_at(
    directory: &OwnedFd,
    entries: &[Found],
    first: usize,
    seen_at: i64,
    held: &(impl Fn(&Found) -> bool + Sync),
    stop: &AtomicBool,
) -> Look {
    let mut differing = Vec::new();
    for (number, found) in entries.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Look::Stopped;
        }
        let path = found.path.as_path();
        let Ok(stat) = statat(directory.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW) else {
            return Look::Walk;
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Special,
        };
        let now = Stat::from(&stat);
        let is_safe = now == found.stat && !now.is_racy(seen_at);
        match kind {
            _ if kind != found.kind => return Look::Walk,
            Kind::Directory if !is_safe => return Look::Walk,
            Kind::Directory => {}
            _ if is_safe && held(found) => {}
            _ => differing.push((first + number, now)),
        }
    }
    Look::Same(differing)
}

/// What stands at the end of a path, links followed.
fn followed(path: &Path) -> Option<Stat> {
    path.metadata().ok().map(|metadata| Stat::of(&metadata))
}

/// Where rules for a directory are that lie above it, or hold for everything that the person does.
fn rules_above(root: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = gitconfig_excludes_path().into_iter().collect();
    for above in root.ancestors().skip(1) {
        paths.push(above.join(".gitignore"));
        paths.extend(repository_rules(above));
    }
    paths
}

/// Where the repository in this directory, if one is there, has rules of its own: also of a further work tree,
/// whose `.git` is a file that names another place.
fn repository_rules(directory: &Path) -> Vec<PathBuf> {
    let git = directory.join(".git");
    let Ok(metadata) = git.metadata() else {
        return Vec::new();
    };
    if metadata.is_dir() {
        return vec![git.join("info/exclude")];
    }
    let mut paths = vec![git.clone()];
    let named = std::fs::read_to_string(&git).ok();
    let named = named
        .as_deref()
        .and_then(|text| text.strip_prefix("gitdir: "));
    if let Some(named) = named {
        let place = directory.join(named.trim_end());
        let common = place.join("commondir");
        let shared = std::fs::read(&common).ok().map(|text| {
            let text = text.trim_ascii_end();
            place.join(std::ffi::OsStr::from_bytes(text))
        });
        paths.push(common);
        paths.push(shared.unwrap_or(place).join("info/exclude"));
    }
    paths
}
