//! A directory, its checkpoints, and a look at every byte of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bezel_session_types::{EntryId, InvocationId};
use tempfile::TempDir;

use crate::record::Conversation;
use crate::restore::Progress;
use crate::rewinder::{Rewinder, Setting};
use crate::turns::Touch;

/// What stands at a path: kind, permissions, content.
pub(super) type Whole = BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>;

/// Stands for the content of a file that is too large to be kept.
pub(super) const LARGE: &[u8] = b"(a large file)";

pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) setting: Setting,
    pub(super) rewinder: Rewinder,
    _folder: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut Setting)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("work");
        std::fs::create_dir(&root).unwrap();
        let mut setting = Setting {
            root: root.clone(),
            records: folder.path().join("session/output/rewind"),
            without: Vec::new(),
            born: 0,
            path: std::env::var_os("PATH"),
            most_entries: 100_000,
            most_bytes: 1 << 30,
        };
        change(&mut setting);
        Place {
            rewinder: Rewinder::open(&setting, Progress::default()).unwrap(),
            root,
            setting,
            _folder: folder,
        }
    }

    /// As after a crash: only what is on disk is left.
    pub(super) fn reopen(&mut self) {
        self.rewinder = Rewinder::open(&self.setting, Progress::default()).unwrap();
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.root.join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A turn of `message` in which a command of the agent does `work`.
    pub(super) fn turn(&mut self, message: &str, work: impl FnOnce(&Self)) {
        self.begin(message, "call", Touch::Anything);
        work(self);
        self.end("call");
        self.rewinder.end_turn().unwrap();
    }

    /// A call of the turn of `message` begins.
    pub(super) fn begin(&mut self, message: &str, call: &str, touch: Touch) {
        let (message, call) = (EntryId::new(message), InvocationId::new(call));
        let begun = self
            .rewinder
            .begin_call(&message, &call, &touch, &Arc::default());
        begun.unwrap();
    }

    /// A call has ended.
    pub(super) fn end(&mut self, call: &str) {
        let call = InvocationId::new(call);
        self.rewinder.end_call(&call, &Arc::default()).unwrap();
    }

    /// What a call that names these files may change.
    pub(super) fn named(&self, names: &[&str]) -> Touch {
        Touch::Paths(names.iter().map(|name| self.root.join(name)).collect())
    }

    /// The agent writes a file whose name it says before.
    pub(super) fn writes(&mut self, message: &str, name: &str, content: &str) {
        let touch = self.named(&[name]);
        self.begin(message, "write", touch);
        self.write(name, content);
        self.end("write");
    }

    /// Stages back to before the turn `number`; what was left alone.
    pub(super) fn stage(&mut self, number: u64, force: bool) -> Vec<String> {
        let last = self.rewinder.turns().last().map_or(0, |turn| turn.number);
        let numbers: Vec<u64> = (number..=last).collect();
        let message = EntryId::new("m");
        self.rewinder
            .stage(
                (&message, "text"),
                &numbers,
                force,
                Conversation::Stays,
                &Arc::default(),
            )
            .unwrap();
        let left = &self.rewinder.staged().unwrap().left_alone;
        left.iter()
            .map(|(path, reason)| format!("{path}: {reason}"))
            .collect()
    }

    pub(super) fn clear(&mut self, force: bool) -> Vec<String> {
        let (_, left, _) = self.rewinder.clear(force, &Arc::default()).unwrap();
        left.iter()
            .map(|(path, reason)| format!("{path}: {reason}"))
            .collect()
    }

    /// Every byte of the directory, `.git` included.
    pub(super) fn whole(&self) -> Whole {
        let mut whole = Whole::new();
        look(&self.root, &self.root, &mut whole);
        whole
    }

    pub(super) fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ]);
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn look(root: &Path, folder: &Path, whole: &mut Whole) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let name = path
            .strip_prefix(root)
            .unwrap()
            .as_os_str()
            .as_bytes()
            .to_vec();
        let mode = metadata.permissions().mode() & 0o7777;
        let found = if metadata.is_symlink() {
            (
                'l',
                0,
                std::fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
            )
        } else if metadata.is_dir() {
            look(root, &path, whole);
            ('d', mode, Vec::new())
        } else if metadata.is_file() && metadata.len() > 1024 * 1024 {
            ('f', mode, LARGE.to_vec())
        } else if metadata.is_file() {
            ('f', mode, std::fs::read(&path).unwrap())
        } else {
            ('s', mode, Vec::new())
        };
        whole.insert(name, found);
    }
}

/// What differs, readable.
#[track_caller]
pub(super) fn assert_same(one: &Whole, other: &Whole) {
    let names = one.keys().chain(other.keys());
    let differing: Vec<_> = names
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| {
            (
                OsStr::from_bytes(name).to_owned(),
                short(one.get(name)),
                short(other.get(name)),
            )
        })
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

fn short(found: Option<&(char, u32, Vec<u8>)>) -> Option<(char, String, String)> {
    found.map(|(kind, mode, content)| {
        let content = String::from_utf8_lossy(&content[..content.len().min(40)]).into_owned();
        (*kind, format!("{mode:o}"), content)
    })
}
