//! What a configuration says of a provider.

use std::collections::BTreeMap;
use std::fmt;

use bezel_session_types::{ModelRef, ModelSpec, Prices};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{self, KnownModel};
use crate::kind::ProviderKind;

/// One `[providers.NAME]` table.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The key of its table: what stands before `::` in a model's name.
    #[serde(skip)]
    pub name: String,
    /// What it speaks.
    pub kind: ProviderKind,
    /// Where it lives, version included: `http://127.0.0.1:8080/v1`. Left out, the kind's own endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds its key. Left out, the kind's usual ones, unless `base_url` is
    /// given: a well-known key is never sent to another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A shell command that prints its key. Run at the first request and kept until the key is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<String>,
    /// Headers to add to each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Seconds of silence after which an answer counts as broken off. Left out, 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// Its models, besides those of the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelConfig>,
}

/// One `[[providers.NAME.models]]` table. What is left out comes from the catalogue where that knows the
/// model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The provider's id of it.
    pub id: String,
    /// For people. Left out, the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Context window in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Output limit in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Whether it can reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Whether it sees pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceConfig>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceConfig {
    /// Fresh input.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the provider's cache. Left out, as fresh input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Input written to the provider's cache. Left out, as fresh input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// A provider's configuration that cannot work. `providers.NAME` is the table that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderConfigError {
    /// The address is not one.
    #[error(
        "providers.{name}.base_url is `{url}`, which is not an http or https URL: {reason}. Write it as http://HOST:PORT/v1"
    )]
    BaseUrl {
        /// The provider.
        name: String,
        /// What stands there.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kind has no address of its own.
    #[error(
        "providers.{name} is of kind `{kind}`, whose address depends on your account: set `base_url`, {example}"
    )]
    NoBaseUrl {
        /// The provider.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// What it looks like.
        example: &'static str,
    },
    /// Two sources of one key.
    #[error("providers.{name} has both `api_key_env` and `api_key_command`: keep one")]
    TwoKeys {
        /// The provider.
        name: String,
    },
    /// A header that HTTP does not allow.
    #[error("providers.{name}.headers has `{header}`, which is not a valid HTTP header")]
    Header {
        /// The provider.
        name: String,
        /// The header's name.
        header: String,
    },
    /// One model twice.
    #[error("providers.{name}.models lists `{id}` twice: keep one")]
    DuplicateModel {
        /// The provider.
        name: String,
        /// The model.
        id: String,
    },
    /// A model without a name.
    #[error("providers.{name}.models has an empty `id`: write the provider's id of the model")]
    EmptyModel {
        /// The provider.
        name: String,
    },
}

impl ProviderConfig {
    /// The built-in provider of a kind.
    pub fn of_kind(name: impl Into<String>, kind: ProviderKind) -> Self {
        ProviderConfig {
            name: name.into(),
            kind,
            base_url: None,
            api_key_env: None,
            api_key_command: None,
            headers: BTreeMap::new(),
            idle_timeout_seconds: None,
            models: Vec::new(),
        }
    }

    /// The same under the key of its table.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Looks for what cannot work.
    pub fn check(&self) -> Result<(), ProviderConfigError> {
        let name = || self.name.clone();
        if self.api_key_env.is_some() && self.api_key_command.is_some() {
            return Err(ProviderConfigError::TwoKeys { name: name() });
        }
        self.url()?;
        for (header, value) in &self.headers {
            let valid = reqwest::header::HeaderName::from_bytes(header.as_bytes()).is_ok()
                && reqwest::header::HeaderValue::from_str(value).is_ok();
            if !valid {
                return Err(ProviderConfigError::Header {
                    name: name(),
                    header: header.clone(),
                });
            }
        }
        for (index, model) in self.models.iter().enumerate() {
            if model.id.is_empty() {
                return Err(ProviderConfigError::EmptyModel { name: name() });
            }
            if self.models[..index]
                .iter()
                .any(|other| other.id == model.id)
            {
                return Err(ProviderConfigError::DuplicateModel {
                    name: name(),
                    id: model.id.clone(),
                });
            }
        }
        Ok(())
    }

    /// The models that this configuration lists.
    pub fn models(&self) -> Vec<ModelSpec> {
        self.models.iter().map(|model| self.spec(model)).collect()
    }

    /// What is known of a model of this provider: from this configuration, else from the catalogue.
    pub fn model(&self, id: &str) -> Option<ModelSpec> {
        match self.models.iter().find(|model| model.id == id) {
            Some(model) => Some(self.spec(model)),
            None => self.known(id).map(|known| known.spec(self.reference(id))),
        }
    }

    /// The variables that may hold its key, in order.
    pub fn key_variables(&self) -> Vec<&str> {
        match (&self.api_key_env, &self.base_url) {
            (Some(variable), _) => vec![variable],
            (None, Some(_)) => Vec::new(),
            (None, None) => self.kind.key_variables().to_vec(),
        }
    }

