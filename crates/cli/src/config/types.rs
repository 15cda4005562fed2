//! What a configuration file may say. The JSON Schema and the checks are made from these types.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The configuration of Bezel: `config.toml` of the user, and `.bezel/config.toml` of a trusted project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model that a new session begins with, as `provider::model`.
    #[schemars(extend("format" = "model"))]
    pub model: Option<String>,
    /// How much the model reasons in a new session.
    pub thinking: Option<Thinking>,
    /// The agent that a new session runs; `build` when left out.
    #[schemars(extend("format" = "agent"))]
    pub agent: Option<String>,
    /// The colours of the terminal interface.
    pub theme: Theme,
    /// What the agent may do unasked in a new session. Left out, `bezel` asks and `bezel run` is `auto`.
    pub permission_mode: Option<Permission>,
    /// What is allowed, asked for and denied.
    pub permissions: PermissionSettings,
    /// Model providers by name. A name that is also a kind (`anthropic`) adjusts the built-in one.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Key bindings: a chord such as `ctrl+t` and the id of its command; an empty id unbinds the chord.
    #[schemars(extend("propertyNames" = { "format": "chord" }))]
    pub keys: BTreeMap<String, String>,
    /// The server.
    pub server: ServerSettings,
    /// Sessions.
    pub session: SessionSettings,
    /// The terminal interface.
    pub tui: TuiSettings,
    /// Plugins by id.
    pub plugins: BTreeMap<String, PluginSettings>,
    /// How a failed model request is tried again.
    pub retry: RetrySettings,
}

/// How much a model reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// Not at all, or as little as the model allows.
    Off,
    /// A little.
    Low,
    /// The provider's middle.
    Medium,
    /// As much as it can.
    High,
}

/// The colours of the terminal interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// As the terminal's background asks for.
    #[default]
    Auto,
    /// For a light background.
    Light,
    /// For a dark background.
    Dark,
}

/// What an agent may do unasked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Look, but change nothing
    Plan,
    /// Look at the project; ask for everything else
    Ask,
    /// As `ask`, and change files of the project unasked
    AcceptEdits,
    /// As `accept-edits`, and run commands unasked that are known to stay in the project
    Auto,
    /// Everything that no rule denies
    Full,
}

/// What is allowed, asked for and denied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PermissionSettings {
    /// Rules in order: the last one that matches counts, but one that denies is final. A project's come after the
    /// user's.
    pub rules: Vec<PermissionRule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionRule {
    /// `read`, `edit`, `shell`, `web`, `external_directory` or a tool's name; `*` is any text, `?` one character.
    #[schemars(extend("format" = "action"))]
    pub action: String,
    /// A path (absolute, under `~`, or relative to the session's directory; `**` is any number of directories), a
    /// command, or a URL. `*` is anything.
    #[schemars(extend("format" = "text"))]
    pub resource: String,
    /// What happens.
    pub effect: PermissionEffect,
}

/// What happens where a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionEffect {
    /// It runs unasked.
    Allow,
    /// A person is asked.
    Ask,
    /// It never runs.
    Deny,
}

/// One model provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// The protocol that it speaks. May be left out where the provider's name is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProviderKind>,
    /// Where it is, with the version path, for example `http://127.0.0.1:8080/v1`.
    #[schemars(extend("format" = "http-url"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    #[schemars(extend("format" = "variable"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A shell command that prints the key.
    #[schemars(extend("format" = "text"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<String>,
    /// Headers that every request carries.
    #[schemars(extend("propertyNames" = { "format": "header-name" }))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Seconds of silence after which an answer counts as broken off; 300 when left out.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u64>,
    /// Its models, in the order in which they are offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelSettings>,
}

/// The protocol that a provider speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderKind(pub String);

impl ProviderKind {
    /// Every kind there is; each is also the name of the built-in provider of that kind.
    pub const ALL: &'static [&'static str] = &[
        "anthropic",
        "openai",
        "openai-responses",
        "gemini",
        "ollama",
        "ollama-cloud",
        "bedrock",
        "vertex",
        "cohere",
        "groq",
        "xai",
        "deepseek",
        "mistral",
        "openrouter",
        "together",
        "fireworks",
        "moonshot",
        "zai",
        "bigmodel",
        "minimax",
        "nebius",
        "cerebras",
        "aliyun",
        "qwen-cloud",
        "baidu",
    ];
}

impl JsonSchema for ProviderKind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProviderKind".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The protocol that a provider speaks.",
            "type": "string",
            "enum": Self::ALL,
        })
    }
}

/// A model of a configured provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The provider's own id of the model.
    #[schemars(extend("format" = "text"))]
    pub id: String,
    /// For people; the id where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The context window in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// The output limit in tokens.
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
    pub prices: Option<PriceSettings>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Fresh input.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output, reasoning included.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Input read from the provider's cache; as fresh input when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    /// Input written to the provider's cache; as fresh input when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

/// The server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Minutes without clients and workers after which the server ends; 0 keeps it running.
    #[schemars(range(max = 525_600))]
    pub idle_exit_minutes: u32,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            idle_exit_minutes: 30,
        }
    }
}

/// Sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// Minutes without a client and without work after which a worker ends; 0 keeps it running.
    #[schemars(range(max = 525_600))]
    pub idle_exit_minutes: u32,
    /// Days after its last change for which a closed session is kept; for ever when left out. The server reads
    /// it from the user's own file alone.
    #[schemars(range(min = 1, max = 36_500))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u32>,
    /// Bytes that all sessions together may take; beyond that the closed ones with the oldest change are
    /// deleted. Without limit when left out. The server reads it from the user's own file alone.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// When what ran at a crash goes on: when somebody opens the session, or at once. At once means without
    /// the variables of a shell: keys must be in the credential store or come from a command.
    pub resume: ResumeWhen,
}

/// When what ran at a crash goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeWhen {
    /// When somebody opens the session.
    #[default]
    Open,
    /// At once, and when the server starts.
    AtOnce,
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            idle_exit_minutes: 10,
            keep_days: None,
            max_bytes: None,
            resume: ResumeWhen::default(),
        }
    }
}

/// The terminal interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TuiSettings {
    /// Whether the mouse scrolls and clicks; without it the terminal's own selection works unmodified.
    pub mouse: bool,
}

impl Default for TuiSettings {
    fn default() -> Self {
        TuiSettings { mouse: true }
    }
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSettings {
    /// Whether it is loaded.
    pub enabled: bool,
    /// What the plugin itself reads; each plugin checks its own.
    pub config: BTreeMap<String, Value>,
}

impl Default for PluginSettings {
    fn default() -> Self {
        PluginSettings {
            enabled: true,
            config: BTreeMap::new(),
        }
    }
}

/// How a failed model request is tried again. `retry-after` of the provider goes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// How many times one request is tried in all; 1 never tries again.
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Milliseconds before the second try; it doubles with each further one.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub base_delay_ms: u64,
    /// The longest wait in milliseconds that a provider may ask for; more fails at once.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub max_delay_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        RetrySettings {
            max_attempts: 5,
            base_delay_ms: 500,
            max_delay_ms: 300_000,
        }
    }
}

/// The JSON Schema of a configuration file.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    settings
        .into_generator()
        .into_root_schema_for::<Config>()
        .to_value()
}

/// The JSON Schema as it is published. The order of its keys does not depend on what else is in the build.
pub fn published_schema() -> String {
    let mut schema = schema();
    schema.sort_all_objects();
    format!("{schema:#}\n")
}
