//! Staging, clearing and keeping, one behaviour at a time.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use bezel_session_types::{EntryId, InvocationId};

use super::support::{Place, assert_same};
use crate::rewinder::Failure;
use crate::turns::Touch;

fn chmod(path: impl AsRef<std::path::Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn opencode_20_stage_restores_what_the_turn_changed_and_clear_brings_it_back_byte_for_byte() {
    let mut place = Place::new();
    place.write("changed", "before");
    place.write("deleted", "still there");
    place.write("private/key", "secret");
    chmod(place.root.join("private/key"), 0o600);
    chmod(place.root.join("private"), 0o700);
    std::fs::create_dir(place.root.join("empty")).unwrap();
    symlink("changed", place.root.join("link")).unwrap();
    let before = place.whole();
    place.turn("m1", |place| {
        place.write("changed", "after");
        place.write("new/deep/file", "new");
        std::fs::remove_file(place.root.join("deleted")).unwrap();
        std::fs::remove_dir_all(place.root.join("private")).unwrap();
        std::fs::remove_dir(place.root.join("empty")).unwrap();
        std::fs::remove_file(place.root.join("link")).unwrap();
        symlink("elsewhere", place.root.join("link")).unwrap();
    });
    let after = place.whole();
    assert!(place.stage(1, false).is_empty());
    assert_same(&place.whole(), &before);
    assert!(place.clear(false).is_empty());
    assert_same(&place.whole(), &after);
    assert!(place.rewinder.staged().is_none());
}

#[test]
fn staging_again_keeps_the_first_original() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    place.turn("m2", |place| {
        place.write("a", "2");
        place.write("b", "2");
    });
    let end = place.whole();
    place.stage(1, false);
    assert_eq!((place.read("a"), place.read("b")), (Some("0".into()), None));
    place.stage(2, false);
    assert_eq!((place.read("a"), place.read("b")), (Some("1".into()), None));
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("0".into()));
    place.clear(false);
    assert_same(&place.whole(), &end);
}

#[test]
fn what_a_person_edited_between_the_turns_and_since_is_never_written() {
    let mut place = Place::new();
    place.write("agent", "0");
    place.write("mine", "0");
    place.write("both", "0");
    place.turn("m1", |place| {
        place.write("agent", "1");
        place.write("both", "1");
    });
    place.write("mine", "my work");
    place.write("mine too", "my work");
    place.turn("m2", |place| place.write("agent", "2"));
    place.write("both", "my correction");
    let left = place.stage(1, false);
    assert_eq!(left, ["both: it was edited after the agent's last change"]);
    assert_eq!(place.read("agent"), Some("0".into()));
    assert_eq!(place.read("mine"), Some("my work".into()));
    assert_eq!(place.read("mine too"), Some("my work".into()));
    assert_eq!(place.read("both"), Some("my correction".into()));
    place.clear(false);
    assert!(place.stage(1, true).is_empty());
    assert_eq!(place.read("both"), Some("0".into()));
    place.clear(false);
    assert_eq!(place.read("both"), Some("my correction".into()));
}

#[test]
fn an_edit_of_a_staged_file_is_not_undone_unless_forced() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    place.stage(1, false);
    place.write("a", "mine");
    let refused = place.rewinder.clear(false, &Arc::default()).unwrap_err();
    assert!(matches!(refused, Failure::Edited(paths) if paths[0].to_string() == "a"));
    assert_eq!(place.read("a"), Some("mine".into()));
    place.clear(true);
    assert_eq!(place.read("a"), Some("1".into()));
}

#[test]
fn what_is_kept_cannot_be_undone_and_does_not_count_any_more() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    place.stage(1, false);
    place.rewinder.commit().unwrap();
    assert_eq!(place.read("a"), Some("0".into()));
    let refused = place.rewinder.clear(false, &Arc::default()).unwrap_err();
    assert!(matches!(refused, Failure::NothingStaged));
    place.turn("m2", |place| place.write("a", "2"));
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("0".into()));
}

#[test]
fn an_agent_that_goes_on_keeps_what_is_staged() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    place.stage(1, false);
    place.turn("m2", |place| place.write("b", "2"));
    assert!(place.rewinder.staged().is_none());
    assert_eq!(place.read("a"), Some("0".into()));
}

#[test]
fn ignored_files_git_itself_and_large_files_are_left_alone() {
    let mut place = Place::new();
    place.git(&["init", "-q"]);
    place.write(".gitignore", "target/\n*.secret\n");
    place.write(".git/info/exclude", "mine\n");
    place.write("target/out", "0");
    place.write("mine", "0");
    place.write("sub/.git/HEAD", "a nested repository");
    place.write("sub/file", "0");
    let large = vec![7u8; 10 * 1024 * 1024 + 1];
    place.write("large", &large);
    place.turn("m1", |place| {
        place.write("target/out", "1");
        place.write("mine", "1");
        place.write("key.secret", "1");
        place.write("sub/.git/HEAD", "moved");
        place.write("sub/file", "1");
        place.write(".git/description", "1");
        place.write("grown", &large);
        std::fs::remove_file(place.root.join("large")).unwrap();
    });
    let left = place.stage(1, false);
    assert_eq!(
        left,
        [
            "grown: it is larger than 10 MiB",
            "large: it is larger than 10 MiB"
        ]
    );
    assert_eq!(place.read("sub/file"), Some("0".into()));
    for untouched in ["target/out", "mine", "key.secret", ".git/description"] {
        assert_eq!(place.read(untouched), Some("1".into()), "{untouched}");
    }
    assert_eq!(place.read("sub/.git/HEAD"), Some("moved".into()));
    assert!(place.root.join("grown").exists());
}

