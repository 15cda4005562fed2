//! Whatever is said, moved, labelled, forked and summarised: the tree and the model's view stay sound.

use std::collections::{BTreeMap, HashMap};

use bezel_harness::{ForkRequest, ForkScope, HarnessConfig, NavigateRequest};
use bezel_session_types::{Entry, EntryBody, EntryId, Message, RunOutcome};
use proptest::prelude::*;

use crate::support::{Model, Place, Session, model_spec, outline, says};

#[derive(Debug, Clone)]
enum Deed {
    Say,
    /// To the entry at this place among all, or before the first.
    Go {
        place: usize,
        summary: bool,
    },
    Compact,
    Label {
        place: usize,
        set: bool,
    },
    Fork {
        place: usize,
        whole: bool,
    },
    /// The process ends and another takes the session up.
    Die,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let place = 0..64usize;
    let deed = prop_oneof![
        4 => Just(Deed::Say),
        4 => (place.clone(), any::<bool>()).prop_map(|(place, summary)| Deed::Go { place, summary }),
        1 => Just(Deed::Compact),
        2 => (place.clone(), any::<bool>()).prop_map(|(place, set)| Deed::Label { place, set }),
        1 => (place, any::<bool>()).prop_map(|(place, whole)| Deed::Fork { place, whole }),
        1 => Just(Deed::Die),
    ];
    prop::collection::vec(deed, 1..14)
}

/// What the model is to see of a path, from the rules alone.
fn expected_view(path: &[Entry]) -> Vec<String> {
    let compacted = path
        .iter()
        .rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    let mut view = Vec::new();
    let mut from = 0;
    if let Some(at) = compacted
        && let EntryBody::Compaction(compaction) = &path[at].body
    {
        view.push(format!("summary {}", compaction.summary));
        let kept = compaction.first_kept.as_ref();
        let kept = kept.and_then(|kept| path.iter().position(|entry| entry.id == *kept));
        from = kept.unwrap_or(at);
    }
    view.extend(path[from..].iter().filter_map(|entry| match &entry.body {
        EntryBody::Message { message } => match &**message {
            Message::User(user) => Some(user.to_text()),
            Message::Assistant(answer) => Some(answer.to_text()),
            Message::ToolResult(_) => None,
        },
        EntryBody::BranchSummary(branch) => Some(format!("branch {}", branch.summary)),
        _ => None,
    }));
    view
}

/// What it saw, in the same words.
fn seen(messages: &[std::sync::Arc<Message>]) -> Vec<String> {
    let words = |message: &Message| match message {
        Message::User(user) => user.to_text(),
        Message::Assistant(answer) => answer.to_text(),
        Message::ToolResult(result) => panic!("{result:?}"),
    };
    let short = |text: String| {
        let inner = text.split("<summary>\n").nth(1);
        match inner.and_then(|rest| rest.split("\n</summary>").next()) {
            Some(inner) if text.starts_with("Another branch") => format!("branch {inner}"),
            Some(inner) => format!("summary {inner}"),
            None => text,
        }
    };
    messages
        .iter()
        .map(|message| short(words(message)))
        .collect()
}

fn open(place: &Place, model: &std::sync::Arc<Model>) -> Session {
    let mut config = HarnessConfig::default();
    config.compaction.keep_recent = 8;
    place.open_with(model, vec![], model_spec(), config)
}

