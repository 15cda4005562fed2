//! The kinds of providers: which wire they speak, where they live, which variable holds their key.

use std::sync::LazyLock;

use genai::adapter::AdapterKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a provider speaks. Anything that speaks a known protocol at another address is that kind with its
/// own `base_url`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// OpenAI chat completions, and whatever is compatible with it.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama on this machine or elsewhere.
    Ollama,
    /// ollama.com.
    OllamaCloud,
    /// AWS Bedrock with a bearer token.
    Bedrock,
    /// Google Vertex AI with an access token.
    Vertex,
    /// Cohere.
    Cohere,
    /// Groq.
    Groq,
    /// xAI.
    Xai,
    /// DeepSeek.
    #[serde(rename = "deepseek")]
    DeepSeek,
    /// Mistral.
    Mistral,
    /// OpenRouter.
    #[serde(rename = "openrouter")]
    OpenRouter,
    /// Together AI.
    Together,
    /// Fireworks AI.
    Fireworks,
    /// Moonshot AI (Kimi).
    Moonshot,
    /// Z.AI (GLM).
    Zai,
    /// Zhipu BigModel (GLM, mainland China).
    #[serde(rename = "bigmodel")]
    BigModel,
    /// MiniMax.
    #[serde(rename = "minimax")]
    MiniMax,
    /// Nebius.
    Nebius,
    /// Cerebras.
    Cerebras,
    /// Alibaba Cloud Model Studio (Qwen, mainland China).
    Aliyun,
    /// Qwen Cloud (Qwen, international).
    QwenCloud,
    /// Baidu Qianfan.
    Baidu,
}

/// How a kind is spoken to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wire {
    /// OpenAI chat completions in some dialect.
    Chat(Dialect),
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `streamGenerateContent`.
    Gemini,
    /// Whatever genai's adapter speaks.
    Genai(AdapterKind),
}

/// What sets one server of chat completions apart from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// How reasoning is asked for.
    pub(crate) reasoning: ReasoningField,
    /// Whether `prompt_cache_key` is understood.
    pub(crate) cache_key: bool,
    /// Whether usage must be asked for with `stream_options`.
    pub(crate) asks_for_usage: bool,
    /// Whether call ids must be nine letters or digits.
    pub(crate) short_call_ids: bool,
}

/// How a chat completions server is asked to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReasoningField {
    /// `reasoning_effort`.
    Effort,
    /// `reasoning_effort`, and `reasoning_format: "parsed"` so that it comes apart from the text.
    ParsedEffort,
    /// `thinking: { type }`, with `reasoning_effort` beside it.
    ThinkingType,
    /// `reasoning: { effort }`.
    Object,
    /// `enable_thinking`.
    EnableThinking,
}

const OPENAI: Dialect = Dialect {
    reasoning: ReasoningField::Effort,
    cache_key: true,
    asks_for_usage: true,
    short_call_ids: false,
};
const COMPATIBLE: Dialect = Dialect {
    cache_key: false,
    ..OPENAI
};
const MISTRAL: Dialect = Dialect {
    asks_for_usage: false,
    short_call_ids: true,
    ..COMPATIBLE
};

/// What is known of a kind.
#[derive(Debug)]
pub(crate) struct KindFacts {
    kind: ProviderKind,
    /// As configuration spells it, and the name of the built-in provider of this kind.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    pub(crate) wire: Wire,
    /// Where it lives; none where that depends on the account.
    pub(crate) base_url: Option<&'static str>,
    /// The variables that hold its key, the first being the one to recommend.
    pub(crate) key_variables: &'static [&'static str],
}

impl KindFacts {
    const fn new(kind: ProviderKind, name: &'static str, label: &'static str, wire: Wire) -> Self {
        KindFacts {
            kind,
            name,
            label,
            wire,
            base_url: None,
            key_variables: &[],
        }
    }

    const fn at(mut self, base_url: &'static str) -> Self {
        self.base_url = Some(base_url);
        self
    }

