//! Whose work a change is: what a person does during a turn stays, whatever the agent does around it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::sync::Arc;

use bezel_session_types::{EntryId, InvocationId};
use proptest::prelude::*;

use super::support::{Place, assert_same};
use crate::record::{By, Conversation};
use crate::turns::Touch;

#[test]
fn what_a_person_does_between_two_calls_of_a_turn_is_never_written() {
    let mut place = Place::new();
    place.write("a", "0");
    place.write("mine", "0");
    place.writes("m1", "a", "1");
    place.write("mine", "my work");
    place.write("important", "my work");
    place.begin("m1", "command", Touch::Anything);
    place.write("c", "1");
    place.end("command");
    place.write("tail", "my work");
    place.rewinder.end_turn().unwrap();
    assert!(place.stage(1, false).is_empty());
    assert_eq!((place.read("a"), place.read("c")), (Some("0".into()), None));
    for mine in ["mine", "important", "tail"] {
        assert_eq!(place.read(mine), Some("my work".into()), "{mine}");
    }
    let by = |name: &str| {
        let items = &place.rewinder.staged().unwrap().items;
        let item = items.iter().find(|item| item.path.to_string() == name);
        item.unwrap().by
    };
    assert_eq!((by("a"), by("c")), (Some(By::Name), Some(By::Command)));
}

#[test]
fn what_the_agent_writes_where_nothing_is_kept_stays_and_is_named() {
    let mut place = Place::new();
    place.write(".gitignore", "out/\n*.log\n");
    place.write("out/old", "0");
    place.write("seen.log", "0");
    place.write("a", "0");
    for name in ["a", "out/old", "out/new", ".git/info/mine"] {
        place.writes("m1", name, "1");
    }
    // Named and not changed, and removed.
    let touch = place.named(&["seen.log"]);
    place.begin("m1", "reads", touch);
    place.end("reads");
    let touch = place.named(&["out/old"]);
    place.begin("m1", "removes", touch);
    std::fs::remove_file(place.root.join("out/old")).unwrap();
    place.end("removes");
    place.rewinder.end_turn().unwrap();
    place.reopen();
    for force in [false, true] {
        let left = place.stage(1, force);
        assert_eq!(
            left,
            [
                ".git/info/mine: it belongs to the repository itself",
                "out/new: git ignores it",
                "out/old: git ignores it",
            ]
        );
        assert_eq!(place.read("a"), Some("0".into()));
        assert_eq!(place.read("out/new"), Some("1".into()));
        place.clear(false);
    }
}

#[test]
fn a_file_that_a_person_edited_between_two_calls_is_left_alone_unless_forced() {
    let mut place = Place::new();
    place.write("a", "0");
    place.writes("m1", "a", "1");
    place.write("a", "1 and mine");
    place.writes("m1", "a", "1 and mine and 2");
    place.rewinder.end_turn().unwrap();
    let left = place.stage(1, false);
    assert_eq!(left, ["a: it was edited between two changes of the agent"]);
    assert_eq!(place.read("a"), Some("1 and mine and 2".into()));
    assert!(place.stage(1, true).is_empty());
    assert_eq!(place.read("a"), Some("0".into()));
    place.clear(false);
    assert_eq!(place.read("a"), Some("1 and mine and 2".into()));
}

#[test]
fn a_new_file_takes_the_directories_that_were_made_for_it_along_and_no_others() {
    let mut place = Place::new();
    place.write("d/mine", "0");
    let before = place.whole();
    place.writes("m1", "d/e/f/new", "1");
    place.rewinder.end_turn().unwrap();
    place.stage(1, false);
    assert_same(&place.whole(), &before);
}

