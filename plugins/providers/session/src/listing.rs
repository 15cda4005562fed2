//! The remote catalogue: a provider's own list of models.

use bezel_context::Context;
use bezel_session_types::{ModelRef, ModelSpec, Prices, ProviderError, ProviderErrorKind};
use reqwest::StatusCode;
use serde::Deserialize;

use crate::config::ProviderConfig;
use crate::failure::{Fault, Origin};
use crate::keys::KeySource;
use crate::kind::Wire;
use crate::native::Shared;
use crate::through_genai;

/// No provider has more pages than this; one that says so would never end.
const MAX_PAGES: usize = 50;

/// One page of any provider's list.
#[derive(Deserialize)]
struct Page {
    #[serde(default, alias = "models")]
    data: Vec<Listed>,
    /// Anthropic's.
    #[serde(default)]
    has_more: bool,
    #[serde(default)]
    last_id: Option<String>,
    /// Google's.
    #[serde(default, rename = "nextPageToken")]
    next_page_token: Option<String>,
}

/// A model in any provider's list. Fields beside the id are those of one provider or another.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Listed {
    id: Option<String>,
    /// Google's id, after `models/`; elsewhere a name for people.
    name: Option<String>,
    #[serde(alias = "displayName")]
    display_name: Option<String>,
    #[serde(
        alias = "context_window",
        alias = "max_context_length",
        alias = "inputTokenLimit",
        alias = "max_model_len",
        alias = "max_input_tokens"
    )]
    context_length: Option<u64>,
    #[serde(alias = "outputTokenLimit", alias = "max_tokens")]
    max_completion_tokens: Option<u64>,
    #[serde(rename = "supportedGenerationMethods")]
    methods: Option<Vec<String>>,
    thinking: Option<bool>,
    /// OpenRouter's.
    supported_parameters: Option<Vec<String>>,
    architecture: Option<Architecture>,
    pricing: Option<Pricing>,
    top_provider: Option<TopProvider>,
    /// Mistral's.
    capabilities: Option<Capabilities>,
}

#[derive(Deserialize)]
struct Architecture {
    #[serde(default)]
    input_modalities: Vec<String>,
}

/// US dollars per token, as text.
#[derive(Deserialize)]
struct Pricing {
    prompt: String,
    completion: String,
    #[serde(default)]
    input_cache_read: Option<String>,
    #[serde(default)]
    input_cache_write: Option<String>,
}

#[derive(Deserialize)]
struct TopProvider {
    #[serde(default)]
    max_completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    completion_chat: Option<bool>,
    #[serde(default)]
    vision: Option<bool>,
    #[serde(default)]
    reasoning: Option<bool>,
}

pub(crate) async fn refresh(
    cx: &Context,
    config: &ProviderConfig,
    keys: KeySource,
) -> Result<Vec<ModelSpec>, ProviderError> {
    let shared = Shared::new(config.clone(), keys).map_err(|error| ProviderError {
        kind: ProviderErrorKind::InvalidRequest,
        message: error.to_string(),
        status: None,
        retry_after: None,
    })?;
    let model = ModelRef {
        provider: config.name.clone(),
        model_id: "models".into(),
    };
    let origin = shared.origin(model, &shared.address(None, "models"));
    match cx.run(list(cx, &shared, &origin)).await {
        Ok(models) => models,
        Err(_) => Err(origin.cancelled()),
    }
}

async fn list(
    cx: &Context,
    shared: &Shared,
    origin: &Origin,
) -> Result<Vec<ModelSpec>, ProviderError> {
    let config = &shared.config;
    let (version, query) = match config.kind.facts().wire {
        Wire::Genai(adapter) => {
            let ids = through_genai::list(adapter, shared, cx, origin).await?;
            return Ok(ids
                .into_iter()
                .map(|id| spec(config, id, Listed::default()))
                .collect());
        }
        Wire::Anthropic => (Some("v1"), "?limit=1000"),
        Wire::Gemini => (Some("v1beta"), "?pageSize=1000"),
        Wire::Chat(_) | Wire::Responses => (None, ""),
    };
    let mut models = Vec::new();
    let mut next = String::new();
    for _ in 0..MAX_PAGES {
        let url = shared.address(version, &format!("models{query}{next}"));
        let page = page(cx, shared, origin, &url).await?;
        next = match (page.next_page_token, page.last_id) {
            (Some(token), _) if !token.is_empty() => format!("&pageToken={token}"),
            (_, Some(last)) if page.has_more => format!("&after_id={last}"),
            _ => String::new(),
        };
        models.extend(
            page.data
                .into_iter()
                .filter_map(|listed| model(config, listed)),
        );
        if next.is_empty() {
            break;
        }
    }
    Ok(models)
}

