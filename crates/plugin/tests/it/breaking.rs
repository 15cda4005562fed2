//! What is published while contributions break, work again, come and go.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bezel_plugin::{
    Contribution, Contributions, Facet, FacetScope, ManifestEntry, Problem, Registry,
};
use proptest::prelude::*;

use crate::contributions::{Words, host, set, words};
use crate::support::{Host, manifest, start};

const PLUGINS: [&str; 4] = ["p0", "p1", "p2", "p3"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a contribution does when it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    /// Sets one of the names to this.
    Sets(usize, u8),
    Panics,
    /// Sets a name of its own to what is not valid.
    IsNotValid,
}

/// What happens to a registry.
#[derive(Debug, Clone)]
enum Happens {
    Adds(usize, Does),
    Changes(prop::sample::Index, Does),
    Disposes(prop::sample::Index),
    Ends(usize),
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        3 => (0..NAMES.len(), any::<u8>()).prop_map(|(name, word)| Does::Sets(name, word)),
        1 => Just(Does::Panics),
        1 => Just(Does::IsNotValid),
    ]
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => (0..PLUGINS.len(), does()).prop_map(|(plugin, does)| Happens::Adds(plugin, does)),
        5 => (any::<prop::sample::Index>(), does()).prop_map(|(at, does)| Happens::Changes(at, does)),
        2 => any::<prop::sample::Index>().prop_map(Happens::Disposes),
        1 => (0..PLUGINS.len()).prop_map(Happens::Ends),
    ]
}

/// A contribution, and in the model what is known of it.
struct Added {
    plugin: usize,
    number: usize,
    does: Arc<Mutex<Does>>,
    contribution: Contribution<Words>,
}

/// A registry with plugins that contribute when they are told to.
struct Real {
    host: Host,
    registry: Registry<Words>,
    sides: Vec<Contributions<Words>>,
    added: Vec<Added>,
    ended: BTreeSet<usize>,
    numbers: usize,
}

