//! The process of one session: told over its standard input what it is, connected to the server.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use bezel_host_server::WorkerStart;
use bezel_host_session::{
    ChildStartError, HarnessConfig, HarnessEngine, RetryConfig, RunningSession, SessionHost,
    SessionHostOptions, SessionIdentity, StartChild, WorkerTree,
};
use bezel_plugin::{Deadlines, FacetStatus};
use bezel_rpc::{Connect, Credential, Hello, Role};
use bezel_sockets::dial_unix;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::additions::Additions;
use crate::config::{self, Config, Sources};
use crate::failure::{Exit, Failure, Outcome};
use crate::manifest::{self, Chosen};
use crate::paths::{Paths, create_private};
use crate::{agents, keys, logging, setup, telemetry};

/// Bytes that a start may have at most: a shell's environment and a little more.
const MOST: u64 = 64 * 1024 * 1024;

/// Runs the worker until it is asked to end or its policy retires it.
pub fn run() -> Outcome {
    let paths = Paths::of_process().map_err(Failure::usage)?;
    let mut text = Vec::new();
    io::stdin()
        .take(MOST)
        .read_to_end(&mut text)
        .context("cannot read what the server says on standard input")
        .map_err(Failure::failed)?;
    let start: WorkerStart = serde_json::from_slice(&text)
        .context("standard input does not hold a worker's start; only the server starts workers")
        .map_err(Failure::usage)?;
    drop(text);
    let environment = start.environment.as_ref().map(|environment| &environment.0);
    let asked = telemetry::of_session(environment);
    logging::start_with_spans(logging::Target::StandardError, asked).map_err(Failure::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .context("cannot start the worker's runtime")
        .map_err(Failure::failed)?;
    runtime.block_on(async {
        let connect = dial_unix(paths.socket().map_err(Failure::failed)?);
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let session = self::start(&paths, start, connect, Additions::default()).await?;
        let reason = tokio::select! {
            reason = session.retired() => reason,
            _ = terminate.recv() => "it was asked to end".to_owned(),
        };
        end(session, &reason).await;
        Ok(Exit::Done)
    })
}

/// Starts the session host of `start`, with the configuration that holds in its directory, and later those of
/// its children.
pub async fn start(
    paths: &Paths,
    mut start: WorkerStart,
    connect: Arc<dyn Connect>,
    additions: Additions,
) -> Outcome<RunningSession> {
    let environment = start
        .environment
        .take()
        .map(|environment| environment.0)
        // Nobody's shell asked: what the server itself was started with.
        .or_else(|| additions.environment.clone())
        .unwrap_or_else(setup::environment);
    let process = Arc::new(Process {
        paths: paths.clone(),
        environment,
        connect,
        additions,
    });
    let tree = WorkerTree::new(Arc::clone(&process) as Arc<dyn StartChild>);
    host(&process, start, tree).await
}

/// What all sessions of one process have in common.
struct Process {
    paths: Paths,
    /// Variables of the shell that started the root: a child has no shell of its own.
    environment: BTreeMap<String, String>,
    connect: Arc<dyn Connect>,
    additions: Additions,
}

impl StartChild for Process {
    fn start(
        &self,
        tree: WorkerTree,
        start: Value,
    ) -> BoxFuture<'_, Result<RunningSession, ChildStartError>> {
        async move {
            let start: WorkerStart = serde_json::from_value(start).map_err(|error| {
                ChildStartError(format!("the server described it in other words: {error}"))
            })?;
            let hosted = host(self, start, tree).await;
            hosted.map_err(|failure| {
                let said = failure.message();
                ChildStartError(said.unwrap_or_else(|| "it ended at once".into()))
            })
        }
        .boxed()
    }
}