async fn holds(deeds: &[Deed]) {
    let place = Place::new();
    let model = Model::new(
        |request, count| match request.system.contains("summarise") {
            true => says(&format!("summary number {count}")),
            false => says(&format!("answer number {count}")),
        },
    );
    let mut session = open(&place, &model);
    let mut labels: BTreeMap<EntryId, String> = BTreeMap::new();
    let mut tree: Vec<Entry> = Vec::new();
    for (turn, deed) in deeds.iter().enumerate() {
        let at = |place: usize| (!tree.is_empty()).then(|| tree[place % tree.len()].id.clone());
        let before = session.entries();
        match deed {
            Deed::Say => {
                let mut shown = expected_view(&before);
                shown.push(format!("words {turn}"));
                session.turn(&format!("words {turn}")).await;
                assert_eq!(seen(&model.request(model.asked() - 1).messages), shown);
            }
            Deed::Go { place, summary } => {
                let target = at(*place).filter(|_| place % 7 != 6);
                let request = NavigateRequest {
                    summary: (*summary && target.is_some()).then(String::new),
                    target: target.clone(),
                    label: None,
                };
                if session.lane.navigate(&session.cx, request).await.is_err() {
                    assert_eq!(before.last().map(|entry| &entry.id), target.as_ref());
                    continue;
                }
                session.idle().await;
                let outcome = session.lane.last_outcome().unwrap().unwrap().outcome;
                assert_eq!(outcome, RunOutcome::Completed);
                let path = session.entries();
                let tip = match path.last().map(|entry| &entry.body) {
                    Some(EntryBody::BranchSummary(branch))
                        if path.len() > 1 && !tree.contains(&path[path.len() - 1]) =>
                    {
                        assert_eq!(Some(&branch.from), before.last().map(|entry| &entry.id));
                        path.get(path.len() - 2)
                    }
                    _ => path.last(),
                };
                assert_eq!(tip.map(|entry| &entry.id), target.as_ref());
            }
            Deed::Compact => {
                if session.lane.compact(&session.cx, None).await.is_ok() {
                    session.idle().await;
                }
                let path = session.entries();
                assert_eq!(
                    path[..before.len()],
                    before,
                    "a compaction takes nothing away"
                );
            }
            Deed::Label { place, set } => {
                let Some(entry) = at(*place) else { continue };
                let label = set.then(|| format!("label {turn}"));
                let named = session.harness.tree();
                named
                    .set_label(&session.cx, &entry, label.as_deref())
                    .unwrap();
                match label {
                    Some(label) => drop(labels.insert(entry, label)),
                    None => drop(labels.remove(&entry)),
                }
            }
            Deed::Fork {
                place: index,
                whole,
            } => {
                let Some(entry) = at(*index) else { continue };
                let file = place.directory.path().join(format!("fork-{turn}.db"));
                let scope = if *whole {
                    ForkScope::Tree
                } else {
                    ForkScope::Path
                };
                let request = ForkRequest {
                    at: Some(entry.clone()),
                    scope,
                    into: file.clone(),
                };
                session.harness.fork(request).await.unwrap();
                let reader = bezel_store::Reader::open(&file).unwrap();
                let copied = reader
                    .read(|queries| queries.entries_before(None, 1_000))
                    .unwrap();
                let path = session.harness.tree().path(&entry, 1_000).unwrap().entries;
                assert_eq!(copied, if *whole { tree.clone() } else { path.clone() });
                let tip = reader
                    .read(|queries| queries.tip(&bezel_session_types::LaneName::main()))
                    .unwrap();
                assert_eq!(tip, Some(entry));
                let kept = reader.read(|queries| queries.keys("label/")).unwrap();
                let expected = labels
                    .keys()
                    .filter(|id| copied.iter().any(|entry| entry.id == **id));
                assert_eq!(
                    kept,
                    expected.map(|id| format!("label/{id}")).collect::<Vec<_>>()
                );
            }
            Deed::Die => {
                session.kill().await;
                session = open(&place, &model);
                assert_eq!(session.entries(), before);
            }
        }
        let now = session.harness.tree().all(None, 1_000).unwrap();
        assert_eq!(now[..tree.len()], tree, "entries are written once");
        let known: HashMap<&EntryId, u64> =
            now.iter().map(|entry| (&entry.id, entry.seq)).collect();
        assert!(now.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        for entry in &now {
            let parent = entry.parent.as_ref().map(|parent| known[parent]);
            assert!(parent.is_none_or(|seq| seq < entry.seq), "{entry:?}");
        }
        let path = session.entries();
        for pair in path.windows(2) {
            assert_eq!(pair[1].parent.as_ref(), Some(&pair[0].id));
        }
        assert!(
            path.first().is_none_or(|entry| entry.parent.is_none()),
            "{:?}",
            outline(&path)
        );
        assert_eq!(session.harness.tree().labels().unwrap(), labels);
        tree = now;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_deeds_keeps_the_tree_whole_and_shows_the_model_the_path_it_is_on(deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(holds(&deeds));
    }
}
