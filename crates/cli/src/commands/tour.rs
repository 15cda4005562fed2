//! The tour: a scripted model with real tools, in a directory of its own, by hosts of this process alone.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use bezel_context::Context;
use bezel_host_headless::{Choice, HeadlessOptions};
use bezel_host_tui::LaunchSession;
use bezel_session_types::ModelRef;
use bezel_sessions_contract::{LaunchEnvironment, PermissionMode};
use serde_json::json;

use crate::additions::Additions;
use crate::arguments::TourArguments;
use crate::commands::open::{launch, show};
use crate::commands::run::{play, runtime};
use crate::connect::join_through;
use crate::failure::{Failure, Outcome};
use crate::manifest::{self, Chosen};
use crate::scratch::Scratch;
use crate::setup::{Setup, environment};
use crate::{logging, standalone};

/// What the person of the tour asks.
pub const PROMPT: &str = "Show me what you can do.";

/// Plays the tour: in the interface where there is a terminal, else as text or JSON lines.
pub fn run(arguments: TourArguments) -> Outcome {
    let setup = Setup::new(None)?;
    let config = setup.load(Vec::new())?.config;
    let scratch = Scratch::new()?;
    let work = scratch.path().join("tour");
    std::fs::create_dir(&work).map_err(Failure::failed)?;
    let here = Setup {
        directory: work.clone(),
        paths: standalone::throwaway(&setup.paths, scratch.path()),
    };
    let model = ModelRef {
        provider: manifest::STAND_IN.to_owned(),
        model_id: "tour".to_owned(),
    };
    let interactive = !arguments.json && io::stdout().is_terminal() && io::stdin().is_terminal();
    // A person reads along; whatever else reads does not wait.
    let mut told = json!({ "scratch": work, "not_installed": !is_on_path() });
    if !interactive {
        told["pace_ms"] = json!(0);
    }
    let server = standalone::start(
        &here.paths,
        &config,
        Additions::telling(vec![(manifest::STAND_IN, told)]),
    )?;
    let outcome = if interactive {
        let chosen = Chosen {
            model: Some(model),
            thinking: None,
            agent: None,
            permission_mode: PermissionMode::Full,
        };
        let launch = launch(&here, LaunchSession::New, PROMPT.to_owned());
        show(
            &setup,
            &config,
            &chosen,
            launch,
            Arc::clone(&server.connect),
            server.credential.clone(),
        )
    } else {
        logging::start(logging::Target::File(setup.paths.logs.join("client.log")))
            .map_err(Failure::usage)?;
        let options = HeadlessOptions {
            prompt: PROMPT.to_owned(),
            pictures: Vec::new(),
            choice: Choice::New {
                model: Some(model),
                agent: None,
                permission_mode: PermissionMode::Full,
            },
            directory: work.display().to_string(),
            environment: LaunchEnvironment(environment()),
            switch_model: None,
            unreachable: true,
            stand_in: None,
        };
        runtime()?.block_on(async {
            let cx = Context::background();
            let joined =
                join_through(&cx, Arc::clone(&server.connect), server.credential.clone()).await;
            play(
                &cx,
                joined.map_err(Failure::failed)?,
                options,
                arguments.json,
            )
            .await
        })
    };
    server.stop();
    outcome
}

/// Whether `bezel` can be started by its name.
fn is_on_path() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("bezel").is_file())
}
