//! The server's own process.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bezel_context::TaskScope;
use bezel_host_server::{
    Clock, ExitReason, Listener, LocalToken, RunningServer, ServerHost, ServerOptions, ServerPaths,
};
use bezel_plugin::Deadlines;
use bezel_rpc::{PeerIdentity, Transport};
use bezel_sockets::UnixListener;
use bezel_telemetry::Process;
use futures::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::launch::ProcessLauncher;
use super::lock::{ServerLock, StartLock};
use super::port::Port;
use super::removals::Removals;
use super::serving::{self, Remote};
use super::start::Announcement;
use super::token::read_or_create_token;
use crate::config::{self, Config, Sources};
use crate::failure::{Exit, Failure, Outcome};
use crate::paths::{Paths, create_private};
use crate::{logging, manifest, setup, telemetry};

/// After this time a socket is tried again that could not be made anew.
const AGAIN: Duration = Duration::from_secs(5);

/// How long the watchers of worker processes get at the end.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves until it is asked to end. `announced` when a client waits on standard output for it, `remote`
/// where other machines may connect.
pub fn serve(paths: &Paths, announced: bool, remote: Option<Remote>) -> Outcome {
    let outcome = start_and_serve(paths, announced, remote);
    if let (true, Err(Failure::Message(_, error))) = (announced, &outcome) {
        announce(&Announcement::Refused(format!("{error:#}")));
    }
    outcome
}

fn start_and_serve(paths: &Paths, announced: bool, remote: Option<Remote>) -> Outcome {
    // Standard error is a log where a client started this process, and a person's terminal in `bezel serve`.
    let log = match &remote {
        Some(_) => logging::Target::File(paths.server_log()),
        None => logging::Target::StandardError,
    };
    logging::start_with_spans(log, telemetry::of_process(Process::Server))
        .map_err(Failure::usage)?;
    paths.create_run().map_err(Failure::failed)?;
    // A client that waits holds this lock; by hand, nobody does, and others must not probe meanwhile.
    let turn = if announced {
        None
    } else {
        Some(StartLock::take(&paths.start_lock()).map_err(Failure::failed)?)
    };
    if announced && let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "the server stays in its starter's session");
    }
    let _lock = ServerLock::take(&paths.server_lock()).map_err(Failure::failed)?;
    let sources = Sources {
        user: paths.config.clone(),
        environment: setup::environment(),
        ..Sources::default()
    };
    let config = config::load(&sources, manifest::plugins)?.config;
    let token = read_or_create_token(&paths.token()).map_err(Failure::failed)?;
    create_private(&paths.data).map_err(Failure::failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build()
        .context("cannot start the server's runtime")
        .map_err(Failure::failed)?;
    runtime.block_on(run(paths, &config, token, announced, turn, remote))
}

async fn run(
    paths: &Paths,
    config: &Config,
    token: String,
    announced: bool,
    turn: Option<StartLock>,
    remote: Option<Remote>,
) -> Outcome {
    let tasks = TaskScope::new();
    let path = paths.socket().map_err(Failure::failed)?;
    let socket = UnixListener::bind(&path).map_err(Failure::failed)?;
    let port = match remote {
        Some(remote) => Some(remote.listen(tasks.spawner()).await?),
        None => None,
    };
    let url = port.as_ref().map(|port| port.url().to_owned());
    let (close, closing) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let server = ServerHost::start(ServerOptions {
        manifest: manifest::server(config, Some(paths)),
        facets: bezel_dist_server::facets(),
        paths: server_paths(paths),
        launcher: Arc::new(ProcessLauncher::new(paths.clone(), tasks.spawner())),
        listener: Some(Box::new(ClosingListener {
            open: Some(Open::new(path, socket, port)),
            closing,
        })),
        local_token: Some(LocalToken::new(token)),
        owner: owner(),
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::system(),
        deadlines: Deadlines::default(),
        // One that somebody started to be reached stays.
        idle_after: minutes(config.server.idle_exit_minutes).filter(|_| url.is_none()),
    })
    .await
    .map_err(Failure::failed)?;
    report(&server);
    if announced {
        announce(&Announcement::Ready);
        release_output();
    }
    let _served = match &url {
        Some(url) => Some(serving::announce(paths, url, server.local()).await?),
        None => None,
    };
    drop(turn);
    let reason = tokio::select! {
        reason = server.exit_requested() => match reason {
            ExitReason::Idle => "nobody needs it",
            ExitReason::Requested => "a client asked for it",
        },
        _ = terminate.recv() => "it was asked to end",
        _ = interrupt.recv() => "it was interrupted",
    };
    tracing::info!(target: "bezel", reason, "the server ends");
    // First the socket: who comes now starts the next server instead of waiting for this one.
    close.send_replace(true);
    close.closed().await;
    for problem in server.stop().await {
        tracing::warn!(target: "bezel", problem, "the server did not end in order");
    }
    let overran = tasks.shutdown(GOODBYE).await;
    tracing::debug!(?overran, "workers are left");
    Ok(Exit::Done)
}

