//! `bezel` alone: the terminal interface in this directory.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use anyhow::anyhow;
use bezel_host_tui::{
    Launch, LaunchSession, StartError, TerminalOptions, ThemeChoice, TuiHost, TuiOptions,
};
use bezel_plugin::Deadlines;
use bezel_rpc::{Connect, Credential};
use bezel_session_types::{ModelRef, PermissionMode};
use bezel_telemetry::Process;

use crate::additions::Additions;
use crate::arguments::{OpenArguments, TourArguments};
use crate::commands::run::{is_piped_into, runtime, tell};
use crate::commands::tour;
use crate::config::{Config, Loaded, Permission, Theme};
use crate::connect::{DaemonConnect, credential, hello};
use crate::daemon::{self, Status};
use crate::failure::{Exit, Failure, Outcome};
use crate::manifest::{self, Chosen};
use crate::setup::{Setup, environment, untrusted_notice};
use crate::{agents, keys, logging, standalone, telemetry};

/// Opens the interface. Where nothing could answer a prompt it plays the tour instead, with or without a
/// terminal.
pub fn run(arguments: OpenArguments) -> Outcome {
    let setup = Setup::new(arguments.cwd.as_deref())?;
    let flags = arguments
        .model
        .iter()
        .map(|model| ("--model", "model", model.clone()))
        .collect();
    let loaded = setup.load(flags)?;
    let answers = keys::anything_answers(&loaded.config, &environment())
        || setup.paths.credentials().exists();
    let plain = arguments == OpenArguments::default();
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let meant = match (plain, answers) {
            (false, _) => "these options are for",
            (true, true) => "with a model `bezel` opens",
            (true, false) if is_piped_into() => "what is piped in is not for",
            (true, false) => return tour::run(TourArguments::default()),
        };
        return Err(Failure::usage(anyhow!(
            "{meant} the terminal interface, and there is no terminal here: `bezel run \"PROMPT\"` needs none \
             and takes piped text; `bezel tour` plays the tour"
        )));
    }
    if plain && !answers {
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
    let is_new = matches!(session, LaunchSession::New);
    let agent = arguments.agent.as_deref();
    agents::check_is_new(agent, is_new)?;
    let sources = setup.sources(Vec::new());
    let notices = agents::check_start(&sources, &loaded.config, agent, is_new)?;
    if let Some(file) = &loaded.untrusted {
        tell(&untrusted_notice(file));
    }
    for notice in notices {
        tell(&notice);
    }
    // A new session that nothing answers but the tour begins with it.
    let prompt = match session {
        LaunchSession::New if !answers => tour::PROMPT,
        _ => "",
    };
    let (launch, chosen) = (
        launch(&setup, session, prompt.to_owned()),
        Chosen {
            agent: arguments.agent,
            ..chosen(&loaded, model, arguments.permission_mode)
        },
    );
    if arguments.standalone {
        let server = standalone::start(&setup.paths, &loaded.config, Additions::default())?;
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
    // Said here, and not behind a screen that waits for a server.
    if let Status::Standalone(owner) = daemon::status(&setup.paths).map_err(Failure::failed)? {
        return Err(Failure::failed(anyhow!(daemon::open_elsewhere(owner.pid))));
    }
    let credential = credential(&setup.paths).map_err(Failure::failed)?;
    let connect = Arc::new(DaemonConnect::new(&setup.paths).map_err(Failure::failed)?);
    show(&setup, &loaded.config, &chosen, launch, connect, credential)
}

/// How new sessions begin. A person sits there, so what nobody has decided is asked.
pub fn chosen(loaded: &Loaded, model: Option<ModelRef>, permission: Option<Permission>) -> Chosen {
    let permission = permission.or(loaded.config.permission_mode);
    Chosen {
        model,
        thinking: None,
        agent: None,
        permission_mode: permission.map_or(PermissionMode::Ask, PermissionMode::from),
    }
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
    logging::start_with_spans(
        logging::Target::File(setup.paths.logs.join("tui.log")),
        telemetry::of_process(Process::Presentation),
    )
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