impl Real {
    async fn start() -> Self {
        let registry = Registry::<Words>::new(Vec::new());
        let sides = Arc::new(Mutex::new(Vec::new()));
        let facets = PLUGINS.map(|plugin| {
            let (registry, sides) = (registry.clone(), Arc::clone(&sides));
            Facet::new(plugin, move |cx: FacetScope| {
                sides.lock().unwrap().push(registry.contributions(&cx));
                async { Ok(()) }
            })
        });
        let entries = PLUGINS.map(|plugin| ManifestEntry::optional(plugin, "1.0.0"));
        let host = start(manifest(entries.into()), facets.into())
            .await
            .unwrap();
        registry.open();
        let sides = std::mem::take(&mut *sides.lock().unwrap());
        Real {
            host,
            registry,
            sides,
            added: Vec::new(),
            ended: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn add(&mut self, plugin: usize, to_do: Does) {
        let number = self.numbers;
        self.numbers += 1;
        let does = Arc::new(Mutex::new(to_do));
        let reads = Arc::clone(&does);
        let contribution = self.sides[plugin].add(move |draft| {
            let does = *reads.lock().unwrap();
            match does {
                Does::Sets(name, word) => draft.0.set(NAMES[name], word.to_string()),
                Does::Panics => panic!("a bug"),
                Does::IsNotValid => draft.0.set(&format!("own {number}"), String::new()),
            }
        });
        self.added.push(Added {
            plugin,
            number,
            does,
            contribution,
        });
    }

    /// The plugins that are named as broken.
    fn broken(&self) -> BTreeSet<usize> {
        let problems = self.registry.problems();
        let broken = problems.iter().filter_map(|problem| match problem {
            Problem::Failed(error) => PLUGINS
                .iter()
                .position(|plugin| *plugin == error.plugin.as_str()),
            Problem::Conflict { .. } => None,
        });
        broken.collect()
    }
}

/// The rule, one step after the other: all that there is, and what was published last.
#[derive(Default)]
struct Model {
    all: Vec<(usize, usize, Does)>,
    published: Vec<(String, String)>,
}

impl Model {
    fn broken(&self) -> BTreeSet<usize> {
        let broken = self
            .all
            .iter()
            .filter(|(.., does)| !matches!(does, Does::Sets(..)));
        broken.map(|(plugin, ..)| *plugin).collect()
    }

    /// `changed` is who added or changed something.
    fn publish(&mut self, changed: Option<usize>) {
        let broken = self.broken();
        if changed.is_some_and(|plugin| broken.contains(&plugin)) {
            return;
        }
        let mut named: Vec<(usize, usize, u8)> = Vec::new();
        for (plugin, _, does) in &self.all {
            let Does::Sets(name, word) = *does else {
                continue;
            };
            if broken.contains(plugin) {
                continue;
            }
            match named.iter_mut().find(|(taken, ..)| *taken == name) {
                Some((_, owner, was)) if owner == plugin => *was = word,
                Some(_) => {}
                None => named.push((name, *plugin, word)),
            }
        }
        let published = named.into_iter();
        self.published = published
            .map(|(name, _, word)| (NAMES[name].to_owned(), word.to_string()))
            .collect();
    }
}

proptest! {
    /// Whatever breaks, works again, comes and goes: the result is what the rule says, step by step.
    #[test]
    fn a_change_is_carried_whatever_is_wrong_with_others_and_a_broken_one_keeps_the_previous_result(
        story in prop::collection::vec(happens(), 1..24),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut real, mut model) = (Real::start().await, Model::default());
            for happens in story {
                match happens {
                    Happens::Adds(plugin, does) if !real.ended.contains(&plugin) => {
                        model.all.push((plugin, real.numbers, does));
                        model.publish(Some(plugin));
                        real.add(plugin, does);
                    }
                    Happens::Changes(at, does) if !real.added.is_empty() => {
                        let changed = &real.added[at.index(real.added.len())];
                        let of = |entry: &&mut (usize, usize, Does)| entry.1 == changed.number;
                        model.all.iter_mut().find(of).unwrap().2 = does;
                        model.publish(Some(changed.plugin));
                        *changed.does.lock().unwrap() = does;
                        changed.contribution.changed();
                    }
                    Happens::Disposes(at) if !real.added.is_empty() => {
                        let gone = real.added.remove(at.index(real.added.len()));
                        model.all.retain(|(_, number, _)| *number != gone.number);
                        model.publish(None);
                        gone.contribution.dispose();
                    }
                    Happens::Ends(plugin) if real.ended.insert(plugin) => {
                        let had = model.all.len();
                        model.all.retain(|(of, ..)| *of != plugin);
                        if model.all.len() < had {
                            model.publish(None);
                        }
                        real.added.retain(|added| added.plugin != plugin);
                        real.host.assembled.remove(PLUGINS[plugin]).await;
                    }
                    _ => {}
                }
                prop_assert_eq!(&*real.registry.current(), &model.published);
                prop_assert_eq!(real.broken(), model.broken());
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_plugin_that_was_broken_from_the_start_is_told_once_and_again_in_its_place_when_it_works()
{
    let works = Arc::new(Mutex::new(false));
    let reads = Arc::clone(&works);
    let (_host, registry, kept) = host(vec![
        ("first", set("a", "1")),
        (
            "broken",
            Arc::new(move |draft| {
                assert!(*reads.lock().unwrap(), "a bug");
                draft.0.set("b", "2".into());
            }),
        ),
        ("last", set("b", "3")),
    ])
    .await;
    assert_eq!(words(&registry), ["a=1", "b=3"]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let following = registry.follow_problems(move |problem| {
        tells.lock().unwrap().push(problem.plugin().to_string());
    });
    kept.lock().unwrap()[0].changed();
    kept.lock().unwrap()[1].changed();
    assert_eq!(registry.problems().len(), 1);
    assert_eq!(*told.lock().unwrap(), ["broken"]);
    *works.lock().unwrap() = true;
    // Another's change is enough for it to be tried.
    kept.lock().unwrap()[2].changed();
    assert_eq!(words(&registry), ["a=1", "b=2"]);
    assert_eq!(
        *told.lock().unwrap(),
        ["broken", "last"],
        "the name is taken again"
    );
    drop(following);
    *works.lock().unwrap() = false;
    kept.lock().unwrap()[2].changed();
    assert_eq!(told.lock().unwrap().len(), 2);
}
