//! Contribution registries: many contributors, one result, rebuilt from the start each time.
//!
//! A registry replays ordered contributions over a fresh draft and publishes only a complete, validated
//! result. Contributions of one facet end together, with one rebuild; nothing runs an inverse mutation.
//!
//! A contribution that panics or is not valid marks its plugin with a [`Problem`], and:
//!
//! - where its own plugin added or changed something, the previous result stays: a half-made change shows nobody
//!   half a result;
//! - where somebody else added, changed or removed something, that is carried: the result is made of everything
//!   but the broken plugin's contributions, which are tried again, in their place in the order, each time.
//!
//! So whoever changes something finds it in the result, whatever is wrong with others, and what was removed is
//! never there.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use indexmap::IndexMap;
use indexmap::map::Entry;
use tokio::sync::watch;

use crate::{FacetScope, PluginId};

/// A result under construction.
pub trait Draft: Send + Sized + 'static {
    /// The finished result.
    type Output: Send + Sync + 'static;

    /// An empty draft.
    fn new() -> Self;

    /// Before the first contribution: what was published last, whose entries may be known to be valid still, and
    /// how many contributions come.
    fn prepare(&mut self, _previous: &Arc<Self::Output>, _contributions: usize) {}

    /// Says whose contribution comes next; `registration` is unique and stays with the contribution.
    fn begin(&mut self, plugin: &PluginId, registration: u64);

    /// After [`Draft::begin`]: how often this contribution itself has said that it changed. The same number as in an
    /// earlier rebuild says that the rebuild is not because of this contribution.
    fn changes(&mut self, _changes: u64) {}

    /// Validates and finishes. Problems that leave a valid result (conflicts) go into `problems`.
    fn finish(self, problems: &mut Vec<Problem>) -> Result<Self::Output, DraftError>;
}

/// A draft that cannot be finished because of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the contribution of plugin `{plugin}` is not valid: {message}")]
pub struct DraftError {
    /// Whose contribution.
    pub plugin: PluginId,
    /// What is wrong and what to do.
    pub message: String,
}

/// Something that a person should know of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Two plugins set one name: the earlier stays.
    Conflict {
        /// What kind of thing, for example `tool`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Whose stays.
        kept: PluginId,
        /// Whose was refused.
        refused: PluginId,
    },
    /// A contribution panicked or was not valid: it is not in the result.
    Failed(DraftError),
}

impl Problem {
    /// Whose contribution is not in place.
    pub fn plugin(&self) -> &PluginId {
        match self {
            Problem::Conflict { refused, .. } => refused,
            Problem::Failed(error) => &error.plugin,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Conflict {
                kind,
                name,
                kept,
                refused,
            } => write!(
                formatter,
                "plugins `{kept}` and `{refused}` both set {kind} `{name}`; the one of `{kept}` stays"
            ),
            Problem::Failed(error) => error.fmt(formatter),
        }
    }
}

/// The host's side of one kind of contribution.
pub struct Registry<D: Draft>(Arc<Shared<D>>);

impl<D: Draft> Clone for Registry<D> {
    fn clone(&self) -> Self {
        Registry(Arc::clone(&self.0))
    }
}

type Follower<D> = Box<dyn Fn(&Arc<<D as Draft>::Output>) + Send + Sync>;
type Observer = Box<dyn Fn(&Problem) + Send + Sync>;
type Callback<D> = Arc<dyn Fn(&mut D) + Send + Sync>;

struct Shared<D: Draft> {
    // Held during a rebuild, so that results are published in order; contributions must not wait.
    state: Mutex<State<D>>,
    /// The newest result, for those who read it in passing: without a lock.
    current: ArcSwap<D::Output>,
    /// The same, for those who follow.
    published: watch::Sender<Arc<D::Output>>,
}

struct State<D: Draft> {
    live: bool,
    next: u64,
    contributions: Vec<Contributed<D>>,
    problems: Vec<Problem>,
    followers: Vec<(u64, Follower<D>)>,
    observers: Vec<(u64, Observer)>,
}

struct Contributed<D: Draft> {
    registration: u64,
    /// The facet's side that it came through.
    owner: u64,
    plugin: PluginId,
    /// How often it has said that it changed.
    changes: u64,
    callback: Callback<D>,
}

