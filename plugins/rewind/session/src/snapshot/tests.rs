//! Looking instead of walking: what it finds, and when it must not.

use std::ffi::OsStr;

use tempfile::TempDir;

use super::*;
use crate::tree::BlobId;

/// What somebody does in the directory.
type Change = fn(&Path);

struct Place {
    folder: TempDir,
    root: PathBuf,
    recorder: Recorder,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&root).unwrap();
        let path = std::env::var_os("PATH");
        let store = folder.path().join("objects.git");
        let store = ObjectStore::open(&store, path.as_deref()).unwrap();
        let scope = Scope {
            root: root.clone(),
            without: Vec::new(),
            most_entries: 1_000,
        };
        let memory = folder.path().join("known.json");
        Place {
            recorder: Recorder::new(scope, 1 << 20, store, memory),
            folder,
            root,
        }
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn paths(&mut self) -> Vec<String> {
        let taken = self.recorder.take(&Arc::default()).unwrap();
        taken.tree.keys().map(ToString::to_string).collect()
    }

    /// As if all that was there had been looked at long after it last changed.
    fn settle(&mut self) {
        self.recorder.take(&Arc::default()).unwrap();
        self.recorder.read_at += 3 * crate::scan::RACY;
        let probe = self.folder.path().join("probe");
        let tick = |probe: &Path| {
            std::fs::write(probe, "").unwrap();
            Stat::of(&probe.metadata().unwrap()).changed
        };
        let before = tick(&probe);
        // What comes now has another time than what was.
        while tick(&probe) == before {}
    }

    /// Whether the next look takes the paths for the same without walking.
    fn looks(&mut self) -> bool {
        self.recorder.look_again(&Arc::default()).unwrap().is_some()
    }

    /// The files of the tree that a walk from nothing finds.
    fn walked(&self) -> Tree {
        let path = std::env::var_os("PATH");
        let store = self.folder.path().join("other.git");
        let store = ObjectStore::open(&store, path.as_deref()).unwrap();
        let memory = self.folder.path().join("nothing.json");
        let mut other = Recorder::new(self.recorder.scope.clone(), 1 << 20, store, memory);
        Arc::unwrap_or_clone(other.take(&Arc::default()).unwrap().tree)
    }
}

#[test]
fn what_changes_within_one_tick_of_the_clock_and_keeps_its_size_is_noticed() {
    let mut place = Place::new();
    for round in 0..20 {
        let content = format!("{round:03}");
        place.write("a", &content);
        let taken = place.recorder.take(&Arc::default()).unwrap();
        let Some(Node::File { blob, .. }) = taken.tree.get(&TreePath::new("a")) else {
            panic!("{taken:?}");
        };
        assert_eq!(*blob, BlobId::of(content.as_bytes()));
    }
}

#[test]
fn an_edit_in_place_is_found_without_a_walk_and_recorded() {
    let mut place = Place::new();
    place.write("d/a", "1");
    place.write("d/b", "1");
    place.settle();
    assert!(place.looks(), "nothing changed");
    place.settle();
    place.write("d/a", "2");
    let before = place.recorder.last.clone().unwrap();
    let after = place.recorder.look_again(&Arc::default()).unwrap().unwrap();
    assert_ne!(before.commit, after.commit);
    assert_eq!(*after.tree, place.walked());
    let loaded = place.recorder.store.load(&after.commit).unwrap();
    assert_eq!(loaded, *after.tree);
}

#[test]
fn whatever_may_bring_or_hide_a_path_makes_the_next_look_walk() {
    let changes: [(&str, Change); 9] = [
        ("a file comes", |root| {
            std::fs::write(root.join("d/new"), "").unwrap()
        }),
        ("a file goes", |root| {
            std::fs::remove_file(root.join("d/a")).unwrap()
        }),
        ("a file at the top comes", |root| {
            std::fs::write(root.join("top"), "").unwrap()
        }),
        ("a file is replaced", |root| {
            std::fs::write(root.join("d/.new"), "1").unwrap();
            std::fs::rename(root.join("d/.new"), root.join("d/a")).unwrap();
        }),
        ("rules change in place", |root| {
            std::fs::write(root.join(".gitignore"), "a\n").unwrap()
        }),
        ("rules that are ignored change", |root| {
            std::fs::write(root.join("hidden/.gitignore"), ".gitignore\na\n").unwrap();
        }),
        ("rules behind a link change", |root| {
            std::fs::write(root.parent().unwrap().join("rules"), "a\n").unwrap();
        }),
        ("rules of the repository change", |root| {
            std::fs::write(root.join(".git/info/exclude"), "a\n").unwrap();
        }),
        ("rules above come", |root| {
            std::fs::write(root.parent().unwrap().join(".gitignore"), "a\n").unwrap();
        }),
    ];
    for (what, change) in changes {
        let mut place = Place::new();
        let info = place.root.join(".git/info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("exclude"), "x\n").unwrap();
        place.write(".gitignore", "x\n");
        place.write("d/a", "1");
        place.write("hidden/.gitignore", ".gitignore\n");
        place.write("hidden/a", "1");
        place.write("linked/a", "1");
        std::fs::write(place.root.parent().unwrap().join("rules"), "x\n").unwrap();
        let link = place.root.join("linked/.gitignore");
        std::os::unix::fs::symlink("../../rules", link).unwrap();
        // The repository ends what is above: without one it holds too.
        if what == "rules above come" {
            std::fs::remove_dir_all(place.root.join(".git")).unwrap();
        }
        place.settle();
        let before = place.paths();
        place.settle();
        change(&place.root);
        assert!(!place.looks(), "{what}");
        let expected: Vec<String> = place.walked().keys().map(ToString::to_string).collect();
        assert_eq!(place.paths(), expected, "{what}");
        let is_replaced = what == "a file is replaced";
        assert_eq!(expected == before, is_replaced, "{what}: {before:?}");
    }
}

#[test]
fn commits_in_the_persons_repository_cost_no_walk() {
    let mut place = Place::new();
    place.write("a", "1");
    let git = |root: &Path, arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        command.env("GIT_CONFIG_GLOBAL", OsStr::new("/dev/null"));
        command.args(arguments).current_dir(root);
        assert!(command.output().unwrap().status.success());
    };
    git(&place.root, &["init", "-q"]);
    git(&place.root, &["add", "."]);
    place.settle();
    git(&place.root, &["commit", "-q", "-m", "one"]);
    assert!(place.looks());
}