#[test]
fn a_file_that_is_named_through_a_link_is_the_one_that_it_leads_to() {
    let mut place = Place::new();
    place.write("deep/er/a", "0");
    symlink("deep/er", place.root.join("in")).unwrap();
    symlink("deep/er/a", place.root.join("link")).unwrap();
    let before = place.whole();
    for name in ["in/a", "link", "in/../b"] {
        let touch = place.named(&[name]);
        place.begin("m1", "write", touch);
        std::fs::write(place.root.join(name), name).unwrap();
        place.end("write");
    }
    assert_eq!(place.read("deep/b"), Some("in/../b".into()));
    place.rewinder.end_turn().unwrap();
    place.stage(1, false);
    assert_same(&place.whole(), &before);
}

#[test]
fn what_git_ignores_is_left_alone_and_named_and_what_lies_outside_is_left_alone() {
    let mut place = Place::new();
    place.write(".gitignore", "ignored\n");
    place.write("ignored", "0");
    let outside = place.root.parent().unwrap().join("outside");
    place.writes("m1", "ignored", "1");
    place.begin("m1", "write", Touch::Paths(vec![outside.clone()]));
    std::fs::write(&outside, "1").unwrap();
    place.end("write");
    place.rewinder.end_turn().unwrap();
    assert_eq!(place.stage(1, true), ["ignored: git ignores it"]);
    assert_eq!(place.read("ignored"), Some("1".into()));
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "1");
}

#[test]
fn calls_that_overlap_share_what_they_change_and_nobody_elses_is_among_it() {
    let mut place = Place::new();
    for name in ["a", "b", "c", "mine", "later"] {
        place.write(name, "0");
    }
    let before = place.whole();
    let touch = place.named(&["a"]);
    place.begin("m1", "name", touch);
    place.write("mine", "my work");
    place.begin("m1", "one", Touch::Anything);
    place.write("b", "1");
    place.begin("m1", "two", Touch::Anything);
    place.write("c", "1");
    place.end("one");
    place.write("b", "2");
    place.end("two");
    place.write("later", "my work");
    place.write("a", "1");
    place.end("name");
    place.rewinder.end_turn().unwrap();
    assert!(place.stage(1, false).is_empty());
    let mut expected = before;
    for mine in ["mine", "later"] {
        expected.get_mut(mine.as_bytes()).unwrap().2 = b"my work".to_vec();
    }
    assert_same(&place.whole(), &expected);
}

#[test]
fn a_call_that_was_allowed_and_never_ran_owns_nothing() {
    for touch in [Touch::Anything, Touch::Paths(vec!["mine".into()])] {
        let mut place = Place::new();
        place.write("mine", "0");
        place.write("a", "0");
        let touch = match touch {
            Touch::Paths(_) => place.named(&["mine"]),
            anything => anything,
        };
        place.begin("m1", "never", touch);
        let named = place.named(&["a"]);
        place.begin("m1", "write", named);
        place.write("a", "1");
        place.write("mine", "my work");
        place
            .rewinder
            .withdraw(&InvocationId::new("never"))
            .unwrap();
        place.end("write");
        place.rewinder.end_turn().unwrap();
        place.stage(1, false);
        assert_eq!(place.read("mine"), Some("my work".into()));
        assert_eq!(place.read("a"), Some("0".into()));
    }
}

#[test]
fn what_a_person_does_long_after_a_crash_is_not_taken_for_the_calls_that_it_cut_off() {
    let mut place = Place::new();
    place.write("a", "0");
    place.begin("m1", "command", Touch::Anything);
    place.write("a", "1");
    // The last sign of life is as old as the slack, and what comes now is newer.
    let pulse = place.setting.records.join("pulse");
    std::fs::write(&pulse, "").unwrap();
    let written = std::fs::metadata(place.root.join("a")).unwrap();
    let long_ago = written.modified().unwrap() - std::time::Duration::from_secs(3);
    let probe = place.root.parent().unwrap().join("probe");
    loop {
        std::fs::write(&probe, "").unwrap();
        let now = std::fs::metadata(&probe).unwrap().modified().unwrap();
        if now > written.modified().unwrap() {
            break;
        }
    }
    place.write("mine", "my work");
    let file = std::fs::File::options().write(true).open(&pulse).unwrap();
    file.set_modified(long_ago).unwrap();
    place.reopen();
    place.rewinder.end_turn().unwrap();
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("0".into()));
    assert_eq!(place.read("mine"), Some("my work".into()));
}