#[test]
fn a_file_that_comes_to_light_when_a_rule_goes_is_not_the_turns_and_stays() {
    let mut place = Place::new();
    place.write(".gitignore", ".env\n");
    place.write(".env", "precious");
    place.turn("m1", |place| {
        place.write(".gitignore", "");
        place.write("new", "1");
    });
    place.stage(1, false);
    assert_eq!(place.read(".env"), Some("precious".into()));
    assert_eq!(place.read(".gitignore"), Some(".env\n".into()));
    assert_eq!(place.read("new"), None);
}

#[test]
fn a_file_that_a_new_rule_hides_is_left_alone_by_stage_and_clear() {
    let mut place = Place::new();
    place.write("notes", "0");
    place.turn("m1", |place| {
        place.write("notes", "1");
        place.write(".gitignore", "notes\n");
    });
    let end = place.whole();
    assert_eq!(place.stage(1, false), ["notes: git ignores it now"]);
    assert_eq!(place.read("notes"), Some("1".into()));
    place.clear(false);
    assert_same(&place.whole(), &end);
}

#[test]
fn nothing_is_written_through_a_link_that_took_a_directorys_place() {
    let mut place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    place.write("d/a", "0");
    place.turn("m1", |place| place.write("d/a", "1"));
    std::fs::write(outside.path().join("a"), "1").unwrap();
    std::fs::remove_dir_all(place.root.join("d")).unwrap();
    symlink(outside.path(), place.root.join("d")).unwrap();
    assert_eq!(
        place.stage(1, true),
        ["d/a: its directory was replaced by something else"]
    );
    assert_eq!(
        std::fs::read_to_string(outside.path().join("a")).unwrap(),
        "1"
    );
}

#[test]
fn attributes_and_filters_of_the_repository_change_no_byte() {
    let mut place = Place::new();
    place.git(&["init", "-q"]);
    place.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    place.git(&["config", "core.autocrlf", "true"]);
    place.write(
        ".gitattributes",
        "* text=auto eol=crlf filter=upper ident\n",
    );
    place.write("a", "one\r\ntwo\n$Id$\n");
    place.turn("m1", |place| place.write("a", "other"));
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("one\r\ntwo\n$Id$\n".into()));
}

#[test]
fn the_persons_index_stash_references_and_hooks_stay_as_they_are() {
    let mut place = Place::new();
    place.git(&["init", "-q"]);
    place.write("tracked", "0");
    place.git(&["add", "."]);
    place.git(&["commit", "-qm", "first"]);
    place.write("tracked", "stashed");
    place.git(&["stash", "-q"]);
    place.write("tracked", "staged");
    place.git(&["add", "."]);
    place.write("tracked", "dirty");
    place.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch ran\n");
    chmod(place.root.join(".git/hooks/post-checkout"), 0o755);
    let of_git = |place: &Place| {
        let mut whole = place.whole();
        whole.retain(|name, _| name.starts_with(b".git/"));
        whole
    };
    let before = of_git(&place);
    place.turn("m1", |place| place.write("tracked", "agent"));
    place.stage(1, false);
    assert_eq!(place.read("tracked"), Some("dirty".into()));
    place.clear(false);
    place.stage(1, false);
    place.rewinder.commit().unwrap();
    assert_same(&of_git(&place), &before);
}

#[test]
fn what_cannot_be_kept_is_named() {
    let mut place = Place::new();
    let fifo = place.root.join("pipe");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    place.turn("m1", |_| {});
    let unkept = place.rewinder.unkept();
    assert_eq!(unkept[0].0.to_string(), "pipe");
    assert_eq!(unkept[0].1, "it is neither file, link nor directory");
}

#[test]
fn a_checkpoint_of_too_much_is_refused_and_named_at_its_turn() {
    let mut place = Place::with(|setting| setting.most_entries = 2);
    for name in ["a", "b", "c"] {
        place.write(name, "");
    }
    let refused = refused_call(&mut place);
    assert!(refused.is_lasting(), "{refused}");
    assert!(
        place.rewinder.turns()[0]
            .problem
            .as_deref()
            .unwrap()
            .contains("more than 2 files")
    );
    let mut place = Place::with(|setting| setting.most_bytes = 10);
    place.write("a", "longer than ten");
    assert!(refused_call(&mut place).is_lasting());
}

fn refused_call(place: &mut Place) -> Failure {
    let (message, call) = (EntryId::new("m1"), InvocationId::new("call"));
    let begun = place
        .rewinder
        .begin_call(&message, &call, &Touch::Anything, &Arc::default());
    begun.unwrap_err()
}

#[test]
fn the_sessions_own_folder_inside_the_directory_is_not_recorded() {
    let mut place = Place::with(|setting| {
        let own = setting.root.join(".local/session");
        setting.records = own.join("output/rewind");
        setting.without = vec![own];
    });
    place.write(".local/session/database", "0");
    place.turn("m1", |place| place.write(".local/session/database", "1"));
    assert!(place.rewinder.turns()[0].changes.is_empty());
}

#[test]
fn an_unchanged_directory_is_recorded_without_git() {
    let mut place = Place::new();
    place.write("a", "0");
    let commits = |place: &Place| {
        let references = place.setting.records.join("objects.git/refs/bezel");
        std::fs::read_dir(references).unwrap().count()
    };
    place.turn("m1", |_| {});
    let first = commits(&place);
    place.turn("m2", |_| {});
    assert_eq!((first, commits(&place)), (1, 1));
}

#[test]
fn without_git_it_says_so() {
    let place = Place::new();
    let mut setting = place.setting.clone();
    setting.path = Some("/nowhere".into());
    let refused = crate::rewinder::Rewinder::open(&setting, Default::default()).unwrap_err();
    assert!(
        refused.to_string().contains("no `git` on the PATH"),
        "{refused}"
    );
}