async fn host(process: &Process, start: WorkerStart, tree: WorkerTree) -> Outcome<RunningSession> {
    let Process {
        paths,
        environment,
        connect,
        additions,
    } = process;
    let sources = Sources {
        user: paths.config.clone(),
        directory: Some(start.directory.clone()),
        trust: paths.trust(),
        environment: environment.clone(),
        given: additions.given.clone(),
        flags: Vec::new(),
    };
    let config = config::load(&sources, manifest::plugins)?.config;
    let agents = agents::places(&sources)?;
    let above = above(&sources, &start.above)?;
    create_private(&start.output).map_err(Failure::failed)?;
    let mode = start.permission_mode;
    let chosen = Chosen {
        model: start.model,
        thinking: start.thinking_level,
        agent: start.agent,
        permission_mode: mode,
    };
    let mut manifest = manifest::session(&config, paths, &chosen);
    let directories = json!({ "directories": agents.directories });
    manifest::tell(&mut manifest, "agents", directories);
    if start.parent_id.is_some() {
        // Its own place does not say how it is bound.
        let (rules, agents): (Vec<Value>, Vec<Value>) = above.into_iter().unzip();
        let said = json!({ "mode": mode, "above": rules });
        manifest::insist(&mut manifest, "permissions", said);
        manifest::insist(&mut manifest, "agents", json!({ "above": agents }));
    }
    let project = config::project_file(&start.directory);
    let project = project.unwrap_or_else(|| start.directory.join(".bezel/config.toml"));
    // What the policy compares when somebody opens the session later.
    let telling = json!({
        "telling_variables": keys::telling_variables(&config),
        "telling_files": [&paths.config, &project, &paths.trust()],
    });
    manifest::tell(&mut manifest, "policy", telling);
    additions.complete(&mut manifest);
    let mut facets = bezel_dist_session::facets();
    facets.extend(additions.facets.iter().cloned());
    let session = SessionHost::start(SessionHostOptions {
        manifest,
        facets,
        connect: Arc::clone(connect),
        hello: Hello {
            role: Role::Worker,
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            credential: Credential::token(start.credential.reveal()),
        },
        identity: SessionIdentity {
            session_id: start.session_id,
            parent_id: start.parent_id,
            workspace_id: start.workspace_id,
            directory: start.directory,
            output_directory: start.output,
        },
        environment: environment.clone(),
        database: start.database,
        tree,
        engine: Arc::new(HarnessEngine(harness(&config))),
        deadlines: Deadlines::default(),
    })
    .await
    .map_err(Failure::failed)?;
    for plugin in session.report() {
        if let FacetStatus::Unavailable(reason) = plugin.status {
            tracing::warn!(target: "bezel", plugin = %plugin.plugin, reason, "a plugin is not available");
        }
    }
    for problem in session.problems() {
        tracing::warn!(target: "bezel", %problem, "a contribution is not in place");
    }
    Ok(session)
}

/// What holds where the sessions above a session work, for the permissions and for the agents.
fn above(sources: &Sources, directories: &[PathBuf]) -> Outcome<Vec<(Value, Value)>> {
    let mut known: BTreeMap<&PathBuf, (Value, Value)> = BTreeMap::new();
    let mut above = Vec::new();
    for directory in directories {
        let said = match known.get(directory) {
            Some(said) => said.clone(),
            None => {
                let sources = Sources {
                    directory: Some(directory.clone()),
                    ..sources.clone()
                };
                let config = config::load(&sources, manifest::plugins)?.config;
                let agents = agents::places(&sources)?;
                let rules = json!({ "directory": directory, "rules": config.permissions.rules });
                let agents =
                    json!({ "directories": agents.directories, "configured": config.agent });
                (rules, agents)
            }
        };
        known.insert(directory, said.clone());
        above.push(said);
    }
    Ok(above)
}

/// Ends a session host in order.
pub async fn end(session: RunningSession, reason: &str) {
    tracing::info!(target: "bezel", reason, "the worker ends");
    for failure in session.stop().await {
        tracing::warn!(target: "bezel", %failure, "the worker did not end in order");
    }
}

fn harness(config: &Config) -> HarnessConfig {
    let retry = config.retry;
    HarnessConfig {
        retry: RetryConfig {
            retries: retry.max_attempts.saturating_sub(1),
            backoff: std::time::Duration::from_millis(retry.base_delay_ms),
            max_wait: std::time::Duration::from_millis(retry.max_delay_ms),
        },
        ..HarnessConfig::default()
    }
}