#[test]
fn a_named_call_that_a_crash_cut_off_is_put_back_unless_it_was_edited_since() {
    let mut place = Place::new();
    place.write("a", "0");
    place.write("mine", "0");
    let touch = place.named(&["a"]);
    place.begin("m1", "write", touch);
    place.write("a", "1");
    place.write("mine", "my work");
    place.reopen();
    place.rewinder.end_turn().unwrap();
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("0".into()));
    assert_eq!(place.read("mine"), Some("my work".into()));
    place.clear(false);
    place.write("a", "2");
    assert_eq!(
        place.stage(1, false),
        ["a: it was edited after the agent's last change"]
    );
}

#[test]
fn a_turn_of_an_earlier_version_is_read_and_not_believed() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    let file = place.setting.records.join("turns/00000001.json");
    let mut turn: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let fields = turn.as_object_mut().unwrap();
    for new in ["form", "open", "ended"] {
        fields.remove(new);
    }
    fields.insert("before".into(), "0".repeat(64).into());
    fields.insert("taken_at".into(), 5.into());
    for change in fields["changes"].as_array_mut().unwrap() {
        change.as_object_mut().unwrap().remove("by");
    }
    std::fs::write(&file, turn.to_string()).unwrap();
    place.reopen();
    place.stage(1, false);
    assert_eq!(place.read("a"), Some("1".into()));
    let gap = &place.rewinder.staged().unwrap().gaps[0];
    assert!(gap.contains("an earlier version"), "{gap}");
}

#[test]
fn what_force_overwrites_comes_back_or_is_kept_where_it_is_said() {
    let mut place = Place::new();
    place.write("a", "0");
    place.turn("m1", |place| place.write("a", "1"));
    let stage = |place: &mut Place, force| {
        let message = EntryId::new("m");
        let (said, turns) = ((&message, ""), [1]);
        let stop = Arc::default();
        let stays = Conversation::Stays;
        let staged = place.rewinder.stage(said, &turns, force, stays, &stop);
        let copy = |aside: crate::staging::SetAside| std::fs::read_to_string(aside.copy).unwrap();
        let set_aside = staged.unwrap().into_iter().map(copy);
        set_aside.collect::<Vec<_>>()
    };
    stage(&mut place, false);
    place.write("a", "mine");
    // Undoing brings the person's edit; what the agent had made is set aside.
    assert_eq!(stage(&mut place, true), ["1"]);
    assert_eq!(stage(&mut place, true), Vec::<String>::new());
    assert_eq!(place.read("a"), Some("0".into()));
    place.clear(false);
    assert_eq!(place.read("a"), Some("mine".into()));

    place.write("a", "1");
    stage(&mut place, false);
    place.write("a", "mine too");
    let (_, left, set_aside) = place.rewinder.clear(true, &Arc::default()).unwrap();
    assert_eq!((place.read("a"), left.len()), (Some("1".into()), 0));
    let kept = std::fs::read_to_string(&set_aside[0].copy).unwrap();
    assert_eq!(kept, "mine too");
}

/// Files of the property, one in a directory that may come and go.
const NAMES: [&str; 4] = ["a", "b", "d/a", "d/e/b"];

