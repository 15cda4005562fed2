//! Where a session works, and where a path really leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path before it counts as a loop, as the kernel has it.
const MOST_LINKS: usize = 40;

/// The places that judging knows.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The session's directory as it was given, absolute.
    pub(crate) directory: PathBuf,
    /// The same with every link followed.
    pub(crate) real: PathBuf,
    /// The root of the repository that it lies in, or itself: what approvals are kept for. Links followed.
    pub(crate) project: PathBuf,
    /// The person's home, for `~`.
    pub(crate) home: Option<PathBuf>,
    /// Other directories that may be read: the session's own saved output. Links followed.
    pub(crate) readable: Vec<PathBuf>,
}

/// A path, as it was named and as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Absolute, without `.` and `..`, links as they are.
    pub(crate) given: PathBuf,
    /// With every link followed as far as the path exists; where a link dangles, what it points to.
    pub(crate) real: PathBuf,
}

impl Place {
    /// The places of a session that works in `directory`.
    pub(crate) fn new(directory: &Path, home: Option<PathBuf>, readable: &[PathBuf]) -> Self {
        let real = follow(directory);
        let mut above = real.ancestors();
        let root = above.find(|ancestor| ancestor.join(".git").exists());
        Place {
            directory: directory.to_owned(),
            project: root.unwrap_or(&real).to_owned(),
            real,
            home,
            readable: readable.iter().map(|path| follow(path)).collect(),
        }
    }

    /// What a path means from `from`, an absolute directory.
    pub(crate) fn resolve(&self, path: &Path, from: &Path) -> Resolved {
        let whole = from.join(path);
        Resolved {
            given: tidy(&whole),
            real: follow(&whole),
        }
    }

    /// Whether it lies in the session's directory, links followed.
    pub(crate) fn is_inside(&self, path: &Resolved) -> bool {
        path.real.starts_with(&self.real)
    }

    /// A path for people: relative to the session's directory where it is inside.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside = path
            .strip_prefix(&self.directory)
            .or_else(|_| path.strip_prefix(&self.real));
        match inside {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }
}

/// Without `.` and `..`, by the text alone.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                tidied.pop();
            }
            Component::CurDir => {}
            other => tidied.push(other),
        }
    }
    tidied
}

/// Follows links component by component, as the kernel does. What does not exist is taken as it is named; a
/// loop ends where it was noticed.
pub(crate) fn follow(path: &Path) -> PathBuf {
    let mut links = 0;
    let mut left: VecDeque<OsString> = names(path).collect();
    let mut real = PathBuf::from("/");
    while let Some(name) = left.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        if links == MOST_LINKS {
            continue;
        }
        if let Ok(target) = std::fs::read_link(&real) {
            links += 1;
            real.pop();
            if target.is_absolute() {
                real = PathBuf::from("/");
            }
            for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                left.push_front(name);
            }
        }
    }
    real
}

fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, Place, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let (project, outside) = (real.join("project"), real.join("outside"));
        std::fs::create_dir_all(project.join("src")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let place = Place::new(&project, None, &[]);
        (root, place, outside)
    }

    #[test]
    fn a_link_leads_where_it_leads_also_for_what_does_not_exist_yet() {
        let (_root, place, outside) = place();
        let project = place.directory.clone();
        symlink(&outside, project.join("out")).unwrap();
        symlink("../../outside", project.join("src/relative")).unwrap();
        symlink(outside.join("missing/file"), project.join("dangling")).unwrap();
        symlink("src", project.join("in")).unwrap();
        let real = |path: &str| place.resolve(Path::new(path), &project);
        for escaping in [
            "out/new/deep.txt",
            "src/relative/x",
            "dangling",
            "src/../out/x",
            "out/../x",
            "../outside/x",
            "in/../../x",
        ] {
            let resolved = real(escaping);
            assert!(!place.is_inside(&resolved), "{escaping}: {resolved:?}");
        }
        for within in [
            "new/deep.txt",
            "in/main.rs",
            "src/../x",
            "./a/../b",
            "in/../x",
        ] {
            let resolved = real(within);
            assert!(place.is_inside(&resolved), "{within}: {resolved:?}");
        }
        assert_eq!(real("in/main.rs").real, project.join("src/main.rs"));
        assert_eq!(real("in/main.rs").given, project.join("in/main.rs"));
    }

    #[test]
    fn a_loop_of_links_ends() {
        let (_root, place, _) = place();
        symlink("b", place.directory.join("a")).unwrap();
        symlink("a", place.directory.join("b")).unwrap();
        let resolved = place.resolve(Path::new("a/x"), &place.directory);
        assert!(place.is_inside(&resolved), "{resolved:?}");
    }

    #[test]
    fn a_directory_that_is_reached_by_a_link_is_inside_itself() {
        let (root, place, _) = place();
        let alias = root.path().join("alias");
        symlink(&place.directory, &alias).unwrap();
        let aliased = Place::new(&alias, None, &[]);
        let resolved = aliased.resolve(Path::new("src/x"), &alias);
        assert!(aliased.is_inside(&resolved));
        assert_eq!(aliased.shown(&resolved.real), "src/x");
        assert_eq!(aliased.shown(&resolved.given), "src/x");
    }
}
