//! Keybindings: chords that start commands.

use std::sync::Arc;

use bezel_plugin::{Contributions, Draft, DraftError, FacetScope, PluginId, Problem, Registry};

use crate::{Chord, ChordError, CommandArguments};

/// When a binding is tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Before the view that has the focus; for keys that must work whatever is shown. Dialogs still come first.
    BeforeViews,
    /// After no view wanted the key.
    #[default]
    AfterViews,
}

/// A chord and the command that it starts.
#[derive(Clone)]
pub struct Binding {
    chord: Chord,
    command: Arc<str>,
    arguments: CommandArguments,
    layer: Layer,
    when: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    replace: bool,
}

impl Binding {
    /// Binds a chord (`ctrl+t`, `ctrl+x s`) to a command id.
    pub fn new(chord: &str, command: &str) -> Result<Self, ChordError> {
        Ok(Binding {
            chord: chord.parse()?,
            command: command.into(),
            arguments: CommandArguments::default(),
            layer: Layer::default(),
            when: None,
            replace: false,
        })
    }

    /// What the command gets.
    #[must_use]
    pub fn arguments(mut self, arguments: CommandArguments) -> Self {
        self.arguments = arguments;
        self
    }

    /// Tried before the focused view.
    #[must_use]
    pub fn before_views(mut self) -> Self {
        self.layer = Layer::BeforeViews;
        self
    }

    /// Holds only while `condition` does; otherwise the chord is free for others.
    #[must_use]
    pub fn when(mut self, condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(condition));
        self
    }

    /// Takes the chord from whichever plugin had it.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }
}

/// A binding as others see it.
#[derive(Clone)]
pub struct BindingEntry {
    /// The keys.
    pub chord: Chord,
    /// The command that they start.
    pub command: Arc<str>,
    /// What the command gets.
    pub arguments: CommandArguments,
    /// When it is tried.
    pub layer: Layer,
    /// Whose it is; none for the person's own configuration.
    pub plugin: Option<PluginId>,
    when: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl BindingEntry {
    /// Whether it has a condition; such a binding is tried before one that always holds.
    pub fn is_conditional(&self) -> bool {
        self.when.is_some()
    }

    /// Whether its condition holds now.
    pub fn is_active(&self) -> bool {
        self.when.as_ref().is_none_or(|when| when())
    }
}

/// The bindings under construction.
pub struct BindingDraft {
    contributor: Option<PluginId>,
    bindings: Vec<BindingEntry>,
    problems: Vec<Problem>,
}

impl BindingDraft {
    /// Sets a binding. An unconditional one is refused where another plugin has bound the chord
    /// unconditionally in the same layer, unless it replaces.
    pub fn set(&mut self, binding: Binding) {
        let plugin = self.contributor.clone();
        let same =
            |other: &BindingEntry| other.chord == binding.chord && other.layer == binding.layer;
        if binding.replace {
            self.bindings.retain(|other| !same(other));
        } else if binding.when.is_none() {
            let taken = self
                .bindings
                .iter()
                .find(|other| same(other) && other.when.is_none());
            if let (Some(kept), Some(refused)) =
                (taken.and_then(|other| other.plugin.clone()), plugin.clone())
                && kept != refused
            {
                let name = binding.chord.to_string();
                self.problems.push(Problem::Conflict {
                    kind: "key",
                    name,
                    kept,
                    refused,
                });
                return;
            }
        }
        self.bindings.push(BindingEntry {
            chord: binding.chord,
            command: binding.command,
            arguments: binding.arguments,
            layer: binding.layer,
            plugin,
            when: binding.when,
        });
    }

    /// Frees a chord, whoever has bound it.
    pub fn remove(&mut self, chord: &Chord) {
        self.bindings.retain(|binding| binding.chord != *chord);
    }
}

impl Draft for BindingDraft {
    type Output = Vec<BindingEntry>;

    fn new() -> Self {
        BindingDraft {
            contributor: None,
            bindings: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn begin(&mut self, plugin: &PluginId, _registration: u64) {
        self.contributor = Some(plugin.clone());
    }

    fn finish(mut self, problems: &mut Vec<Problem>) -> Result<Vec<BindingEntry>, DraftError> {
        problems.append(&mut self.problems);
        Ok(self.bindings)
    }
}

/// A person's own keybindings: chords with the commands that they start, or none to free them.
pub(crate) type OwnBindings = Arc<[(Chord, Option<Arc<str>>)]>;

/// A facet's keybindings, and everybody's to list.
#[derive(Clone)]
pub struct Keybindings {
    contributions: Contributions<BindingDraft>,
    registry: Registry<BindingDraft>,
    own: OwnBindings,
}

impl Keybindings {
    pub(crate) fn new(
        registry: &Registry<BindingDraft>,
        own: OwnBindings,
        scope: &FacetScope,
    ) -> Self {
        Keybindings {
            contributions: registry.contributions(scope),
            registry: registry.clone(),
            own,
        }
    }

    /// Adds a binding. Conditional ones come before unconditional ones of the same chord.
    pub fn add(&self, binding: Binding) {
        self.contributions
            .add(move |draft| draft.set(binding.clone()));
    }

    /// Contributes to the draft of all bindings: to replace or take out those of earlier plugins.
    pub fn contribute(&self, contribute: impl Fn(&mut BindingDraft) + Send + Sync + 'static) {
        self.contributions.add(contribute);
    }

    /// All bindings: the person's own first, then those of plugins in order.
    pub fn list(&self) -> Vec<BindingEntry> {
        with_own(&self.registry.current(), &self.own)
    }

    /// The first chord that starts a command.
    pub fn chord_of(&self, command: &str) -> Option<Chord> {
        let own = self
            .own
            .iter()
            .find(|(_, own)| own.as_deref() == Some(command));
        if let Some((chord, _)) = own {
            return Some(chord.clone());
        }
        let current = self.registry.current();
        let free = |chord: &Chord| self.own.iter().all(|(own, _)| own != chord);
        let mut bound = current
            .iter()
            .filter(|binding| &*binding.command == command);
        bound
            .find(|binding| free(&binding.chord))
            .map(|binding| binding.chord.clone())
    }
}

/// A person's own bindings over those of the plugins: each takes its chord from all others; `None` frees it.
pub(crate) fn with_own(
    bindings: &[BindingEntry],
    own: &[(Chord, Option<Arc<str>>)],
) -> Vec<BindingEntry> {
    let kept = bindings
        .iter()
        .filter(|binding| own.iter().all(|(chord, _)| *chord != binding.chord))
        .cloned();
    let added = own.iter().filter_map(|(chord, command)| {
        Some(BindingEntry {
            chord: chord.clone(),
            command: Arc::clone(command.as_ref()?),
            arguments: CommandArguments::default(),
            layer: Layer::BeforeViews,
            plugin: None,
            when: None,
        })
    });
    added.chain(kept).collect()
}