/// Why a rebuild happens.
enum Cause {
    /// This plugin added or changed something: where what it contributes is broken, the previous result stays.
    Changed(PluginId),
    /// The first result, or a removal, which must leave no trace: there is no result to stay with.
    Renewed,
}

impl<D: Draft> Registry<D> {
    /// A registry that publishes `empty` until [`Registry::open`].
    pub fn new(empty: D::Output) -> Self {
        let state = State {
            live: false,
            next: 1,
            contributions: Vec::new(),
            problems: Vec::new(),
            followers: Vec::new(),
            observers: Vec::new(),
        };
        let empty = Arc::new(empty);
        Registry(Arc::new(Shared {
            state: Mutex::new(state),
            current: ArcSwap::new(Arc::clone(&empty)),
            published: watch::Sender::new(empty),
        }))
    }

    /// Builds the first result from what was contributed during setup, and follows changes from now on.
    pub fn open(&self) {
        let mut state = self.0.lock();
        state.live = true;
        self.0.rebuild(&mut state, &Cause::Renewed);
    }

    /// What a facet may do here: add contributions that end with its scope.
    pub fn contributions(&self, scope: &FacetScope) -> Contributions<D> {
        Contributions {
            registry: Arc::downgrade(&self.0),
            owner: self.0.lock().number(),
            scope: scope.clone(),
        }
    }

    /// The newest complete result. Takes no lock.
    pub fn current(&self) -> Arc<D::Output> {
        self.0.current.load_full()
    }

    /// The newest complete result and each one after it.
    pub fn watch(&self) -> watch::Receiver<Arc<D::Output>> {
        self.0.published.subscribe()
    }

    /// Calls `follower` with the current result, and with each one after it as it is published: whoever changes a
    /// contribution finds the change carried when that returns. It must be quick and use no registry.
    #[must_use]
    pub fn follow(
        &self,
        follower: impl Fn(&Arc<D::Output>) + Send + Sync + 'static,
    ) -> Following<D> {
        let mut state = self.0.lock();
        let id = state.number();
        follower(&self.current());
        state.followers.push((id, Box::new(follower)));
        Following {
            registry: Arc::downgrade(&self.0),
            id,
        }
    }

    /// Calls `observer` with each problem that there is now, and with each one that comes. It must be quick and use no
    /// registry.
    #[must_use]
    pub fn follow_problems(
        &self,
        observer: impl Fn(&Problem) + Send + Sync + 'static,
    ) -> Following<D> {
        let mut state = self.0.lock();
        let id = state.number();
        state.problems.iter().for_each(&observer);
        state.observers.push((id, Box::new(observer)));
        Following {
            registry: Arc::downgrade(&self.0),
            id,
        }
    }

    /// What the last rebuild found.
    pub fn problems(&self) -> Vec<Problem> {
        self.0.lock().problems.clone()
    }
}

impl<D: Draft> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, registration: u64) {
        let mut state = self.lock();
        let contributions = &mut state.contributions;
        let found = contributions.binary_search_by_key(&registration, |entry| entry.registration);
        let removed = found.ok().map(|place| contributions.remove(place));
        if removed.is_some() {
            self.rebuild(&mut state, &Cause::Renewed);
        }
        // Outside of the lock: what a contribution held may come here when it is dropped.
        drop(state);
        drop(removed);
    }

    fn rebuild(&self, state: &mut State<D>, cause: &Cause) {
        if !state.live {
            return;
        }
        let mut failed: Vec<DraftError> = Vec::new();
        loop {
            let mut problems = Vec::new();
            let mut draft = D::new();
            draft.prepare(&self.current.load_full(), state.contributions.len());
            match replay(draft, &state.contributions, &failed, &mut problems) {
                Ok(output) => {
                    problems.extend(failed.into_iter().map(Problem::Failed));
                    state.note(problems);
                    let output = Arc::new(output);
                    self.current.store(Arc::clone(&output));
                    self.published.send_replace(Arc::clone(&output));
                    for (_, follower) in &state.followers {
                        follower(&output);
                    }
                    return;
                }
                Err(error) => {
                    // A draft that names a plugin which is left out already would name it for ever.
                    let known = failed.iter().any(|earlier| earlier.plugin == error.plugin);
                    let own = matches!(cause, Cause::Changed(plugin) if *plugin == error.plugin);
                    failed.push(error);
                    if own || known {
                        state.keep(failed);
                        return;
                    }
                }
            }
        }
    }
}

