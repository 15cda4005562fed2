//! Help: every key and command, gathered from bindings, commands and what views tell of themselves.

use std::sync::Arc;

use bezel_plugin::{Contributions, Draft, DraftError, FacetScope, PluginId, Problem, Registry};

use crate::Chord;
use crate::ChordError;
use crate::commands::CommandEntry;
use crate::keybindings::BindingEntry;

/// One line of help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpEntry {
    /// The keys, as people read them; several separated by a comma. Empty for a command without one.
    pub keys: String,
    /// What they do.
    pub text: Arc<str>,
    /// The slash name, where there is one.
    pub slash: Option<Arc<str>>,
}

/// Lines of help that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpGroup {
    /// Where the keys work: `Composer`, `Transcript`.
    pub title: Arc<str>,
    /// The lines.
    pub entries: Vec<HelpEntry>,
}

/// The help of views under construction.
#[derive(Default)]
pub struct HelpDraft(Vec<HelpGroup>);

impl HelpDraft {
    /// Describes a key that a view handles itself.
    pub fn describe(&mut self, group: &str, keys: &[Chord], text: &str) {
        let keys = keys
            .iter()
            .map(Chord::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let entry = HelpEntry {
            keys,
            text: text.into(),
            slash: None,
        };
        match self.0.iter_mut().find(|known| &*known.title == group) {
            Some(known) => known.entries.push(entry),
            None => self.0.push(HelpGroup {
                title: group.into(),
                entries: vec![entry],
            }),
        }
    }
}

impl Draft for HelpDraft {
    type Output = Vec<HelpGroup>;

    fn new() -> Self {
        HelpDraft::default()
    }

    fn begin(&mut self, _plugin: &PluginId, _registration: u64) {}

    fn finish(self, _problems: &mut Vec<Problem>) -> Result<Vec<HelpGroup>, DraftError> {
        Ok(self.0)
    }
}

/// A facet's part of the help. Commands and keybindings are in it without being described here.
#[derive(Clone)]
pub struct Help {
    contributions: Contributions<HelpDraft>,
}

impl Help {
    pub(crate) fn new(registry: &Registry<HelpDraft>, scope: &FacetScope) -> Self {
        Help {
            contributions: registry.contributions(scope),
        }
    }

    /// Describes keys that a view handles itself: pairs of chords, separated by commas, and what they do.
    pub fn add(&self, group: &'static str, keys: &[(&str, &str)]) -> Result<(), ChordError> {
        let parse = |(chords, text): &(&str, &str)| {
            let chords: Result<Vec<Chord>, _> = chords.split(", ").map(str::parse).collect();
            Ok((chords?, text.to_string()))
        };
        let entries: Vec<(Vec<Chord>, String)> =
            keys.iter().map(parse).collect::<Result<_, ChordError>>()?;
        self.contributions.add(move |draft| {
            for (chords, text) in &entries {
                draft.describe(group, chords, text);
            }
        });
        Ok(())
    }
}

/// Everything there is to know about keys: groups of views first, then commands with key or slash name.
pub(crate) fn gather(
    views: &[HelpGroup],
    commands: &[CommandEntry],
    bindings: &[BindingEntry],
) -> Vec<HelpGroup> {
    let mut groups = views.to_vec();
    let mut entries = Vec::new();
    for command in commands {
        let chords = bindings
            .iter()
            .filter(|binding| binding.command == command.id);
        let keys = chords
            .map(|binding| binding.chord.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        if keys.is_empty() && command.hidden {
            continue;
        }
        entries.push(HelpEntry {
            keys,
            text: Arc::clone(&command.title),
            slash: command.slash.clone(),
        });
    }
    if !entries.is_empty() {
        groups.push(HelpGroup {
            title: "Commands".into(),
            entries,
        });
    }
    groups
}
