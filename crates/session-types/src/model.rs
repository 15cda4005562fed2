//! Models: how they are named, what they can do, what they cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model of a provider. As text: `provider::model`.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ModelRef {
    /// The provider's name in the catalogue or configuration.
    pub provider: String,
    /// The provider's own id of the model.
    pub model_id: String,
}

/// Text that is not `provider::model`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a model name: write PROVIDER::MODEL, for example `anthropic::claude-sonnet-4-5`"
)]
pub struct ModelRefError(pub String);

impl std::str::FromStr for ModelRef {
    type Err = ModelRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("::") {
            Some((provider, model_id)) if !provider.is_empty() && !model_id.is_empty() => {
                Ok(ModelRef {
                    provider: provider.into(),
                    model_id: model_id.into(),
                })
            }
            _ => Err(ModelRefError(text.into())),
        }
    }
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}::{}", self.provider, self.model_id)
    }
}

/// How much a model reasons before it answers.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingLevel {
    /// Not at all, or as little as the model allows.
    #[default]
    Off,
    /// A little.
    Low,
    /// The provider's middle.
    Medium,
    /// As much as it can.
    High,
}

/// What a catalogue knows of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSpec {
    /// Its name.
    #[serde(flatten)]
    pub model: ModelRef,
    /// For people.
    pub name: String,
    /// Whether it can reason.
    pub reasoning: bool,
    /// Whether it sees pictures.
    pub images: bool,
    /// Context window in tokens; 0 when unknown.
    pub context: u64,
    /// Output limit in tokens; 0 when unknown.
    pub max_output: u64,
    /// Prices, where known.
    pub prices: Option<Prices>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prices {
    /// Fresh input.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Input written to the provider's cache.
    pub cache_write: f64,
}

/// Tokens of one request. `input` excludes what was read from or written to the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Fresh input tokens.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
    /// The part of `output` spent on reasoning, where told.
    pub reasoning: u64,
}

/// US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Cost(pub f64);

impl Usage {
    /// All tokens that went in: what the request took of the context window.
    pub fn total_input(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// What these tokens cost at `prices`.
    pub fn cost(&self, prices: &Prices) -> Cost {
        let per_million = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        Cost(
            per_million(self.input, prices.input)
                + per_million(self.output, prices.output)
                + per_million(self.cache_read, prices.cache_read)
                + per_million(self.cache_write, prices.cache_write),
        )
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.reasoning += other.reasoning;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_name_reads_back_and_a_wrong_one_says_how() {
        let model: ModelRef = "local::org/qwen3:8b".parse().unwrap();
        assert_eq!(
            (model.provider.as_str(), model.model_id.as_str()),
            ("local", "org/qwen3:8b")
        );
        assert_eq!(model.to_string().parse(), Ok(model));
        let error = "gpt-5".parse::<ModelRef>().unwrap_err();
        assert!(error.to_string().contains("PROVIDER::MODEL"), "{error}");
    }

    #[test]
    fn cost_counts_each_kind_at_its_own_price() {
        let prices = Prices {
            input: 3.0,
            output: 15.0,
            cache_read: 0.3,
            cache_write: 3.75,
        };
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 10_000,
            cache_write: 20_000,
            reasoning: 5,
        };
        assert!((usage.cost(&prices).0 - (3.0 + 1.5 + 0.003 + 0.075)).abs() < 1e-9);
    }
}
