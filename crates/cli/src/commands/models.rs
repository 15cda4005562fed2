//! `bezel models`: what can be chosen here. Asked of a session that leaves nothing behind.

use std::io::{self, Write};

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_models_contract::{ModelsClient, ModelsState, RefreshStatus};
use bezel_rpc::{AttachmentState, Link};
use bezel_session_types::{ModelRef, ModelSpec};
use bezel_sessions_contract::{CreateSession, LaunchEnvironment, SessionManagementClient};
use serde::Serialize;
use serde_json::json;

use crate::additions::Additions;
use crate::arguments::ModelsArguments;
use crate::commands::run::{runtime, tell};
use crate::config::{Config, ProviderSettings};
use crate::connect::join_through;
use crate::failure::{Exit, Failure, Outcome};
use crate::keys::{self, Key};
use crate::scratch::Scratch;
use crate::setup::{Setup, environment, untrusted_notice};
use crate::{logging, manifest, standalone};

/// Runs the command.
pub fn run(arguments: ModelsArguments) -> Outcome {
    let setup = Setup::new(arguments.cwd.as_deref())?;
    logging::start(logging::Target::File(setup.paths.logs.join("client.log")))
        .map_err(Failure::usage)?;
    let loaded = setup.load(Vec::new())?;
    if let Some(file) = &loaded.untrusted {
        tell(&untrusted_notice(file));
    }
    let scratch = Scratch::new()?;
    let server = standalone::start(
        &standalone::throwaway(&setup.paths, scratch.path()),
        &loaded.config,
        Additions::default(),
    )?;
    let state = runtime()?.block_on(async {
        let cx = Context::background();
        let joined = join_through(&cx, server.connect.clone(), server.credential.clone())
            .await
            .map_err(Failure::failed)?;
        let state = ask(&cx, &joined.link, &setup, arguments.refresh).await;
        joined.leave().await;
        state
    });
    server.stop();
    let state = state?;
    if let RefreshStatus::Warning { errors } = &state.refresh {
        for (provider, error) in errors {
            tell(&format!("warning: {provider}: {error}"));
        }
    }
    let missing = without_key(&loaded.config, &state);
    let mut out = io::stdout();
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({
                "chosen": state.configuration.model,
                "models": state.catalog.available_models,
                "without_key": missing,
            })
        )?;
    } else {
        list(&state, &missing, &mut out)?;
    }
    let only_the_tour = |spec: &ModelSpec| spec.model.provider == manifest::STAND_IN;
    let nothing_else = state.catalog.available_models.iter().all(only_the_tour);
    if nothing_else && !arguments.json {
        tell(
            "Nothing but the tour can answer: export a provider's key, for example ANTHROPIC_API_KEY (the first of its \
             models serves then, `*` marks it), or add a [providers.NAME] table to config.toml",
        );
    }
    Ok(if state.catalog.available_models.is_empty() {
        Exit::NoModel
    } else {
        Exit::Done
    })
}

async fn ask(cx: &Context, link: &Link, setup: &Setup, refresh: bool) -> Outcome<ModelsState> {
    let management: SessionManagementClient = link.server().use_service();
    let directory = setup
        .directory
        .to_str()
        .context("the directory's name is not UTF-8")
        .map_err(Failure::usage)?;
    let environment = Some(LaunchEnvironment(environment()));
    let options = CreateSession {
        directory: directory.to_owned(),
        environment: environment.clone(),
        ..CreateSession::default()
    };
    let told = |error: &dyn std::fmt::Display| {
        Failure::failed(anyhow!("cannot ask for the models: {error}"))
    };
    let session = management
        .create(cx, options)
        .await
        .map_err(|error| told(&error))?;
    management
        .attach(cx, session.session_id, environment)
        .await
        .map_err(|error| told(&error))?;
    let attachment = link.attached().attachment();
    let attached = attachment
        .wait_for(cx, |state| {
            !matches!(state, AttachmentState::Attaching { .. })
        })
        .await;
    attached.map_err(Failure::failed)?;
    let models: ModelsClient = link.attached().use_service();
    let state = models.state();
    if refresh {
        models.refresh(cx).await.map_err(|error| told(&error))?;
    }
    Ok(ModelsState::clone(
        &*state.ready(cx).await.map_err(Failure::failed)?,
    ))
}

/// A model that was configured and whose provider has no key.
#[derive(Serialize)]
struct WithoutKey {
    model: ModelRef,
    /// Variables that could hold the key.
    variables: Vec<String>,
}

/// The models that a person configured and cannot use for want of a key: the chosen one, and those of the
/// configuration.
fn without_key(config: &Config, state: &ModelsState) -> Vec<WithoutKey> {
    let of_provider = |name: &String, settings: &ProviderSettings| {
        let model = |id: &String| ModelRef {
            provider: name.clone(),
            model_id: id.clone(),
        };
        let all = settings.models.iter().map(|settings| model(&settings.id));
        all.collect::<Vec<_>>()
    };
    let chosen = config.model.as_deref().and_then(|model| model.parse().ok());
    let listed = config.providers.iter();
    let mut all: Vec<ModelRef> = chosen.into_iter().collect();
    all.extend(listed.flat_map(|(name, settings)| of_provider(name, settings)));
    let mut found: Vec<WithoutKey> = Vec::new();
    for model in all {
        let known = found.iter().any(|other| other.model == model)
            || state
                .catalog
                .available_models
                .iter()
                .any(|spec| spec.model.provider == model.provider);
        if let (false, Some(Key::Missing(variables))) =
            (known, keys::key_of(config, &environment(), &model.provider))
        {
            found.push(WithoutKey { model, variables });
        }
    }
    found
}

fn list(state: &ModelsState, missing: &[WithoutKey], out: &mut dyn Write) -> io::Result<()> {
    let models = &state.catalog.available_models;
    let names: Vec<String> = models.iter().map(|spec| spec.model.to_string()).collect();
    let without: Vec<String> = missing.iter().map(|one| one.model.to_string()).collect();
    let width = names
        .iter()
        .chain(&without)
        .map(|name| name.chars().count())
        .max()
        .unwrap_or_default();
    for (name, one) in without.iter().zip(missing) {
        let mark = if state.configuration.model.as_ref() == Some(&one.model) {
            '*'
        } else {
            ' '
        };
        let variables = one.variables.join(" or ");
        writeln!(out, "{mark} {name:<width$}  no key: export {variables}")?;
    }
    for (name, spec) in names.iter().zip(models) {
        let mark = if state.configuration.model.as_ref() == Some(&spec.model) {
            '*'
        } else {
            ' '
        };
        writeln!(
            out,
            "{}",
            format!("{mark} {name:<width$}  {}", facts(spec)).trim_end()
        )?;
    }
    Ok(())
}

fn facts(spec: &ModelSpec) -> String {
    let mut facts = Vec::new();
    if spec.context > 0 {
        facts.push(format!("{}k context", spec.context / 1000));
    }
    if spec.reasoning {
        facts.push("reasons".to_owned());
    }
    if spec.images {
        facts.push("sees pictures".to_owned());
    }
    if let Some(prices) = spec.prices {
        facts.push(format!(
            "${} in, ${} out per million",
            prices.input, prices.output
        ));
    }
    facts.join(", ")
}