impl<D: Draft> State<D> {
    /// A number that nothing else here has.
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// These are the problems now.
    fn note(&mut self, problems: Vec<Problem>) {
        for problem in &problems {
            if self.problems.contains(problem) {
                continue;
            }
            tracing::warn!("{problem}");
            for (_, observer) in &self.observers {
                observer(problem);
            }
        }
        self.problems = problems;
    }

    /// The result stays, and so do its problems, apart from those of the plugins that now failed.
    fn keep(&mut self, failed: Vec<DraftError>) {
        let mut problems = self.problems.clone();
        for error in failed {
            problems.retain(|problem| match problem {
                Problem::Failed(earlier) => earlier.plugin != error.plugin,
                Problem::Conflict { .. } => true,
            });
            problems.push(Problem::Failed(error));
        }
        self.note(problems);
    }

    /// Takes out all contributions of the owner of this one; none where they have gone already.
    fn take(&mut self, owner: u64, registration: u64) -> Vec<Contributed<D>> {
        let contributions = &mut self.contributions;
        match contributions.binary_search_by_key(&registration, |entry| entry.registration) {
            Ok(_) => contributions
                .extract_if(.., |entry| entry.owner == owner)
                .collect(),
            Err(_) => Vec::new(),
        }
    }
}

fn replay<D: Draft>(
    mut draft: D,
    contributions: &[Contributed<D>],
    failed: &[DraftError],
    problems: &mut Vec<Problem>,
) -> Result<D::Output, DraftError> {
    for entry in contributions {
        if failed.iter().any(|error| error.plugin == entry.plugin) {
            continue;
        }
        draft.begin(&entry.plugin, entry.registration);
        draft.changes(entry.changes);
        catch_unwind(AssertUnwindSafe(|| (entry.callback)(&mut draft))).map_err(|_| {
            DraftError {
                plugin: entry.plugin.clone(),
                message: "it panicked".into(),
            }
        })?;
    }
    draft.finish(problems)
}

/// A follower of a registry's results or problems, until this is dropped.
pub struct Following<D: Draft> {
    registry: Weak<Shared<D>>,
    id: u64,
}

impl<D: Draft> Drop for Following<D> {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut state = registry.lock();
            let at = state.followers.iter().position(|(id, _)| *id == self.id);
            let follower = at.map(|at| state.followers.remove(at));
            let at = state.observers.iter().position(|(id, _)| *id == self.id);
            let observer = at.map(|at| state.observers.remove(at));
            // What a follower holds may itself end a contribution.
            drop(state);
            drop((follower, observer));
        }
    }
}

/// A facet's side of one kind of contribution.
pub struct Contributions<D: Draft> {
    registry: Weak<Shared<D>>,
    owner: u64,
    scope: FacetScope,
}

impl<D: Draft> Clone for Contributions<D> {
    fn clone(&self) -> Self {
        Contributions {
            registry: Weak::clone(&self.registry),
            owner: self.owner,
            scope: self.scope.clone(),
        }
    }
}

impl<D: Draft> Contributions<D> {
    /// Adds a contribution after all earlier ones. It ends with the facet.
    ///
    /// It runs at each rebuild, its own and others', and must not wait: what takes long is built beforehand. What it
    /// makes while it runs stands for what it made before, until it says itself that it has
    /// [changed](Contribution::changed): a tool that is made inside is the same tool after a rebuild that another
    /// plugin caused.
    pub fn add(&self, contribute: impl Fn(&mut D) + Send + Sync + 'static) -> Contribution<D> {
        let mut registration = 0;
        if let Some(registry) = self.registry.upgrade() {
            let mut state = registry.lock();
            registration = state.number();
            let plugin = self.scope.plugin().clone();
            let callback: Callback<D> = Arc::new(contribute);
            state.contributions.push(Contributed {
                registration,
                owner: self.owner,
                plugin: plugin.clone(),
                changes: 0,
                callback,
            });
            registry.rebuild(&mut state, &Cause::Changed(plugin));
        }
        let registry = Weak::clone(&self.registry);
        self.scope.own(Guard {
            registry: Weak::clone(&registry),
            owner: self.owner,
            registration,
        });
        Contribution {
            registry,
            registration,
        }
    }
}

/// An added contribution.
pub struct Contribution<D: Draft> {
    registry: Weak<Shared<D>>,
    registration: u64,
}

