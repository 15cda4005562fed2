//! The chosen model in the status line.

use bezel_models_contract::ModelsState;
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_session_types::ThinkingLevel;

/// Model and thinking level.
pub(crate) fn line(state: &ModelsState) -> StyledLine {
    let Some(model) = &state.configuration.model else {
        return StyledLine::new("no model: choose one with /model", Role::Warning);
    };
    let spec = state
        .catalog
        .available_models
        .iter()
        .find(|spec| spec.model == *model);
    let name = spec.map_or(model.model_id.as_str(), |spec| spec.name.as_str());
    let mut line = StyledLine::new(name.to_owned(), Role::Muted);
    if state.configuration.thinking_level != ThinkingLevel::Off {
        line.push(StyledSpan::new(
            format!(" {}", level(state.configuration.thinking_level)),
            Role::AccentAlternate,
        ));
    }
    line
}

/// A thinking level in a word.
pub(crate) fn level(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off => "off",
        ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High => "high",
    }
}
