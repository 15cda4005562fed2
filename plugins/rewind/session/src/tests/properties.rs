//! Any tree, any edits: going back gives what was, and undoing gives every byte as it was.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::support::{LARGE, Place, Whole, assert_same};

/// Names that overlap, so that files become directories and the reverse; of all kinds of letters.
const NAMES: &[&[u8]] = &[
    b"a",
    b"b",
    b"d",
    b"d/a",
    b"d/e/b",
    b"d/e",
    b"\xc3\xbc.txt",
    b"bad\xff",
    b"new\nline",
    b"\"quoted\" \\",
    b" space ",
    b"ignored",
    b"ignored/x",
    b"sub/ignored",
    b"sub/x",
    b".hidden",
    b"-dash",
    b"link",
];

#[derive(Debug, Clone)]
enum Edit {
    Write(usize, Vec<u8>),
    Large(usize),
    Remove(usize),
    Chmod(usize, u32),
    Link(usize, usize),
    Directory(usize),
    Rename(usize, usize),
    Ignore(bool),
}

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    let name = || 0..NAMES.len();
    let content = prop_oneof![
        4 => "[a-c\r\n]{0,6}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    let mode = prop::sample::select(vec![0o644u32, 0o755, 0o600, 0o444, 0o777, 0o700, 0o555]);
    let edit = prop_oneof![
        6 => (name(), content).prop_map(|(name, content)| Edit::Write(name, content)),
        1 => name().prop_map(Edit::Large),
        3 => name().prop_map(Edit::Remove),
        2 => (name(), mode).prop_map(|(name, mode)| Edit::Chmod(name, mode)),
        2 => (name(), name()).prop_map(|(name, target)| Edit::Link(name, target)),
        2 => name().prop_map(Edit::Directory),
        3 => (name(), name()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => any::<bool>().prop_map(Edit::Ignore),
    ];
    prop::collection::vec(edit, 0..most)
}

fn path(root: &Path, name: usize) -> PathBuf {
    root.join(OsStr::from_bytes(NAMES[name]))
}

/// Does what can be done; the rest is as if it had not been asked for.
fn edit(root: &Path, edits: &[Edit]) {
    for edit in edits {
        let done = match edit {
            Edit::Write(name, content) => make_way(&path(root, *name))
                .and_then(|()| std::fs::write(path(root, *name), content)),
            Edit::Large(name) => {
                make_way(&path(root, *name)).and_then(|()| large(&path(root, *name)))
            }
            Edit::Remove(name) => remove(&path(root, *name)),
            Edit::Chmod(name, mode) => {
                let path = path(root, *name);
                match path.symlink_metadata() {
                    Ok(metadata) if !metadata.is_symlink() => {
                        std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode))
                    }
                    _ => Ok(()),
                }
            }
            Edit::Link(name, target) => {
                let path = path(root, *name);
                remove(&path)
                    .and_then(|()| make_way(&path))
                    .and_then(|()| symlink(OsStr::from_bytes(NAMES[*target]), path))
            }
            Edit::Directory(name) => std::fs::create_dir_all(path(root, *name)),
            Edit::Rename(from, to) => make_way(&path(root, *to))
                .and_then(|()| std::fs::rename(path(root, *from), path(root, *to))),
            Edit::Ignore(on) => {
                std::fs::write(root.join(".gitignore"), if *on { "ignored\n" } else { "" })
            }
        };
        drop(done);
    }
}

/// Its directories, and nothing else at its place.
fn make_way(path: &Path) -> std::io::Result<()> {
    for parent in path.parent().unwrap().ancestors() {
        if parent
            .symlink_metadata()
            .is_ok_and(|metadata| !metadata.is_dir())
        {
            std::fs::remove_file(parent)?;
        }
    }
    std::fs::create_dir_all(path.parent().unwrap())?;
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok(()),
        _ => remove(path),
    }
}

fn large(path: &Path) -> std::io::Result<()> {
    std::fs::File::create(path)?.set_len(10 * 1024 * 1024 + 1)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// What is covered: nothing ignored, nothing large.
fn covered(whole: &Whole) -> Whole {
    let mut whole = whole.clone();
    whole.retain(|name, (_, _, content)| {
        let ignored = name
            .split(|byte| *byte == b'/')
            .any(|part| part == b"ignored");
        !ignored && content != LARGE
    });
    whole
}

fn repository(place: &Place) {
    place.git(&["init", "-q"]);
    place.write("a", "committed");
    place.git(&["add", "-A"]);
    place.git(&["commit", "-qm", "first"]);
    place.write("a", "stashed");
    place.git(&["stash", "-q"]);
    place.write("a", "in the index");
    place.git(&["add", "-A"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn clearing_gives_every_byte_as_it_was(
        in_repository in any::<bool>(),
        first in edits(14),
        turns in prop::collection::vec((edits(8), edits(3)), 1..4),
        stages in prop::collection::vec((1u64..4, any::<bool>()), 1..4),
    ) {
        let mut place = Place::new();
        if in_repository {
            repository(&place);
        }
        edit(&place.root, &first);
        for (index, (agent, person)) in turns.iter().enumerate() {
            place.turn(&format!("m{index}"), |place| edit(&place.root, agent));
            edit(&place.root, person);
        }
        let end = place.whole();
        for (number, force) in stages {
            place.stage(number, force);
        }
        place.reopen();
        place.clear(false);
        assert_same(&place.whole(), &end);
    }

    #[test]
    fn staging_gives_what_was_before_the_turn(
        first in edits(14).prop_map(without_rules),
        turns in prop::collection::vec(edits(8).prop_map(without_rules), 1..4),
        number in 0usize..3,
    ) {
        let mut place = Place::new();
        place.write(".gitignore", "ignored\n");
        edit(&place.root, &first);
        let number = number.min(turns.len() - 1);
        let mut before = Whole::new();
        for (index, agent) in turns.iter().enumerate() {
            if index == number {
                before = place.whole();
            }
            place.turn(&format!("m{index}"), |place| edit(&place.root, agent));
        }
        let left = place.stage(number as u64 + 1, false);
        // A path whose content is not kept, or that holds ignored files, is in the way of others.
        let allowed = ["larger than", "are left alone",
            "files that stay", "by something else", "something else stands there"];
        for left in &left {
            prop_assert!(allowed.iter().any(|reason| left.contains(reason)), "{}", left);
        }
        if left.is_empty() {
            assert_same(&covered(&place.whole()), &covered(&before));
        }
    }
}

fn without_rules(mut edits: Vec<Edit>) -> Vec<Edit> {
    edits.retain(|edit| !matches!(edit, Edit::Ignore(_)));
    edits
}
