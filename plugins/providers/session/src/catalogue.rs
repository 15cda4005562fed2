//! The built-in catalogue: well-known models as data.
//!
//! `catalogue.json` has one line a model, in the order in which they are offered. Prices are US dollars per
//! million tokens: input, output, read from the cache, written to the cache; those above a provider's
//! long-context threshold are higher and not kept. JSON, because it is read at every start: TOML took five
//! times as long.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bezel_session_types::{ModelRef, ModelSpec, Prices};
use serde::Deserialize;

use crate::config::ProviderConfig;
use crate::kind::ProviderKind;
use crate::thinking::Steering;

static MODELS: &str = include_str!("catalogue.json");

/// The providers that are there without configuration, in the order in which they are offered. The name
/// `openai` speaks Responses, OpenAI's own choice for agents; `kind = "openai"` is for what is compatible.
const BUILT_IN: [(&str, ProviderKind); 11] = [
    ("anthropic", ProviderKind::Anthropic),
    ("openai", ProviderKind::OpenAiResponses),
    ("gemini", ProviderKind::Gemini),
    ("openrouter", ProviderKind::OpenRouter),
    ("deepseek", ProviderKind::DeepSeek),
    ("xai", ProviderKind::Xai),
    ("groq", ProviderKind::Groq),
    ("mistral", ProviderKind::Mistral),
    ("moonshot", ProviderKind::Moonshot),
    ("zai", ProviderKind::Zai),
    ("ollama", ProviderKind::Ollama),
];

/// One line of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownModel {
    id: String,
    name: String,
    context: u64,
    output: u64,
    #[serde(default)]
    images: bool,
    prices: Option<[f64; 4]>,
    #[serde(default)]
    pub(crate) thinking: Steering,
}

impl KnownModel {
    pub(crate) fn spec(&self, model: ModelRef) -> ModelSpec {
        ModelSpec {
            model,
            name: self.name.clone(),
            reasoning: self.thinking.reasons(),
            images: self.images,
            context: self.context,
            max_output: self.output,
            prices: self
                .prices
                .map(|[input, output, cache_read, cache_write]| Prices {
                    input,
                    output,
                    cache_read,
                    cache_write,
                }),
        }
    }
}

/// The models of each provider, read at first use.
static KNOWN: LazyLock<BTreeMap<String, Vec<KnownModel>>> = LazyLock::new(|| {
    serde_json::from_str(MODELS).expect("the embedded catalogue is valid: a test reads it")
});

/// The providers that are there without configuration.
pub fn built_in() -> Vec<ProviderConfig> {
    BUILT_IN
        .iter()
        .map(|(name, kind)| ProviderConfig::of_kind(*name, *kind))
        .collect()
}

/// The well-known models of a built-in provider, in the order in which they are offered.
pub(crate) fn models_of(provider: &str) -> impl Iterator<Item = ModelSpec> {
    let is_built_in = BUILT_IN.iter().any(|(name, _)| *name == provider);
    let models = KNOWN.get(provider).filter(|_| is_built_in);
    models.into_iter().flatten().map(move |model| {
        model.spec(ModelRef {
            provider: provider.into(),
            model_id: model.id.clone(),
        })
    })
}

/// The well-known models of the built-in providers, in the order in which they are offered.
pub fn catalogue() -> Vec<ModelSpec> {
    BUILT_IN
        .iter()
        .flat_map(|(name, _)| models_of(name))
        .collect()
}

/// What is known of a model that providers of this kind serve.
pub(crate) fn known(kind: ProviderKind, id: &str) -> Option<&'static KnownModel> {
    let name = if kind == ProviderKind::OpenAiResponses {
        ProviderKind::OpenAi.name()
    } else {
        kind.name()
    };
    let models = KNOWN.get(name)?;
    // A dated id is the model that it is a snapshot of: `claude-sonnet-4-5-20250929`, `gpt-5.1-2025-11-13`.
    models.iter().find(|model| model.id == id).or_else(|| {
        models
            .iter()
            .find(|model| id.strip_prefix(model.id.as_str()).is_some_and(is_date))
    })
}

fn is_date(suffix: &str) -> bool {
    let digits = suffix.bytes().filter(u8::is_ascii_digit).count();
    digits == 8
        && suffix.starts_with('-')
        && suffix
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_catalogue_reads_and_every_fact_is_plausible() {
        let models = catalogue();
        assert!(models.len() > 60, "{}", models.len());
        assert_eq!(
            models.len(),
            KNOWN.values().map(Vec::len).sum::<usize>(),
            "a provider is not built in"
        );
        let names: BTreeSet<_> = models.iter().map(|model| model.model.to_string()).collect();
        assert_eq!(names.len(), models.len(), "a model is listed twice");
        for model in &models {
            assert!(
                model.context >= 8_192 && model.max_output >= 4_096,
                "{model:?}"
            );
            let prices = model.prices.unwrap();
            assert!(
                prices.cache_read <= prices.input && prices.input <= prices.output,
                "{model:?}"
            );
        }
        assert_eq!(models[0].model.provider, "anthropic");
    }

    #[test]
    fn a_snapshot_is_known_by_its_model() {
        let known = |id| known(ProviderKind::Anthropic, id).map(|model| model.id.as_str());
        assert_eq!(
            known("claude-sonnet-4-5-20250929"),
            Some("claude-sonnet-4-5")
        );
        assert_eq!(known("claude-sonnet-4-5-turbo"), None);
        assert!(super::known(ProviderKind::OpenAi, "gpt-5.1-2025-11-13").is_some());
    }
}