    const fn keys(mut self, key_variables: &'static [&'static str]) -> Self {
        self.key_variables = key_variables;
        self
    }
}

const fn chat(reasoning: ReasoningField) -> Wire {
    Wire::Chat(Dialect {
        reasoning,
        ..COMPATIBLE
    })
}

#[rustfmt::skip]
static FACTS: [KindFacts; 25] = {
    use ProviderKind as Kind;
    use ReasoningField::{Effort, EnableThinking, Object, ParsedEffort, ThinkingType};
    [
        KindFacts::new(Kind::Anthropic, "anthropic", "Anthropic", Wire::Anthropic)
            .at("https://api.anthropic.com/v1").keys(&["ANTHROPIC_API_KEY"]),
        KindFacts::new(Kind::OpenAi, "openai", "OpenAI chat completions", Wire::Chat(OPENAI))
            .at("https://api.openai.com/v1").keys(&["OPENAI_API_KEY"]),
        KindFacts::new(Kind::OpenAiResponses, "openai-responses", "OpenAI", Wire::Responses)
            .at("https://api.openai.com/v1").keys(&["OPENAI_API_KEY"]),
        KindFacts::new(Kind::Gemini, "gemini", "Google Gemini", Wire::Gemini)
            .at("https://generativelanguage.googleapis.com/v1beta").keys(&["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"]),
        KindFacts::new(Kind::Ollama, "ollama", "Ollama", Wire::Genai(AdapterKind::Ollama))
            .at("http://localhost:11434"),
        KindFacts::new(Kind::OllamaCloud, "ollama-cloud", "Ollama Cloud", Wire::Genai(AdapterKind::OllamaCloud))
            .at("https://ollama.com").keys(&["OLLAMA_API_KEY"]),
        KindFacts::new(Kind::Bedrock, "bedrock", "AWS Bedrock", Wire::Genai(AdapterKind::BedrockApi))
            .keys(&["AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_API_KEY"]),
        KindFacts::new(Kind::Vertex, "vertex", "Google Vertex AI", Wire::Genai(AdapterKind::Vertex))
            .keys(&["VERTEX_API_KEY"]),
        KindFacts::new(Kind::Cohere, "cohere", "Cohere", chat(Effort))
            .at("https://api.cohere.ai/compatibility/v1").keys(&["COHERE_API_KEY", "CO_API_KEY"]),
        KindFacts::new(Kind::Groq, "groq", "Groq", chat(ParsedEffort))
            .at("https://api.groq.com/openai/v1").keys(&["GROQ_API_KEY"]),
        KindFacts::new(Kind::Xai, "xai", "xAI", chat(Effort))
            .at("https://api.x.ai/v1").keys(&["XAI_API_KEY"]),
        KindFacts::new(Kind::DeepSeek, "deepseek", "DeepSeek", chat(ThinkingType))
            .at("https://api.deepseek.com/v1").keys(&["DEEPSEEK_API_KEY"]),
        KindFacts::new(Kind::Mistral, "mistral", "Mistral", Wire::Chat(MISTRAL))
            .at("https://api.mistral.ai/v1").keys(&["MISTRAL_API_KEY"]),
        KindFacts::new(Kind::OpenRouter, "openrouter", "OpenRouter", chat(Object))
            .at("https://openrouter.ai/api/v1").keys(&["OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"]),
        KindFacts::new(Kind::Together, "together", "Together AI", chat(Effort))
            .at("https://api.together.xyz/v1").keys(&["TOGETHER_API_KEY"]),
        KindFacts::new(Kind::Fireworks, "fireworks", "Fireworks AI", chat(Effort))
            .at("https://api.fireworks.ai/inference/v1").keys(&["FIREWORKS_API_KEY"]),
        KindFacts::new(Kind::Moonshot, "moonshot", "Moonshot AI", chat(ThinkingType))
            .at("https://api.moonshot.ai/v1").keys(&["MOONSHOT_API_KEY", "KIMI_API_KEY"]),
        KindFacts::new(Kind::Zai, "zai", "Z.AI", chat(ThinkingType))
            .at("https://api.z.ai/api/paas/v4").keys(&["ZAI_API_KEY", "ZHIPU_API_KEY"]),
        KindFacts::new(Kind::BigModel, "bigmodel", "BigModel", chat(ThinkingType))
            .at("https://open.bigmodel.cn/api/paas/v4").keys(&["BIGMODEL_API_KEY"]),
        KindFacts::new(Kind::MiniMax, "minimax", "MiniMax", Wire::Anthropic)
            .at("https://api.minimax.io/anthropic/v1").keys(&["MINIMAX_API_KEY"]),
        KindFacts::new(Kind::Nebius, "nebius", "Nebius", chat(Effort))
            .at("https://api.tokenfactory.nebius.com/v1").keys(&["NEBIUS_API_KEY"]),
        KindFacts::new(Kind::Cerebras, "cerebras", "Cerebras", chat(Effort))
            .at("https://api.cerebras.ai/v1").keys(&["CEREBRAS_API_KEY"]),
        KindFacts::new(Kind::Aliyun, "aliyun", "Alibaba Cloud", chat(EnableThinking))
            .at("https://dashscope.aliyuncs.com/compatible-mode/v1").keys(&["DASHSCOPE_API_KEY", "ALIYUN_API_KEY"]),
        KindFacts::new(Kind::QwenCloud, "qwen-cloud", "Qwen Cloud", chat(EnableThinking))
            .at("https://dashscope-intl.aliyuncs.com/compatible-mode/v1").keys(&["QWEN_CLOUD_API_KEY"]),
        KindFacts::new(Kind::Baidu, "baidu", "Baidu Qianfan", chat(EnableThinking))
            .at("https://qianfan.baidubce.com/v2").keys(&["BAIDU_API_KEY"]),
    ]
};

