//! `bezel` alone: the terminal interface in this directory.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use anyhow::anyhow;
use bezel_host_tui::{
    Launch, LaunchSession, StartError, TerminalOptions, ThemeChoice, TuiHost, TuiOptions,
};
use bezel_plugin::Deadlines;
use bezel_rpc::{Connect, Credential};
use bezel_session_types::ModelRef;

use crate::arguments::{OpenArguments, TourArguments};
use crate::commands::run::{runtime, tell};
use crate::commands::tour;
use crate::config::{Config, Loaded, Theme};
use crate::connect::{DaemonConnect, credential, hello};
use crate::failure::{Exit, Failure, Outcome};
use crate::manifest::{self, Chosen};
use crate::setup::{Setup, environment, untrusted_notice};
use crate::{logging, standalone};

/// Opens the interface, or plays the tour where there is no terminal.
pub fn run(arguments: OpenArguments) -> Outcome {
    let setup = Setup::new(arguments.cwd.as_deref())?;
    let flags = arguments
        .model
        .iter()
        .map(|model| ("--model", "model", model.clone()))
        .collect();
    let loaded = setup.load(flags)?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return tour::run(TourArguments::default());
    }
    let model = arguments
        .model
        .as_deref()
        .map(str::parse::<ModelRef>)
        .transpose()
        .map_err(Failure::usage)?;
    let session = match (arguments.which.session, arguments.which.resume) {
        (Some(id), _) => LaunchSession::Id(id),
        (None, true) => LaunchSession::Last,
        (None, false) => LaunchSession::New,
    };
    if let Some(file) = &loaded.untrusted {
        tell(&untrusted_notice(file));
    }
    let (launch, chosen) = (
        launch(&setup, session, String::new()),
        chosen(&loaded, model)?,
    );
    if arguments.standalone {
        let server = standalone::start(&setup.paths, &loaded.config, Vec::new())?;
        let shown = show(
            &setup,
            &loaded.config,
            &chosen,
            launch,
            Arc::clone(&server.connect),
            server.credential.clone(),
        );
        server.stop();
        return shown;
    }
    let credential = credential(&setup.paths).map_err(Failure::failed)?;
    let connect = Arc::new(DaemonConnect::new(&setup.paths).map_err(Failure::failed)?);
    show(&setup, &loaded.config, &chosen, launch, connect, credential)
}

/// How new sessions begin.
fn chosen(loaded: &Loaded, model: Option<ModelRef>) -> Outcome<Chosen> {
    let permission_mode =
        serde_json::to_value(loaded.config.permission_mode).map_err(Failure::failed)?;
    Ok(Chosen {
        model,
        thinking: None,
        permission_mode,
    })
}

/// What the interface begins with.
pub fn launch(setup: &Setup, session: LaunchSession, prompt: String) -> Launch {
    Launch {
        directory: setup.directory.clone(),
        session,
        prompt,
        environment: environment(),
    }
}

/// Shows the interface until the person leaves.
pub fn show(
    setup: &Setup,
    config: &Config,
    chosen: &Chosen,
    launch: Launch,
    connect: Arc<dyn Connect>,
    credential: Credential,
) -> Outcome {
    bezel_host_tui::install_panic_hook();
    logging::start(logging::Target::File(setup.paths.logs.join("tui.log")))
        .map_err(Failure::usage)?;
    runtime()?.block_on(async {
        let started = TuiHost::start(TuiOptions {
            manifest: manifest::tui(config, chosen),
            facets: bezel_dist_tui::facets(),
            connect,
            hello: hello(credential),
            terminal: terminal(config),
            launch,
            deadlines: Deadlines::default(),
        });
        let exit = started
            .await
            .map_err(|error| match error {
                StartError::Terminal(_) => Failure::failed(
                    anyhow::Error::new(error)
                        .context("cannot use this terminal; `bezel run` works without one"),
                ),
                StartError::Assembly(_) => Failure::failed(error),
            })?
            .finished()
            .await;
        for failure in exit.failures {
            tracing::warn!(target: "bezel", %failure, "the interface did not end in order");
        }
        if !exit.quit.message.is_empty() {
            tell(&exit.quit.message);
        }
        match exit.quit.code {
            0 => Ok(Exit::Done),
            130 => Ok(Exit::Interrupted),
            _ if exit.quit.message.is_empty() => Err(Failure::failed(anyhow!(
                "the interface ended; the log has more"
            ))),
            _ => Ok(Exit::Failed),
        }
    })
}

fn terminal(config: &Config) -> TerminalOptions {
    let keys = config.keys.iter().filter_map(|(chord, command)| {
        let command = (!command.is_empty()).then(|| command.as_str().into());
        // The configuration was checked: every chord can be read.
        Some((chord.parse().ok()?, command))
    });
    TerminalOptions {
        theme: match config.theme {
            Theme::Auto => ThemeChoice::Auto,
            Theme::Light => ThemeChoice::Light,
            Theme::Dark => ThemeChoice::Dark,
        },
        mouse: config.tui.mouse,
        keys: keys.collect(),
        ..TerminalOptions::from_variables(|name| std::env::var(name).ok())
    }
}
