//! Rebuilding one result from many contributions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bezel_plugin::{
    Contribution, Draft, DraftError, Facet, FacetScope, ManifestEntry, Names, PluginId, Problem,
    Registry,
};
use proptest::prelude::*;

use crate::support::{Host, manifest, start};

/// Words by name; a word must not be empty.
pub struct Words(pub Names<String>);

pub type Result_ = Vec<(String, String)>;

impl Draft for Words {
    type Output = Result_;

    fn new() -> Self {
        Words(Names::new("word"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<Result_, DraftError> {
        let words: Vec<_> = self.0.finish(problems).collect();
        if let Some((name, word)) = words.iter().find(|(_, word)| word.value.is_empty()) {
            let message = format!("word `{name}` is empty");
            return Err(DraftError {
                plugin: word.plugin.clone(),
                message,
            });
        }
        Ok(words
            .into_iter()
            .map(|(name, word)| (name, word.value))
            .collect())
    }
}

pub type Add = Arc<dyn Fn(&mut Words) + Send + Sync>;
pub type Kept = Arc<Mutex<Vec<Contribution<Words>>>>;

/// A host whose plugins contribute, in order, what `adds` says.
pub async fn host(adds: Vec<(&'static str, Add)>) -> (Host, Registry<Words>, Kept) {
    let registry = Registry::<Words>::new(Vec::new());
    let kept = Kept::default();
    let entries = adds
        .iter()
        .map(|(plugin, _)| ManifestEntry::optional(plugin, "1.0.0"))
        .collect();
    let facets = adds.into_iter().map(|(plugin, add)| {
        let (registry, kept) = (registry.clone(), Arc::clone(&kept));
        Facet::new(plugin, move |cx: FacetScope| {
            let add = Arc::clone(&add);
            let contribution = registry.contributions(&cx).add(move |draft| add(draft));
            kept.lock().unwrap().push(contribution);
            async { Ok(()) }
        })
    });
    let facets = facets.collect();
    let host = start(manifest(entries), facets).await.unwrap();
    assert!(
        registry.current().is_empty(),
        "nothing is published before the host opens the registry"
    );
    registry.open();
    (host, registry, kept)
}

pub fn set(name: &'static str, word: &'static str) -> Add {
    Arc::new(move |draft| draft.0.set(name, word.to_owned()))
}

pub fn words(registry: &Registry<Words>) -> Vec<String> {
    registry
        .current()
        .iter()
        .map(|(name, word)| format!("{name}={word}"))
        .collect()
}

#[tokio::test]
async fn of_two_plugins_that_set_one_name_the_earlier_stays_and_both_are_named() {
    let (mut host, registry, _kept) = host(vec![
        ("first", set("a", "1")),
        ("second", set("a", "2")),
        ("third", set("b", "3")),
    ])
    .await;
    assert_eq!(words(&registry), ["a=1", "b=3"]);
    let problem = registry.problems()[0].to_string();
    assert!(
        problem.contains("`first`") && problem.contains("`second`") && problem.contains("word `a`"),
        "{problem}"
    );
    host.assembled.remove("first").await;
    assert_eq!(words(&registry), ["a=2", "b=3"]);
    assert!(registry.problems().is_empty());
}

#[tokio::test]
async fn the_contributions_of_a_plugin_end_with_one_rebuild() {
    let rebuilds = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&rebuilds);
    let registry = Registry::<Words>::new(Vec::new());
    let many = registry.clone();
    let facets = vec![
        Facet::new("stays", {
            let registry = registry.clone();
            move |cx: FacetScope| {
                let counting = Arc::clone(&counting);
                registry.contributions(&cx).add(move |draft| {
                    counting.fetch_add(1, Ordering::SeqCst);
                    draft.0.set("a", "1".into());
                });
                async { Ok(()) }
            }
        }),
        Facet::new("many", move |cx: FacetScope| {
            let contributions = many.contributions(&cx);
            for name in ["b", "c", "d"] {
                contributions.add(move |draft| draft.0.set(name, "2".into()));
            }
            async { Ok(()) }
        }),
    ];
    let entries = ["stays", "many"].map(|plugin| ManifestEntry::optional(plugin, "1.0.0"));
    let mut host = start(manifest(entries.into()), facets).await.unwrap();
    registry.open();
    assert_eq!(words(&registry), ["a=1", "b=2", "c=2", "d=2"]);
    let before = rebuilds.load(Ordering::SeqCst);
    host.assembled.remove("many").await;
    assert_eq!(words(&registry), ["a=1"]);
    assert_eq!(rebuilds.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn replace_says_that_it_is_meant() {
    let replace: Add = Arc::new(|draft| draft.0.replace("a", "2".to_owned()));
    let (mut host, registry, _kept) =
        host(vec![("first", set("a", "1")), ("second", replace)]).await;
    assert_eq!(words(&registry), ["a=2"]);
    assert!(registry.problems().is_empty());
    host.assembled.remove("second").await;
    assert_eq!(words(&registry), ["a=1"]);
}

#[tokio::test]
async fn opencode_35_a_contribution_that_breaks_later_keeps_the_previous_result_and_marks_its_plugin()
 {
    let word: Arc<Mutex<&str>> = Arc::new(Mutex::new("1"));
    let panics = Arc::new(AtomicBool::new(false));
    let (reads, trips) = (Arc::clone(&word), Arc::clone(&panics));
    let changing: Add = Arc::new(move |draft| {
        assert!(!trips.load(Ordering::SeqCst), "a bug");
        draft.0.set("a", (*reads.lock().unwrap()).to_owned());
    });
    let (mut host, registry, kept) = host(vec![
        ("fine", set("b", "2")),
        ("changing", changing),
        ("gone", set("c", "3")),
    ])
    .await;
    for broken in ["", "panic"] {
        *word.lock().unwrap() = broken;
        panics.store(broken == "panic", Ordering::SeqCst);
        kept.lock().unwrap()[1].changed();
        assert_eq!(
            words(&registry),
            ["b=2", "a=1", "c=3"],
            "the previous result stays"
        );
        assert!(
            matches!(&registry.problems()[..], [Problem::Failed(error)] if error.plugin.as_str() == "changing")
        );
    }
    // A removal leaves no trace, even while another contribution is broken.
    host.assembled.remove("gone").await;
    assert_eq!(words(&registry), ["b=2"]);
    panics.store(false, Ordering::SeqCst);
    *word.lock().unwrap() = "4";
    kept.lock().unwrap()[1].changed();
    assert_eq!(words(&registry), ["b=2", "a=4"]);
    assert!(registry.problems().is_empty());
}

#[tokio::test]
async fn a_contribution_that_is_broken_from_the_start_does_not_keep_the_others_out() {
    let bug: Add = Arc::new(|_| panic!("a bug"));
    let (_host, registry, _kept) = host(vec![
        ("bug", bug),
        ("empty", set("x", "")),
        ("fine", set("a", "1")),
    ])
    .await;
    assert_eq!(words(&registry), ["a=1"]);
    assert_eq!(registry.problems().len(), 2);
}

#[tokio::test]
async fn watchers_see_only_complete_results() {
    let calls = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&calls);
    let add: Add = Arc::new(move |draft| {
        let call = counting.fetch_add(1, Ordering::SeqCst);
        draft.0.set("a", call.to_string());
        draft.0.set("b", call.to_string());
    });
    let (_host, registry, kept) = host(vec![("counting", add)]).await;
    let mut watch = registry.watch();
    kept.lock().unwrap()[0].changed();
    watch.changed().await.unwrap();
    let seen = watch.borrow_and_update().clone();
    assert_eq!(seen[0].1, seen[1].1);
}

proptest! {
    /// Removing any plugins leaves what a host without them would have built.
    #[test]
    fn removing_plugins_leaves_no_trace(
        names in prop::collection::vec(0_usize..4, 1..6),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        const PLUGINS: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let adds = |plugins: &[usize]| -> Vec<(&'static str, Add)> {
                plugins.iter().map(|plugin| (PLUGINS[*plugin], set(NAMES[names[*plugin]], PLUGINS[*plugin]))).collect()
            };
            let all: Vec<usize> = (0..names.len()).collect();
            let mut left = all.clone();
            let (mut changed, registry, _kept) = host(adds(&all)).await;
            for index in removed {
                if left.is_empty() { break; }
                let gone = left.remove(index.index(left.len()));
                changed.assembled.remove(PLUGINS[gone]).await;
            }
            let (_fresh, expected, _) = host(adds(&left)).await;
            prop_assert_eq!(words(&registry), words(&expected));
            prop_assert_eq!(registry.problems(), expected.problems());
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_follower_has_each_result_when_the_change_returns_and_none_after_it_has_ended() {
    let word: Arc<Mutex<&str>> = Arc::new(Mutex::new("1"));
    let reads = Arc::clone(&word);
    let changing: Add =
        Arc::new(move |draft| draft.0.set("a", (*reads.lock().unwrap()).to_owned()));
    let (mut host, registry, kept) =
        host(vec![("changing", changing), ("gone", set("b", "2"))]).await;
    let seen: Arc<Mutex<Vec<Result_>>> = Arc::default();
    let sees = Arc::clone(&seen);
    let following = registry.follow(move |result| sees.lock().unwrap().push((**result).clone()));
    let change = |to: &'static str| {
        *word.lock().unwrap() = to;
        kept.lock().unwrap()[0].changed();
    };
    let counts = || seen.lock().unwrap().len();
    assert_eq!(counts(), 1, "the current one at once");
    change("3");
    assert_eq!(seen.lock().unwrap()[1][0].1, "3");
    change("");
    assert_eq!(counts(), 2, "what is not complete is not published");
    change("4");
    host.assembled.remove("gone").await;
    assert_eq!(seen.lock().unwrap()[3].len(), 1);
    drop(following);
    change("5");
    assert_eq!(counts(), 4);
}