async fn page(
    cx: &Context,
    shared: &Shared,
    origin: &Origin,
    url: &str,
) -> Result<Page, ProviderError> {
    let key = shared.key.get(cx, &shared.config).await?;
    let request = shared.authorised(
        shared.http.client(shared.key.source())?.get(url),
        key.as_ref(),
    );
    let timeout = shared.idle_timeout();
    let sent = tokio::time::timeout(timeout, request.send())
        .await
        .map_err(|_| origin.silent(timeout))?;
    let response = sent.map_err(|error| origin.unreachable(&error))?;
    if response.status() != StatusCode::OK {
        return Err(shared.refused(origin, response).await);
    }
    let body = tokio::time::timeout(timeout, response.bytes())
        .await
        .map_err(|_| origin.silent(timeout))?;
    let body = body.map_err(|error| origin.broken_off(&error))?;
    // Together lists without anything around it.
    let page = serde_json::from_slice(&body).or_else(|error| match serde_json::from_slice(&body) {
        Ok(data) => Ok(Page {
            data,
            has_more: false,
            last_id: None,
            next_page_token: None,
        }),
        Err(_) => Err(error),
    });
    page.map_err(|_| origin.fault(Fault::malformed(&body)))
}

fn model(config: &ProviderConfig, mut listed: Listed) -> Option<ModelSpec> {
    let id = match listed.id.take() {
        Some(id) => id,
        None => listed.name.take()?.trim_start_matches("models/").into(),
    };
    let answers = |methods: &Vec<String>| methods.iter().any(|method| method == "generateContent");
    let chats = |capabilities: &Capabilities| capabilities.completion_chat != Some(false);
    if !listed.methods.as_ref().is_none_or(answers)
        || !listed.capabilities.as_ref().is_none_or(chats)
    {
        return None;
    }
    Some(spec(config, id, listed))
}

fn spec(config: &ProviderConfig, id: String, listed: Listed) -> ModelSpec {
    let known = config.model(&id);
    let shown = known
        .as_ref()
        .map(|known| known.name.clone())
        .filter(|name| *name != id);
    let name = shown
        .or(listed.display_name)
        .or(listed.name)
        .unwrap_or_else(|| id.clone());
    let told = |word: &str| {
        listed
            .supported_parameters
            .as_ref()
            .map(|words| words.iter().any(|known| known == word))
    };
    let reasoning = listed
        .thinking
        .or_else(|| told("reasoning"))
        .or(listed.capabilities.as_ref().and_then(|told| told.reasoning));
    let sees = listed
        .architecture
        .map(|told| told.input_modalities.iter().any(|kind| kind == "image"));
    let images = sees.or(listed.capabilities.and_then(|told| told.vision));
    let most = listed.max_completion_tokens.or(listed
        .top_provider
        .and_then(|top| top.max_completion_tokens));
    let known = known.as_ref();
    // What is configured or catalogued is about this very model and was looked at; a list may be coarse.
    let number = |known: Option<u64>, told: Option<u64>| {
        known
            .filter(|known| *known > 0)
            .or(told)
            .unwrap_or_default()
    };
    ModelSpec {
        name,
        reasoning: known
            .map(|known| known.reasoning)
            .or(reasoning)
            .unwrap_or_default(),
        images: known
            .map(|known| known.images)
            .or(images)
            .unwrap_or_default(),
        context: number(known.map(|known| known.context), listed.context_length),
        max_output: number(known.map(|known| known.max_output), most),
        prices: known
            .and_then(|known| known.prices)
            .or_else(|| listed.pricing.as_ref().and_then(prices)),
        model: ModelRef {
            provider: config.name.clone(),
            model_id: id,
        },
    }
}

fn prices(pricing: &Pricing) -> Option<Prices> {
    let per_million = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|price| *price >= 0.0)
            .map(|price| price * 1e6)
    };
    let input = per_million(&pricing.prompt)?;
    let cached = |text: &Option<String>| text.as_deref().and_then(per_million).unwrap_or(input);
    Some(Prices {
        input,
        output: per_million(&pricing.completion)?,
        cache_read: cached(&pricing.input_cache_read),
        cache_write: cached(&pricing.input_cache_write),
    })
}
