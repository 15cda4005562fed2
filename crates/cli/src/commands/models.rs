//! `bezel models`: what can be chosen here. Asked of a session that leaves nothing behind.

use std::io::{self, Write};

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_models_contract::{ModelsClient, ModelsState, RefreshStatus};
use bezel_rpc::{AttachmentState, Link};
use bezel_session_types::ModelSpec;
use bezel_sessions_contract::{CreateSession, LaunchEnvironment, SessionManagementClient};
use serde_json::json;

use crate::arguments::ModelsArguments;
use crate::commands::run::{runtime, tell};
use crate::connect::join_through;
use crate::failure::{Exit, Failure, Outcome};
use crate::scratch::Scratch;
use crate::setup::{Setup, environment, untrusted_notice};
use crate::{logging, standalone};

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
        Vec::new(),
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
    let mut out = io::stdout();
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({ "chosen": state.configuration.model, "models": state.catalog.available_models })
        )?;
    } else {
        list(&state, &mut out)?;
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

fn list(state: &ModelsState, out: &mut dyn Write) -> io::Result<()> {
    let models = &state.catalog.available_models;
    if models.is_empty() {
        return writeln!(
            out,
            "No model is configured: set a provider's key, for example ANTHROPIC_API_KEY, or add a [providers.NAME] table"
        );
    }
    let names: Vec<String> = models.iter().map(|spec| spec.model.to_string()).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or_default();
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
