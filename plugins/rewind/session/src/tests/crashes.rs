//! Crashes at every step: what is on disk then is what the next process finds.

use std::sync::Arc;

use bezel_session_types::EntryId;

use super::support::{Place, assert_same};
use crate::record::{By, Conversation, Phase, Records};
use crate::restore::{Progress, apply};
use crate::rewinder::Failure;
use crate::turns::Touch;

#[test]
fn a_turn_that_a_crash_cut_short_is_taken_up_from_its_checkpoint() {
    let mut place = Place::new();
    place.write("a", "0");
    place.begin("m1", "call", Touch::Anything);
    place.write("a", "1");
    place.reopen();
    assert!(place.rewinder.has_begun(&EntryId::new("m1")));
    place.rewinder.end_turn().unwrap();
    place.stage(1, false);
    let staged = place.rewinder.staged().unwrap();
    assert_eq!(staged.items[0].by, Some(By::Crash), "it is said");
    assert_eq!(place.read("a"), Some("0".into()));
    place.reopen();
    place.clear(false);
    assert_eq!(place.read("a"), Some("1".into()));
}

/// The steps of a staging or a clearing, written down and then cut off after each number of moves.
#[test]
fn staging_and_clearing_are_finished_wherever_a_crash_cut_them() {
    for clearing in [false, true] {
        for done in 0.. {
            let mut place = Place::new();
            place.write("kept", "0");
            place.write("d/gone", "0");
            place.write("turned", "0");
            let before = place.whole();
            place.turn("m1", |place| {
                place.write("kept", "1");
                std::fs::remove_dir_all(place.root.join("d")).unwrap();
                std::fs::remove_file(place.root.join("turned")).unwrap();
                place.write("turned/inside", "1");
                place.write("new/a", "1");
            });
            let after = place.whole();
            place.stage(1, false);
            if clearing {
                place.clear(false);
            }
            // Back to the moment at which it was only written down.
            let records = Records::new(place.setting.records.clone());
            let (all, expected) = rewritten(&mut place, &records, clearing);
            let expected = if expected { &before } else { &after };
            if done > all.len() {
                break;
            }
            let store = crate::git::ObjectStore::open(
                &records.store(),
                std::env::var_os("PATH").as_deref(),
            );
            apply(
                &place.root,
                &store.unwrap(),
                &all[..done],
                &Progress::default(),
            )
            .unwrap();
            place.reopen();
            assert_same(&place.whole(), expected);
        }
    }
}

/// Puts the files and the record to where the staging or the clearing has only been written down. Its moves,
/// and whether they lead to the files before the turn.
fn rewritten(
    place: &mut Place,
    records: &Records,
    clearing: bool,
) -> (Vec<crate::restore::Move>, bool) {
    if clearing {
        place.stage(1, false);
    }
    let mut staged = place.rewinder.staged().unwrap().clone();
    let step = |item: &crate::record::Item| {
        let (from, to) = match clearing {
            true => (item.restored.clone(), item.original.clone()),
            false => (item.original.clone(), item.restored.clone()),
        };
        crate::restore::Move {
            path: item.path.clone(),
            from,
            to,
        }
    };
    let moves: Vec<_> = staged.items.iter().map(step).collect();
    if !clearing {
        place.clear(false);
    }
    staged.phase = match clearing {
        true => Phase::Clearing {
            moves: moves.clone(),
        },
        false => Phase::Staging {
            moves: moves.clone(),
        },
    };
    records.save_staged(&staged).unwrap();
    (moves, !clearing)
}

#[test]
fn a_file_that_was_edited_while_everything_was_down_is_not_overwritten() {
    let mut place = Place::new();
    place.write("a", "0");
    place.write("b", "0");
    place.turn("m1", |place| {
        place.write("a", "1");
        place.write("b", "1");
    });
    place.stage(1, false);
    let records = Records::new(place.setting.records.clone());
    let (_, _) = rewritten(&mut place, &records, false);
    place.write("a", "mine");
    place.reopen();
    assert_eq!(
        (place.read("a"), place.read("b")),
        (Some("mine".into()), Some("0".into()))
    );
    let refused = place.rewinder.clear(false, &Arc::default());
    assert!(matches!(refused, Err(Failure::Edited(_))));
    place.clear(true);
    assert_eq!(
        (place.read("a"), place.read("b")),
        (Some("1".into()), Some("1".into()))
    );
}

#[test]
fn a_keeping_that_was_cut_off_is_finished() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    place.stage(1, false);
    let mut staged = place.rewinder.staged().unwrap().clone();
    staged.phase = Phase::Committing;
    Records::new(place.setting.records.clone())
        .save_staged(&staged)
        .unwrap();
    place.reopen();
    assert!(place.rewinder.staged().is_none());
    assert!(place.rewinder.turns()[0].undone);
    assert_eq!(place.read("a"), Some("0".into()));
}

#[test]
fn what_a_killed_git_left_is_swept_and_in_nobodys_way() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    let store = place.setting.records.join("objects.git");
    std::fs::write(store.join("objects/pack/tmp_pack_x"), "half").unwrap();
    std::fs::write(store.join("refs/bezel/x.lock"), "").unwrap();
    place.reopen();
    assert!(!store.join("objects/pack/tmp_pack_x").exists());
    place.turn("m2", |place| place.write("a", "2"));
    place.stage(2, false);
    assert_eq!(place.read("a"), Some("1".into()));
}

/// `git` that is killed while it writes: the checkpoint is taken again from nothing.
#[test]
fn a_git_that_is_killed_while_it_writes_costs_a_second_attempt() {
    let tools = tempfile::tempdir().unwrap();
    let marker = tools.path().join("killed");
    let real = crate::git::find_git(std::env::var_os("PATH").as_deref()).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *fast-import*) if [ ! -e {0} ]; then : > {0}; kill -9 $$; fi;; esac\nexec {1} \"$@\"\n",
        marker.display(),
        real.display()
    );
    let git = tools.path().join("git");
    std::fs::write(&git, script).unwrap();
    std::fs::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut place = Place::with(|setting| setting.path = Some(tools.path().into()));
    for index in 0..200 {
        place.write(&format!("d{index}/file"), vec![b'a'; 4000]);
    }
    place.turn("m1", |place| place.write("d1/file", "1"));
    assert!(marker.exists());
    place.stage(1, false);
    assert_eq!(place.read("d1/file"), Some("a".repeat(4000)));
}

#[test]
fn a_store_that_was_damaged_is_told_and_the_files_stay() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    std::fs::remove_dir_all(place.setting.records.join("objects.git/objects")).unwrap();
    std::fs::create_dir_all(place.setting.records.join("objects.git/objects/pack")).unwrap();
    let end = place.whole();
    let message = EntryId::new("m1");
    let refused = place.rewinder.stage(
        (&message, ""),
        &[1],
        false,
        Conversation::Stays,
        &Arc::default(),
    );
    assert!(
        refused.unwrap_err().to_string().contains("has lost"),
        "it is told"
    );
    assert_same(&place.whole(), &end);
}
