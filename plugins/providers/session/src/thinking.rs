//! How a model's reasoning is steered.

use bezel_session_types::ThinkingLevel;
use serde::Deserialize;

use crate::config::ProviderConfig;
use crate::kind::{ProviderKind, Wire};

/// What a model can be told about its reasoning. All empty: it does not reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Steering {
    /// The words it takes.
    pub(crate) efforts: Vec<Effort>,
    /// Smallest and largest number of tokens.
    pub(crate) budget: Option<[u64; 2]>,
    /// Whether it can be turned off and on, apart from the above.
    pub(crate) toggle: bool,
    /// It reasons, and nothing can be said about it.
    pub(crate) always: bool,
}

/// How hard to think, in the words that providers use, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

const USUAL: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

impl Effort {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        }
    }
}

impl Steering {
    pub(crate) fn reasons(&self) -> bool {
        *self != Steering::default()
    }

    /// The effort for a level, the nearest that the model takes; for `off` the weakest.
    pub(crate) fn effort(&self, level: ThinkingLevel) -> Option<Effort> {
        let wanted = match level {
            ThinkingLevel::Off => return self.efforts.iter().copied().min(),
            ThinkingLevel::Low => Effort::Low,
            ThinkingLevel::Medium => Effort::Medium,
            ThinkingLevel::High => Effort::High,
        };
        let thinks = self
            .efforts
            .iter()
            .copied()
            .filter(|effort| *effort > Effort::None);
        // At equal distance the stronger wins.
        thinks.min_by_key(|effort| {
            (
                (*effort as i32 - wanted as i32).abs(),
                std::cmp::Reverse(*effort),
            )
        })
    }

    /// The number of tokens for a level, within what the model takes; for `off` the smallest.
    pub(crate) fn tokens(&self, level: ThinkingLevel) -> Option<u64> {
        let [smallest, largest] = self.budget?;
        let wanted = match level {
            ThinkingLevel::Off => smallest,
            ThinkingLevel::Low => 4_096,
            ThinkingLevel::Medium => 12_288,
            ThinkingLevel::High => 32_768,
        };
        Some(wanted.clamp(smallest, largest.max(smallest)))
    }

    /// What is known of a model's reasoning; `level` decides for a model of which nothing is known.
    pub(crate) fn of(config: &ProviderConfig, model_id: &str, level: ThinkingLevel) -> Steering {
        let told = config
            .models
            .iter()
            .find(|model| model.id == model_id)
            .and_then(|model| model.reasoning);
        let known = config.known(model_id).map(|known| &known.thinking);
        match (told, known) {
            (Some(false), _) => Steering::default(),
            (_, Some(known)) if known.reasons() || told.is_none() => known.clone(),
            (None, None) if level == ThinkingLevel::Off => Steering::default(),
            _ => Steering::usual(config.kind, model_id),
        }
    }

    /// What models of a kind usually take.
    fn usual(kind: ProviderKind, model_id: &str) -> Steering {
        let efforts = Steering {
            efforts: USUAL.to_vec(),
            ..Steering::default()
        };
        let budget = |smallest| Steering {
            budget: Some([smallest, 32_768]),
            ..Steering::default()
        };
        match kind.facts().wire {
            Wire::Anthropic if takes_budget(model_id) || kind != ProviderKind::Anthropic => {
                budget(1_024)
            }
            Wire::Gemini if model_id.starts_with("gemini-2") => budget(128),
            _ => efforts,
        }
    }
}

/// Claude models before 4.6, which are given a number of tokens; later ones are given an effort.
fn takes_budget(model_id: &str) -> bool {
    ["claude-3", "-4-0", "-4-1", "-4-2", "-4-5"]
        .iter()
        .any(|part| model_id.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;

    #[test]
    fn the_nearest_effort_is_taken() {
        let steering = |efforts: &[Effort]| Steering {
            efforts: efforts.to_vec(),
            ..Steering::default()
        };
        let gpt = steering(&[
            Effort::None,
            Effort::Low,
            Effort::Medium,
            Effort::High,
            Effort::Xhigh,
        ]);
        assert_eq!(gpt.effort(ThinkingLevel::Off), Some(Effort::None));
        assert_eq!(gpt.effort(ThinkingLevel::High), Some(Effort::High));
        let few = steering(&[Effort::High, Effort::Max]);
        assert_eq!(few.effort(ThinkingLevel::Low), Some(Effort::High));
        let pair = steering(&[Effort::None, Effort::High]);
        assert_eq!(
            pair.effort(ThinkingLevel::Low),
            Some(Effort::High),
            "never none when some was asked for"
        );
        assert_eq!(
            steering(&[Effort::Low, Effort::High]).effort(ThinkingLevel::Medium),
            Some(Effort::High)
        );
        assert_eq!(Steering::default().effort(ThinkingLevel::High), None);
    }

    #[test]
    fn tokens_stay_within_what_the_model_takes() {
        let steering = Steering {
            budget: Some([512, 24_576]),
            ..Steering::default()
        };
        assert_eq!(steering.tokens(ThinkingLevel::Off), Some(512));
        assert_eq!(steering.tokens(ThinkingLevel::High), Some(24_576));
    }

    #[test]
    fn configuration_outdoes_the_catalogue_and_the_kind_fills_in() {
        let mut config = ProviderConfig::of_kind("a", ProviderKind::Anthropic);
        let of = |config: &ProviderConfig, id, level| Steering::of(config, id, level);
        assert!(
            of(&config, "claude-sonnet-4-5", ThinkingLevel::Off)
                .budget
                .is_some()
        );
        assert_eq!(
            of(&config, "claude-next", ThinkingLevel::Off),
            Steering::default()
        );
        assert!(
            !of(&config, "claude-next", ThinkingLevel::Low)
                .efforts
                .is_empty()
        );
        assert!(
            of(&config, "claude-3-7-sonnet-20250219", ThinkingLevel::Low)
                .budget
                .is_some()
        );
        let plain = ModelConfig {
            id: "claude-sonnet-4-5".into(),
            reasoning: Some(false),
            ..ModelConfig::default()
        };
        config.models.push(plain);
        assert_eq!(
            of(&config, "claude-sonnet-4-5", ThinkingLevel::High),
            Steering::default()
        );
    }
}