/// Where a server under `paths` keeps what it keeps.
pub fn server_paths(paths: &Paths) -> ServerPaths {
    ServerPaths {
        database: paths.data.join("server.db"),
        sessions: paths.data.join("sessions"),
    }
}

/// Whose sessions these are.
pub fn owner() -> String {
    format!("user-{}", rustix::process::getuid().as_raw())
}

/// A time to wait; none for never.
pub fn minutes(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(60 * u64::from(count)))
}

fn report(server: &RunningServer) {
    for plugin in server.report() {
        if let bezel_plugin::FacetStatus::Unavailable(reason) = plugin.status {
            tracing::warn!(target: "bezel", plugin = %plugin.plugin, reason, "a plugin is not available");
        }
    }
    tracing::info!(target: "bezel", version = env!("CARGO_PKG_VERSION"), "the server listens");
}

/// Tells the client that started this process.
fn announce(announcement: &Announcement) {
    let mut out = io::stdout().lock();
    let written = serde_json::to_writer(&mut out, announcement).map_err(io::Error::from);
    if let Err(error) = written
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush())
    {
        tracing::debug!(%error, "the client that started the server has gone");
    }
}

/// Lets go of the pipe to the client that started this process.
fn release_output() {
    if io::stdout().is_terminal() {
        return;
    }
    let released = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .and_then(|null| rustix::stdio::dup2_stdout(null).map_err(io::Error::from));
    if let Err(error) = released {
        tracing::warn!(%error, "standard output stays open");
    }
}

/// Takes connections until it is told to close; then socket and port are gone at once.
struct ClosingListener {
    open: Option<Open>,
    closing: watch::Receiver<bool>,
}

/// Where connections come in.
struct Open {
    path: PathBuf,
    /// None after it could not be made again.
    socket: Option<UnixListener>,
    /// Hears when the socket's file goes.
    removals: Option<Removals>,
    port: Option<Port>,
}

impl Open {
    fn new(path: PathBuf, socket: UnixListener, port: Option<Port>) -> Self {
        Open {
            removals: removals(&path),
            path,
            socket: Some(socket),
            port,
        }
    }

    /// Listens again where somebody has removed the socket's file, as those who clean temporary directories
    /// do: nobody could reach this server any more, and no other could take its place.
    fn restore(&mut self) {
        if self.socket.is_some() && self.path.exists() {
            return;
        }
        // First the old one, which holds the lock beside the file.
        self.socket = None;
        self.removals = removals(&self.path);
        match UnixListener::bind(&self.path) {
            Ok(socket) => {
                tracing::warn!(target: "bezel", "the socket's file was removed; it is there again");
                self.socket = Some(socket);
            }
            Err(error) => {
                tracing::warn!(target: "bezel", %error, "the socket's file is gone");
            }
        }
    }
}

fn removals(socket: &Path) -> Option<Removals> {
    let watched = Removals::of(socket.parent()?);
    watched
        .inspect_err(|error| {
            tracing::warn!(target: "bezel", %error, "nobody will notice if the socket's file is removed");
        })
        .ok()
}

/// Waits until the socket's file may be gone, or, where it is, until it is time to try again.
async fn doubt(removals: &mut Option<Removals>, is_open: bool) {
    match removals {
        _ if !is_open => tokio::time::sleep(AGAIN).await,
        Some(removed) => {
            if let Err(error) = removed.next().await {
                tracing::warn!(target: "bezel", %error, "the socket's directory is not watched any more");
                *removals = None;
            }
        }
        None => std::future::pending().await,
    }
}

async fn local(socket: &mut Option<UnixListener>) -> io::Result<(Transport, PeerIdentity)> {
    match socket {
        Some(socket) => socket.accept().await,
        None => std::future::pending().await,
    }
}

async fn next(port: &mut Option<Port>) -> io::Result<(Transport, PeerIdentity)> {
    match port {
        Some(port) => port.accept().await,
        None => std::future::pending().await,
    }
}

impl Listener for ClosingListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Transport, PeerIdentity)>> {
        Box::pin(async move {
            while let Some(open) = &mut self.open {
                let is_open = open.socket.is_some();
                tokio::select! {
                    biased;
                    _ = self.closing.wait_for(|closing| *closing) => break,
                    accepted = local(&mut open.socket) => return accepted,
                    accepted = next(&mut open.port) => return accepted,
                    () = doubt(&mut open.removals, is_open) => open.restore(),
                }
            }
            self.open = None;
            // Nobody receives any more: whoever closes sees that it is done.
            self.closing = watch::channel(true).1;
            std::future::pending().await
        })
    }
}
