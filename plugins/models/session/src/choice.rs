//! Which model a session begins with, and what a name that is not there was meant to be.

use bezel_api_session::ProviderSet;
use bezel_session_types::{ModelRef, ThinkingLevel};

/// The wanted model, whether it can be used or not: a request to it says what is wrong. Without a wish,
/// the first model that can be used.
pub(crate) fn initial(providers: &ProviderSet, wanted: Option<&ModelRef>) -> Option<ModelRef> {
    match wanted {
        Some(model) => Some(model.clone()),
        None => providers
            .available_models()
            .next()
            .map(|spec| spec.model.clone()),
    }
}

/// Off where the model cannot reason. A model that the catalogue does not know keeps the wish.
pub(crate) fn thinking(
    providers: &ProviderSet,
    model: Option<&ModelRef>,
    wanted: ThinkingLevel,
) -> ThinkingLevel {
    match model.and_then(|model| providers.model(model)) {
        Some(spec) if !spec.reasoning => ThinkingLevel::Off,
        _ => wanted,
    }
}

/// The level after `level`, around.
pub(crate) fn next(level: ThinkingLevel) -> ThinkingLevel {
    match level {
        ThinkingLevel::Off => ThinkingLevel::Low,
        ThinkingLevel::Low => ThinkingLevel::Medium,
        ThinkingLevel::Medium => ThinkingLevel::High,
        ThinkingLevel::High => ThinkingLevel::Off,
    }
}

/// The available model whose name is nearest to `model`, if one is near.
pub(crate) fn suggestion(providers: &ProviderSet, model: &ModelRef) -> Option<ModelRef> {
    let text = model.to_string();
    let scored = providers.available_models().map(|spec| {
        (
            strsim::jaro_winkler(&spec.model.to_string(), &text),
            &spec.model,
        )
    });
    scored
        .filter(|(score, _)| *score > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, model)| model.clone())
}
