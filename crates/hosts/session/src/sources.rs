//! What the harness asks the facets' contributions for: models, the system prompt, tools.

use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::{Availability, PromptDraft, ProviderDraft, RegisteredTool, ToolSet};
use bezel_context::Context;
use bezel_harness::{
    ModelSource, ModelSourceError, ResolvedModel, SystemPrompt, SystemPromptError,
    SystemPromptSubject, ToolIdentity, ToolOrigin, ToolRegistration,
};
use bezel_plugin::Registry;
use bezel_session_types::{LaneName, ModelRef, ModelSpec, ThinkingLevel};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Map;

/// The model that the main lane's requests go to.
pub(crate) struct Models {
    pub(crate) providers: Registry<ProviderDraft>,
    // A plain mutex: held to copy or replace the choice.
    choice: Mutex<(Option<ModelRef>, ThinkingLevel)>,
}

impl Models {
    pub(crate) fn new(providers: Registry<ProviderDraft>) -> Self {
        Models {
            providers,
            choice: Mutex::default(),
        }
    }

    pub(crate) fn choose(&self, model: Option<ModelRef>, thinking: ThinkingLevel) {
        *self.choice.lock().unwrap_or_else(PoisonError::into_inner) = (model, thinking);
    }

    fn resolve_now(&self) -> Result<ResolvedModel, ModelSourceError> {
        let (model, thinking) = self
            .choice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(model) = model else {
            return Err(ModelSourceError {
                code: "model.none",
                message: "no model is configured; set `model` in config.toml, or export a provider's key \
                          (`bezel doctor` shows what is looked for)"
                    .into(),
            });
        };
        let providers = self.providers.current();
        let Some(entry) = providers.get(&model.provider) else {
            let known: Vec<&str> = providers.iter().map(|(name, _)| name).collect();
            return Err(ModelSourceError {
                code: "model.unknown",
                message: format!(
                    "model {model} names the provider `{}`, which is not configured; there are: {}",
                    model.provider,
                    known.join(", ")
                ),
            });
        };
        if let Availability::Missing(reason) = &entry.availability {
            let message = format!("model {model} cannot be used: {reason}");
            return Err(ModelSourceError {
                code: "model.unavailable",
                message,
            });
        }
        // A provider may serve models that no catalogue lists: ask it, with nothing assumed.
        let spec = entry
            .models
            .iter()
            .find(|spec| spec.model == model)
            .cloned()
            .unwrap_or_else(|| ModelSpec {
                name: model.model_id.clone(),
                model,
                reasoning: thinking != ThinkingLevel::Off,
                images: true,
                context: 0,
                max_output: 0,
                prices: None,
            });
        Ok(ResolvedModel {
            provider: Arc::clone(&entry.provider),
            spec,
            thinking,
        })
    }
}

impl ModelSource for Models {
    fn resolve(
        &self,
        _cx: &Context,
        _lane: &LaneName,
    ) -> BoxFuture<'static, Result<ResolvedModel, ModelSourceError>> {
        let resolved = self.resolve_now();
        async move { resolved }.boxed()
    }
}

/// The system prompt that the sections add up to.
pub(crate) struct Prompt(pub(crate) Registry<PromptDraft>);

impl SystemPrompt for Prompt {
    fn build(
        &self,
        _cx: &Context,
        _subject: SystemPromptSubject,
    ) -> BoxFuture<'static, Result<Arc<str>, SystemPromptError>> {
        let text: Arc<str> = self.0.current().text.as_str().into();
        async move { Ok(text) }.boxed()
    }
}

/// The finished tools as the harness takes them.
pub(crate) fn tools(set: &ToolSet) -> bezel_harness::ToolSet {
    bezel_harness::ToolSet::new(set.tools.iter().map(|registered| ToolRegistration {
        name: registered.name.as_str().into(),
        tool: Arc::clone(&registered.tool),
        identity: ToolIdentity::new(registered.identity.to_string()),
        origin: origin(registered),
    }))
}

/// Whose a tool is, where it is at fault.
fn origin(registered: &RegisteredTool) -> ToolOrigin {
    let (plugin, around) = (&registered.plugin, &registered.wrapped_by);
    let mut described = format!("of plugin `{plugin}`");
    let mut details = Map::from_iter([("plugin".to_owned(), plugin.as_str().into())]);
    if !around.is_empty() {
        let around: Vec<&str> = around.iter().map(|plugin| plugin.as_str()).collect();
        described.push_str(&format!(", wrapped by `{}`,", around.join("`, `")));
        details.insert("wrapped_by".to_owned(), around.into());
    }
    ToolOrigin {
        registrant: plugin.as_str().into(),
        described: described.into(),
        details: Arc::new(details),
    }
}
