//! What must hold between keys once all layers lie over each other.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::check::join;
use super::diagnostic::{Diagnostic, nearest};
use super::layers::Stack;
use super::types::ProviderKind;

/// What is wrong in the merged configuration, for a product that has `plugins`. Where a layer is missing
/// because it could not be read, the stack is not `complete`.
pub(super) fn check(
    stack: &Stack,
    plugins: impl Fn() -> Vec<(String, bool)>,
    complete: bool,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, provider) in stack.merged["providers"].as_object().into_iter().flatten() {
        provider_rules(stack, name, provider, &mut found);
    }
    if complete {
        model_rule(stack, &mut found);
    }
    if let Some(settings) = stack.merged["plugins"]
        .as_object()
        .filter(|settings| !settings.is_empty())
    {
        plugin_rules(stack, settings, &plugins(), &mut found);
    }
    let retry = &stack.merged["retry"];
    if let (Some(base), Some(most)) = (
        retry["base_delay_ms"].as_u64(),
        retry["max_delay_ms"].as_u64(),
    ) && base > most
    {
        let message =
            format!("`retry.base_delay_ms` ({base}) is above `retry.max_delay_ms` ({most})");
        found.push(wrong(
            stack,
            "retry.base_delay_ms",
            message,
            "lower this one or raise the other".to_owned(),
        ));
    }
    found
}

/// The model's provider must be there. Whether the provider has the model it says itself.
fn model_rule(stack: &Stack, found: &mut Vec<Diagnostic>) {
    let model = stack.merged["model"].as_str();
    let Some((provider, id)) = model.and_then(|model| model.split_once("::")) else {
        return;
    };
    let configured = stack.merged["providers"].as_object();
    let built_in = bezel_dist_session::built_in_providers();
    let names: Vec<&str> = configured
        .into_iter()
        .flat_map(|all| all.keys())
        .map(String::as_str)
        .chain(built_in.iter().map(|known| known.name.as_str()))
        .collect();
    if names.contains(&provider) {
        return;
    }
    let hint = match nearest(provider, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}::{id}\"?"),
        None => format!(
            "add [{}], or choose one of {}",
            join("providers", provider),
            names.join(", ")
        ),
    };
    let message = format!("`model` names the provider `{provider}`, which is not there");
    found.push(wrong(stack, "model", message, hint));
}

fn plugin_rules(
    stack: &Stack,
    settings: &Map<String, Value>,
    plugins: &[(String, bool)],
    found: &mut Vec<Diagnostic>,
) {
    for (id, settings) in settings {
        let path = join("plugins", id);
        match plugins.iter().find(|(known, _)| known == id) {
            Some((_, true)) if settings["enabled"] == false => {
                let message =
                    format!("plugin `{id}` is part of the product and cannot be switched off");
                found.push(wrong(
                    stack,
                    &join(&path, "enabled"),
                    message,
                    "remove this line".to_owned(),
                ));
            }
            Some(_) => {}
            None => {
                let names: Vec<&str> = plugins.iter().map(|(name, _)| name.as_str()).collect();
                let hint = match nearest(id, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("plugins: {}", names.join(", ")),
                };
                found.push(wrong(
                    stack,
                    &path,
                    format!("there is no plugin `{id}`"),
                    hint,
                ));
            }
        }
    }
}

fn provider_rules(stack: &Stack, name: &str, provider: &Value, found: &mut Vec<Diagnostic>) {
    let path = join("providers", name);
    if name.contains("::") || name.trim().is_empty() {
        let hint = "choose a name without `::`, for example `local`".to_owned();
        found.push(wrong(
            stack,
            &path,
            format!("{name:?} cannot name a provider"),
            hint,
        ));
    }
    if provider.get("kind").is_none() && !ProviderKind::ALL.contains(&name) {
        let hint = match nearest(name, ProviderKind::ALL.iter().copied()) {
            Some(near) => format!("add `kind = \"openai\"` or another; or did you mean `{near}`?"),
            None => "add for example `kind = \"openai\"`".to_owned(),
        };
        found.push(wrong(
            stack,
            &path,
            format!("provider `{name}` needs a `kind`"),
            hint,
        ));
    }
    let kind = provider["kind"].as_str().unwrap_or(name);
    if ["bedrock", "vertex"].contains(&kind) && provider.get("base_url").is_none() {
        let message =
            format!("provider `{name}` is of kind `{kind}`, whose address depends on your account");
        found.push(wrong(stack, &path, message, "add `base_url`".to_owned()));
    }
    if provider.get("api_key_env").is_some() && provider.get("api_key_command").is_some() {
        let message = format!("provider `{name}` has both `api_key_env` and `api_key_command`");
        found.push(wrong(
            stack,
            &join(&path, "api_key_command"),
            message,
            "keep one of them".to_owned(),
        ));
    }
    let mut seen = BTreeSet::new();
    for (at, model) in provider["models"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let id = model["id"].as_str().unwrap_or_default();
        if !seen.insert(id) {
            let place = format!("{}[{at}].id", join(&path, "models"));
            let message = format!("provider `{name}` has two models `{id}`");
            found.push(wrong(
                stack,
                &place,
                message,
                "remove or rename one".to_owned(),
            ));
        }
    }
}

fn wrong(stack: &Stack, path: &str, message: String, hint: String) -> Diagnostic {
    Diagnostic {
        message,
        hint: Some(hint),
        place: stack.place(path),
    }
}
