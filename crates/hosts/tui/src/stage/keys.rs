//! Chords: what has been typed of one, and what it may become.

use std::sync::Arc;

use bezel_api_tui::backend::Registries;
use bezel_api_tui::{BindingEntry, KeyStroke, Layer};
use tokio::sync::watch;

/// What typed strokes come to.
pub(super) enum Match {
    /// No chord begins like this.
    Nothing,
    /// One may follow.
    Begun,
    /// That one.
    Complete(BindingEntry),
}

/// All bindings, and the strokes of a chord that has begun.
pub(super) struct Keys {
    changed: watch::Receiver<Arc<Vec<BindingEntry>>>,
    bindings: Vec<BindingEntry>,
    typed: Vec<KeyStroke>,
}

impl Keys {
    pub(super) fn new(registries: &Registries) -> Self {
        let bindings = registries.bindings();
        Keys {
            bindings,
            changed: registries.bindings_changed(),
            typed: Vec::new(),
        }
    }

    /// Takes note of changed contributions.
    pub(super) fn follow(&mut self, registries: &Registries) {
        if self.changed.has_changed().unwrap_or(false) {
            self.changed.mark_unchanged();
            self.bindings = registries.bindings();
        }
    }

    /// Whether a chord has begun.
    pub(super) fn is_pending(&self) -> bool {
        !self.typed.is_empty()
    }

    /// Gives a begun chord up.
    pub(super) fn give_up(&mut self) {
        self.typed.clear();
    }

    /// What may follow on the strokes so far: the rest of the chord, and its command.
    pub(super) fn continuations(&self) -> Vec<(String, Arc<str>)> {
        let begun = self
            .bindings
            .iter()
            .filter(|binding| binding.is_active() && binding.chord.starts_with(&self.typed));
        let rest = |binding: &BindingEntry| {
            let strokes = &binding.chord.strokes()[self.typed.len()..];
            strokes
                .iter()
                .map(KeyStroke::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        begun
            .map(|binding| (rest(binding), Arc::clone(&binding.command)))
            .collect()
    }

    /// The strokes so far, as people read them.
    pub(super) fn typed(&self) -> String {
        self.typed
            .iter()
            .map(KeyStroke::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Adds a stroke and looks for a binding of `layer`; a chord that has begun belongs to every layer.
    pub(super) fn press(&mut self, stroke: KeyStroke, layer: Layer) -> Match {
        let any_layer = self.is_pending();
        self.typed.push(stroke);
        let fits = |binding: &&BindingEntry| {
            (any_layer || binding.layer == layer)
                && binding.chord.starts_with(&self.typed)
                && binding.is_active()
        };
        let complete = |binding: &&BindingEntry| binding.chord.strokes().len() == self.typed.len();
        let rank = |binding: &&BindingEntry| (binding.plugin.is_some(), !binding.is_conditional());
        let found = self
            .bindings
            .iter()
            .filter(fits)
            .filter(complete)
            .min_by_key(rank)
            .cloned();
        if let Some(binding) = found {
            self.typed.clear();
            return Match::Complete(binding);
        }
        if self.bindings.iter().any(|binding| fits(&binding)) {
            return Match::Begun;
        }
        self.typed.clear();
        Match::Nothing
    }
}