    /// What the catalogue knows of a model that this kind serves.
    pub(crate) fn known(&self, id: &str) -> Option<&'static KnownModel> {
        catalogue::known(self.kind, id)
    }

    /// The base URL without a slash at its end.
    pub(crate) fn url(&self) -> Result<reqwest::Url, ProviderConfigError> {
        let facts = self.kind.facts();
        let Some(text) = self.base_url.as_deref().or(facts.base_url) else {
            let example = match self.kind {
                ProviderKind::Bedrock => {
                    "for example https://bedrock-runtime.us-east-1.amazonaws.com"
                }
                _ => {
                    "for example https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global"
                }
            };
            return Err(ProviderConfigError::NoBaseUrl {
                name: self.name.clone(),
                kind: facts.name,
                example,
            });
        };
        let wrong = |reason: String| ProviderConfigError::BaseUrl {
            name: self.name.clone(),
            url: text.into(),
            reason,
        };
        let url = reqwest::Url::parse(text.trim_end_matches('/'))
            .map_err(|error| wrong(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!(
                "`{}` is not a scheme that it can be reached by",
                url.scheme()
            )));
        }
        Ok(url)
    }

    fn reference(&self, id: &str) -> ModelRef {
        ModelRef {
            provider: self.name.clone(),
            model_id: id.into(),
        }
    }

    fn spec(&self, model: &ModelConfig) -> ModelSpec {
        let known = self
            .known(&model.id)
            .map(|known| known.spec(self.reference(&model.id)));
        let known = known.unwrap_or_else(|| ModelSpec {
            model: self.reference(&model.id),
            name: model.id.clone(),
            reasoning: false,
            images: false,
            context: 0,
            max_output: 0,
            prices: None,
        });
        ModelSpec {
            name: model.name.clone().unwrap_or(known.name),
            reasoning: model.reasoning.unwrap_or(known.reasoning),
            images: model.images.unwrap_or(known.images),
            context: model.context.unwrap_or(known.context),
            max_output: model.max_output.unwrap_or(known.max_output),
            prices: model.prices.map(Prices::from).or(known.prices),
            model: known.model,
        }
    }
}

impl From<PriceConfig> for Prices {
    fn from(prices: PriceConfig) -> Self {
        Prices {
            input: prices.input,
            output: prices.output,
            cache_read: prices.cache_read.unwrap_or(prices.input),
            cache_write: prices.cache_write.unwrap_or(prices.input),
        }
    }
}

/// Header values may be secrets: only their names are shown.
impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("base_url", &self.base_url)
            .field("api_key_env", &self.api_key_env)
            .field(
                "api_key_command",
                &self.api_key_command.as_ref().map(|_| "…"),
            )
            .field("headers", &self.headers.keys())
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ProviderConfig, toml::de::Error> {
        toml::from_str::<ProviderConfig>(text).map(|config| config.named("local"))
    }

    #[test]
    fn the_documented_example_reads() {
        let config = read(
            "kind = \"openai\"\nbase_url = \"http://127.0.0.1:8080/v1/\"\napi_key_env = \"LOCAL_KEY\"\n\
             [[models]]\nid = \"qwen3-coder\"\ncontext = 262144\nprices = { input = 1.0, output = 2.0 }\n",
        )
        .unwrap();
        config.check().unwrap();
        let model = config.model("qwen3-coder").unwrap();
        assert_eq!(
            (model.model.to_string().as_str(), model.context),
            ("local::qwen3-coder", 262_144)
        );
        assert_eq!(model.prices.unwrap().cache_read, 1.0);
        assert_eq!(config.url().unwrap().as_str(), "http://127.0.0.1:8080/v1");
        assert_eq!(config.key_variables(), ["LOCAL_KEY"]);
    }

    #[test]
    fn a_model_takes_from_the_catalogue_what_its_table_leaves_out() {
        let config =
            read("kind = \"anthropic\"\nmodels = [{ id = \"claude-sonnet-4-5\", context = 5 }]")
                .unwrap();
        let model = &config.models()[0];
        assert_eq!(
            (model.context, model.max_output, model.images),
            (5, 64_000, true)
        );
        assert!(
            config
                .model("claude-haiku-4-5")
                .is_some_and(|model| model.reasoning)
        );
        assert!(config.model("nobody").is_none());
    }

    #[test]
    fn a_well_known_key_goes_to_its_own_endpoint_only() {
        let mut config = ProviderConfig::of_kind("mine", ProviderKind::Anthropic);
        assert_eq!(config.key_variables(), ["ANTHROPIC_API_KEY"]);
        config.base_url = Some("https://elsewhere.example/v1".into());
        assert!(config.key_variables().is_empty());
    }

    #[test]
    fn mistakes_say_where_and_what_to_do() {
        let unknown = read("kind = \"openai\"\nbase = \"x\"")
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("base_url"), "{unknown}");
        for (text, said) in [
            (
                "kind = \"openai\"\nbase_url = \"127.0.0.1:80\"",
                "providers.local.base_url",
            ),
            ("kind = \"openai\"\nbase_url = \"ftp://x\"", "`ftp`"),
            ("kind = \"bedrock\"", "amazonaws.com"),
            (
                "kind = \"openai\"\napi_key_env = \"A\"\napi_key_command = \"b\"",
                "keep one",
            ),
            ("kind = \"openai\"\nheaders = { \"a b\" = \"c\" }", "`a b`"),
            (
                "kind = \"openai\"\nmodels = [{ id = \"m\" }, { id = \"m\" }]",
                "`m` twice",
            ),
            ("kind = \"openai\"\nmodels = [{ id = \"\" }]", "empty `id`"),
        ] {
            let error = read(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn secrets_in_headers_are_not_shown() {
        let config = read(
            "kind = \"openai\"\napi_key_command = \"pass hunter3\"\nheaders = { x-token = \"hunter2\" }",
        );
        let shown = format!("{:?}", config.unwrap());
        assert!(
            shown.contains("x-token") && !shown.contains("hunter"),
            "{shown}"
        );
    }
}
