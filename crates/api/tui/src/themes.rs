//! Themes that a person can choose from.

use std::sync::Arc;

use bezel_plugin::{
    Contributions, Draft, DraftError, FacetScope, Names, PluginId, Problem, Registry,
};
use bezel_presentation::theme::Theme;
use serde::{Deserialize, Serialize};

use crate::backend::{Request, UiBackend};

/// Which theme is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ThemeChoice {
    /// The built-in one that fits the terminal's background.
    #[default]
    Auto,
    /// The built-in one for dark backgrounds.
    Dark,
    /// The built-in one for light backgrounds.
    Light,
    /// One by name; the built-in one that fits stands in while no plugin has it.
    Named(Arc<str>),
}

impl From<String> for ThemeChoice {
    fn from(name: String) -> Self {
        match name.as_str() {
            "auto" => ThemeChoice::Auto,
            "dark" => ThemeChoice::Dark,
            "light" => ThemeChoice::Light,
            name => ThemeChoice::Named(name.into()),
        }
    }
}

impl From<ThemeChoice> for String {
    fn from(choice: ThemeChoice) -> Self {
        match choice {
            ThemeChoice::Auto => "auto".into(),
            ThemeChoice::Dark => "dark".into(),
            ThemeChoice::Light => "light".into(),
            ThemeChoice::Named(name) => name.to_string(),
        }
    }
}

/// The themes under construction.
pub struct ThemeDraft(Names<Theme>);

impl ThemeDraft {
    /// Sets a theme under its name; refused where another plugin has one of that name.
    pub fn set(&mut self, theme: Theme) {
        let name = theme.name().to_owned();
        self.0.set(&name, theme);
    }

    /// Sets a theme on purpose, whoever has set it before.
    pub fn replace(&mut self, theme: Theme) {
        let name = theme.name().to_owned();
        self.0.replace(&name, theme);
    }
}

impl Draft for ThemeDraft {
    type Output = Vec<Theme>;

    fn new() -> Self {
        ThemeDraft(Names::new("theme"))
    }

    fn begin(&mut self, plugin: &PluginId, registration: u64) {
        self.0.begin(plugin, registration);
    }

    fn finish(self, problems: &mut Vec<Problem>) -> Result<Vec<Theme>, DraftError> {
        Ok(self
            .0
            .finish(problems)
            .map(|(_, named)| named.value)
            .collect())
    }
}

/// A facet's themes, and everybody's to list and choose.
#[derive(Clone)]
pub struct Themes {
    contributions: Contributions<ThemeDraft>,
    registry: Registry<ThemeDraft>,
    backend: Arc<dyn UiBackend>,
}

impl Themes {
    pub(crate) fn new(
        registry: &Registry<ThemeDraft>,
        scope: &FacetScope,
        backend: Arc<dyn UiBackend>,
    ) -> Self {
        Themes {
            contributions: registry.contributions(scope),
            registry: registry.clone(),
            backend,
        }
    }

    /// Adds a theme to choose from.
    pub fn add(&self, theme: Theme) {
        self.contributions
            .add(move |draft| draft.set(theme.clone()));
    }

    /// Contributes to the draft of all themes.
    pub fn contribute(&self, contribute: impl Fn(&mut ThemeDraft) + Send + Sync + 'static) {
        self.contributions.add(contribute);
    }

    /// The themes that plugins added, in order; the built-in ones are `Dark` and `Light`.
    pub fn list(&self) -> Vec<Theme> {
        self.registry.current().as_ref().clone()
    }

    /// Uses a theme from the next frame on.
    pub fn select(&self, choice: ThemeChoice) {
        self.backend.post(Request::SelectTheme(choice));
    }
}