#[derive(Debug, Clone)]
enum Step {
    /// A person writes or deletes.
    Person(usize, Option<u8>),
    /// A call that names its file does.
    Named(usize, Option<u8>),
    /// A command does several.
    Command(Vec<(usize, Option<u8>)>),
    /// A call that names a file, while a person changes others.
    Meanwhile(usize, Option<u8>, Vec<(usize, Option<u8>)>),
    /// The turn ends.
    Turn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edit = || (0..NAMES.len(), prop::option::weighted(0.8, 0..3u8));
    let step = prop_oneof![
        4 => edit().prop_map(|(name, content)| Step::Person(name, content)),
        4 => edit().prop_map(|(name, content)| Step::Named(name, content)),
        2 => prop::collection::vec(edit(), 1..4).prop_map(Step::Command),
        2 => (edit(), prop::collection::vec(edit(), 1..3))
            .prop_map(|((name, content), others)| Step::Meanwhile(name, content, others)),
        1 => Just(Step::Turn),
    ];
    prop::collection::vec(step, 1..14)
}

/// `who` writes, in words that nobody else writes, or deletes.
fn edit(place: &Place, who: char, name: usize, content: Option<u8>) {
    match content {
        Some(content) => place.write(NAMES[name], format!("{who}{content}")),
        None => {
            std::fs::remove_file(place.root.join(NAMES[name])).ok();
        }
    }
}

fn contents(place: &Place) -> BTreeMap<&'static str, Option<String>> {
    NAMES.iter().map(|name| (*name, place.read(name))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_that_only_a_person_wrote_is_there_after_a_rewind(
        first in prop::collection::vec((0..NAMES.len(), 0..3u8), 0..4),
        steps in steps(),
        crashes in any::<bool>(),
    ) {
        let mut place = Place::new();
        for (name, content) in first {
            edit(&place, 's', name, Some(content));
        }
        let start = contents(&place);
        let (mut message, mut calls) = (1, 0);
        // What a person has made of a file since the start, the last time; and what the agent has touched.
        let mut persons: BTreeMap<&str, Option<String>> = BTreeMap::new();
        let mut agents: BTreeSet<&str> = BTreeSet::new();
        for step in steps {
            calls += 1;
            let turn = format!("m{message}");
            let call = format!("call{calls}");
            let mut person = |place: &Place, name: usize, content: Option<u8>| {
                let before = place.read(NAMES[name]);
                edit(place, 'p', name, content);
                let after = place.read(NAMES[name]);
                if before != after {
                    persons.insert(NAMES[name], after);
                }
            };
            match step {
                Step::Person(name, content) => person(&place, name, content),
                Step::Named(name, content) => {
                    let touch = place.named(&[NAMES[name]]);
                    place.begin(&turn, &call, touch);
                    edit(&place, 'a', name, content);
                    agents.insert(NAMES[name]);
                    place.end(&call);
                }
                Step::Command(edits) => {
                    place.begin(&turn, &call, Touch::Anything);
                    for (name, content) in edits {
                        edit(&place, 'a', name, content);
                        agents.insert(NAMES[name]);
                    }
                    place.end(&call);
                }
                Step::Meanwhile(name, content, others) => {
                    let touch = place.named(&[NAMES[name]]);
                    place.begin(&turn, &call, touch);
                    for (other, content) in others {
                        if other != name {
                            person(&place, other, content);
                        }
                    }
                    edit(&place, 'a', name, content);
                    agents.insert(NAMES[name]);
                    place.end(&call);
                }
                Step::Turn => {
                    place.rewinder.end_turn().unwrap();
                    message += 1;
                }
            }
        }
        place.rewinder.end_turn().unwrap();
        if crashes {
            place.reopen();
        }
        let end = contents(&place);
        let whole = place.whole();
        place.stage(1, false);
        let after = contents(&place);
        for name in NAMES {
            match persons.get(name) {
                // It is as it was, or as a person left it when they last wrote it.
                Some(None) => {}
                Some(mine) => prop_assert!(
                    after[name] == end[name] || after[name] == *mine,
                    "{name}: {:?} of {:?}, {:?} and {:?}", after[name], start[name], mine, end[name]
                ),
                None if agents.contains(name) => prop_assert_eq!(&after[name], &start[name], "{}", name),
                None => prop_assert_eq!(&after[name], &end[name], "{}", name),
            }
        }
        place.clear(false);
        assert_same(&place.whole(), &whole);
    }
}