impl ProviderKind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = ProviderKind> {
        FACTS.iter().map(|facts| facts.kind)
    }

    /// As configuration spells it.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// For people.
    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// The variables that hold the key of its own endpoint, the first being the one to recommend. Empty
    /// where no key is needed.
    pub fn key_variables(self) -> &'static [&'static str] {
        self.facts().key_variables
    }

    /// Where it lives, unless that depends on the account.
    pub fn base_url(self) -> Option<&'static str> {
        self.facts().base_url
    }

    pub(crate) fn facts(self) -> &'static KindFacts {
        FACTS
            .iter()
            .find(|facts| facts.kind == self)
            .expect("every kind has its row")
    }
}

/// Every variable that is known to hold a provider's key: what a tool's environment must not have.
pub fn key_variables() -> &'static [&'static str] {
    static VARIABLES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let mut variables: Vec<_> = FACTS
            .iter()
            .flat_map(|facts| facts.key_variables)
            .copied()
            .collect();
        variables.sort_unstable();
        variables.dedup();
        variables
    });
    &VARIABLES
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_spelt_as_its_name() {
        let names: BTreeSet<_> = ProviderKind::all().map(ProviderKind::name).collect();
        assert_eq!(names.len(), FACTS.len());
        for kind in ProviderKind::all() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        let unknown = serde_json::from_str::<ProviderKind>(r#""opnai""#)
            .unwrap_err()
            .to_string();
        assert!(
            unknown.contains("opnai") && unknown.contains("openai-responses"),
            "{unknown}"
        );
    }

    #[test]
    fn every_kind_that_a_configuration_can_name_has_a_row() {
        let schema = serde_json::to_string(&schemars::schema_for!(ProviderKind)).unwrap();
        let named = schema.matches("\"const\"").count();
        assert_eq!(named, FACTS.len(), "{schema}");
    }

    #[test]
    fn the_keys_to_hide_are_listed_once() {
        let variables = key_variables();
        assert!(
            variables.contains(&"ANTHROPIC_API_KEY")
                && variables.contains(&"AWS_BEARER_TOKEN_BEDROCK")
        );
        assert_eq!(
            variables.iter().collect::<BTreeSet<_>>().len(),
            variables.len()
        );
    }
}
