//! The system prompt as ordered sections.

use bezel_plugin::{Draft, DraftError, Names, PluginId, Problem};
use bezel_session_types::PromptSection;

/// The system prompt under construction.
pub struct PromptDraft(Names<String>);

/// A finished system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// All sections, separated by blank lines.
    pub text: String,
    /// The sections, in order; none is blank.
    pub sections: Vec<PromptSection>,
}

impl PromptDraft {
    /// Adds a section after the earlier ones. `name` is for people and for replacing.
    pub fn set(&mut self, name: &str, text: impl Into<String>) {
        self.0.set(name, text.into());
    }

    /// Sets a section on purpose, whoever has set it before.
    pub fn replace(&mut self, name: &str, text: impl Into<String>) {
        self.0.replace(name, text.into());
    }

    /// Takes a section out. False where nobody had set it.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name)
    }
}

impl Draft for PromptDraft {
    type Output = SystemPrompt;

    fn new() -> Self {
        PromptDraft(Names::new("prompt section"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<SystemPrompt, DraftError> {
        let sections = self.0.finish(problems).map(|(name, named)| PromptSection {
            name,
            plugin: named.plugin.to_string(),
            text: named.value,
        });
        let sections: Vec<PromptSection> = sections
            .filter(|section| !section.text.trim().is_empty())
            .collect();
        let texts: Vec<&str> = sections.iter().map(|section| &*section.text).collect();
        Ok(SystemPrompt {
            text: texts.join("\n\n"),
            sections,
        })
    }
}