impl<D: Draft> Contribution<D> {
    /// Takes the contribution out before its facet ends. What it hid is there again.
    pub fn dispose(self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.remove(self.registration);
        }
    }

    /// Rebuilds, because what the contribution reads has changed. Nothing happens where it has ended.
    pub fn changed(&self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut state = registry.lock();
            let contributions = &mut state.contributions;
            let found =
                contributions.binary_search_by_key(&self.registration, |entry| entry.registration);
            if let Ok(place) = found {
                let contributed = &mut contributions[place];
                contributed.changes += 1;
                let plugin = contributed.plugin.clone();
                registry.rebuild(&mut state, &Cause::Changed(plugin));
            }
        }
    }
}

/// Ends a contribution with its facet, and at once the facet's others: they have guards of their own, but a
/// rebuild for each would be of no use to anybody.
struct Guard<D: Draft> {
    registry: Weak<Shared<D>>,
    owner: u64,
    registration: u64,
}

impl<D: Draft> Drop for Guard<D> {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut state = registry.lock();
            let removed = state.take(self.owner, self.registration);
            if !removed.is_empty() {
                registry.rebuild(&mut state, &Cause::Renewed);
            }
            // Outside of the lock: what a contribution held may come here when it is dropped.
            drop(state);
            drop(removed);
        }
    }
}

/// Named values of a draft, with the rule for names that two plugins set: the earlier stays.
pub struct Names<V> {
    kind: &'static str,
    current: Option<(PluginId, u64)>,
    // Hashed fast: the names are those of plugins, and there may be thousands in each rebuild.
    values: IndexMap<String, Named<V>, foldhash::fast::RandomState>,
    problems: Vec<Problem>,
}

/// A value with its owner.
#[derive(Debug, Clone)]
pub struct Named<V> {
    /// Who set it.
    pub plugin: PluginId,
    /// The contribution that set it.
    pub registration: u64,
    /// The value.
    pub value: V,
}

impl<V> Names<V> {
    /// No names yet; `kind` is what a person calls such a thing.
    pub fn new(kind: &'static str) -> Self {
        Names {
            kind,
            current: None,
            values: IndexMap::default(),
            problems: Vec::new(),
        }
    }

    /// Makes room for so many names.
    pub fn reserve(&mut self, names: usize) {
        self.values.reserve(names);
    }

    /// Whose contribution comes next.
    pub fn begin(&mut self, plugin: &PluginId, registration: u64) {
        match &mut self.current {
            Some((current, number)) if current == plugin => *number = registration,
            current => *current = Some((plugin.clone(), registration)),
        }
    }

    /// Sets a name; refused with a problem where another plugin has set it.
    pub fn set(&mut self, name: &str, value: V) {
        let (plugin, registration) = self.contributor();
        match self.values.entry(name.to_owned()) {
            Entry::Occupied(kept) if kept.get().plugin != plugin => {
                self.problems.push(Problem::Conflict {
                    kind: self.kind,
                    name: name.into(),
                    kept: kept.get().plugin.clone(),
                    refused: plugin,
                });
            }
            entry => {
                entry.insert_entry(Named {
                    plugin,
                    registration,
                    value,
                });
            }
        }
    }

    /// Sets a name on purpose, whoever has set it before.
    pub fn replace(&mut self, name: &str, value: V) {
        let (plugin, registration) = self.contributor();
        let named = Named {
            plugin,
            registration,
            value,
        };
        self.values.insert(name.to_owned(), named);
    }

    /// Takes a name out. False where nobody had set it.
    pub fn remove(&mut self, name: &str) -> bool {
        self.values.shift_remove(name).is_some()
    }

    /// What a name stands for so far.
    pub fn get(&self, name: &str) -> Option<&Named<V>> {
        self.values.get(name)
    }

    /// The names so far, in order of first setting.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Where in the order a name is.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.values.get_index_of(name)
    }

    /// Everything in order, and the conflicts.
    pub fn finish(
        self,
        problems: &mut Vec<Problem>,
    ) -> impl ExactSizeIterator<Item = (String, Named<V>)> + DoubleEndedIterator + use<V> {
        problems.extend(self.problems);
        self.values.into_iter()
    }

    /// Whose contribution runs now.
    pub fn contributor(&self) -> (PluginId, u64) {
        self.current
            .clone()
            .expect("a registry says whose contribution comes before it runs one")
    }
}
