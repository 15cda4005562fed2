//! The same hosts in one process: each on a thread and a runtime of its own, connected over loopback.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use bezel_context::Context;
use bezel_host_server::{
    Clock, Errand, ErrandOutcome, LaunchError, LaunchedWorker, LocalToken, ServerHost,
    ServerOptions, WorkerExit, WorkerLauncher, WorkerStart,
};
use bezel_plugin::Deadlines;
use bezel_rpc::{Connect, ConnectError, Credential, Transport};
use bezel_session_types::{PermissionMode, SessionId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};

use crate::additions::Additions;
use crate::config::Config;
use crate::daemon::{self, LockError, ServerLock, StartLock};
use crate::failure::{Failure, Outcome};
use crate::manifest;
use crate::paths::{Paths, create_private};
use crate::worker;

/// A server in this process.
pub struct Standalone {
    /// Connects presentations to it.
    pub connect: Arc<dyn Connect>,
    /// What they show.
    pub credential: Credential,
    /// What the configuration lets new sessions do unasked, where it says so.
    pub permission_mode: Option<PermissionMode>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Released once the sessions are closed.
    lock: Option<ServerLock>,
}

/// What the server's thread hands out once it is ready.
struct Ready {
    connect: Arc<dyn Connect>,
}

/// Starts a server that keeps its files under `paths`. Blocks until it is ready.
pub fn start(paths: &Paths, config: &Config, additions: Additions) -> Outcome<Standalone> {
    create_private(&paths.data).map_err(Failure::failed)?;
    let lock = keep_servers_away(paths)?;
    let secret = secret();
    let (token, credential) = (LocalToken::new(secret.clone()), Credential::token(secret));
    let permission_mode = config.permission_mode.map(PermissionMode::from);
    let (paths, config) = (paths.clone(), config.clone());
    let (stop, stopped) = oneshot::channel();
    let (sender, receiver) = oneshot::channel::<Result<Ready, anyhow::Error>>();
    let thread = spawn("bezel-server", move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                // The starter waits below.
                sender.send(Err(error)).ok();
                return;
            }
        };
        runtime.block_on(serve(paths, config, additions, token, sender, stopped));
    })
    .context("cannot start the server's thread")
    .map_err(Failure::failed)?;
    match receiver.blocking_recv() {
        Ok(Ok(Ready { connect })) => Ok(Standalone {
            connect,
            credential,
            permission_mode,
            stop: Some(stop),
            thread: Some(thread),
            lock: Some(lock),
        }),
        Ok(Err(error)) => Err(Failure::failed(error)),
        Err(_) => Err(Failure::failed(anyhow!(
            "the server's thread ended while it started; the log has more"
        ))),
    }
}

/// Two that write the same sessions would spoil them, so one says at once that the other is there.
fn keep_servers_away(paths: &Paths) -> Outcome<ServerLock> {
    paths.create_run().map_err(Failure::failed)?;
    let turn = StartLock::take(&paths.start_lock()).map_err(Failure::failed)?;
    ServerLock::take_standalone(&turn, &paths.server_lock()).map_err(|error| match error {
        LockError::Held { owner: Some(owner) } if owner.standalone => Failure::failed(anyhow!(
            "{}; or set BEZEL_HOME to another directory for this one",
            daemon::open_elsewhere(owner.pid)
        )),
        LockError::Held { owner } => Failure::failed(anyhow!(
            "the server{} has the sessions: leave --standalone out to join it, or end it first with `bezel server stop`",
            owner.map_or_else(String::new, |owner| format!(" (process {})", owner.pid))
        )),
        error => Failure::failed(error),
    })
}

impl Standalone {
    /// Ends the workers and the server.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take()
            && stop.send(()).is_err()
        {
            tracing::debug!("the server's thread had ended already");
        }
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!(target: "bezel", "the server's thread panicked");
        }
        drop(self.lock.take());
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve(
    paths: Paths,
    config: Config,
    additions: Additions,
    token: LocalToken,
    ready: oneshot::Sender<Result<Ready, anyhow::Error>>,
    stopped: oneshot::Receiver<()>,
) {
    let started = ServerHost::start(ServerOptions {
        manifest: manifest::server(&config, None),
        facets: bezel_dist_server::facets(),
        paths: daemon::server_paths(&paths),
        launcher: Arc::new(ThreadLauncher { paths, additions }),
        listener: None,
        local_token: Some(token),
        owner: daemon::owner(),
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::system(),
        deadlines: Deadlines::default(),
        idle_after: None,
    })
    .await;
    let server = match started {
        Ok(server) => server,
        Err(error) => {
            ready.send(Err(error.into())).ok();
            return;
        }
    };
    let connect = Arc::new(OnRuntime {
        handle: Handle::current(),
        connect: server.local(),
    });
    if ready.send(Ok(Ready { connect })).is_ok() {
        // Also when the starter is gone without a word.
        stopped.await.ok();
    }
    for problem in server.stop().await {
        tracing::warn!(target: "bezel", problem, "the server did not end in order");
    }
}

/// Connects on the server's own runtime, so that its connections run on its thread.
struct OnRuntime {
    handle: Handle,
    connect: Arc<dyn Connect>,
}

impl Connect for OnRuntime {
    fn connect<'c>(&'c self, cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        let (connect, context) = (Arc::clone(&self.connect), cx.clone());
        let attempt = self
            .handle
            .spawn(async move { connect.connect(&context).await });
        async move {
            match attempt.await {
                Ok(connected) => connected,
                Err(error) => Err(ConnectError::Unreachable {
                    endpoint: "the server of this process".to_owned(),
                    cause: io::Error::other(error),
                }),
            }
        }
        .boxed()
    }
}

/// Runs each worker on a thread of its own.
struct ThreadLauncher {
    paths: Paths,
    additions: Additions,
}

struct WorkerThread {
    stop: watch::Sender<End>,
    exit: watch::Receiver<Option<WorkerExit>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    No,
    Asked,
    AtOnce,
}

impl WorkerLauncher for ThreadLauncher {
    fn errand(&self, errand: Errand) -> BoxFuture<'_, Result<ErrandOutcome, LaunchError>> {
        async move {
            let done = tokio::task::spawn_blocking(move || crate::errand::perform(errand)).await;
            done.map_err(|error| LaunchError(format!("the errand was not done: {error}")))
        }
        .boxed()
    }

    fn forget(&self, session_id: &SessionId) -> io::Result<()> {
        daemon::remove_files(session_id, &self.paths)
    }

    fn launch(
        &self,
        _cx: &Context,
        start: WorkerStart,
        server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, Result<Box<dyn LaunchedWorker>, LaunchError>> {
        async move {
            let connect = Arc::new(OnRuntime {
                handle: Handle::current(),
                connect: server,
            });
            let (paths, additions) = (self.paths.clone(), self.additions.clone());
            let (stop, asked) = watch::channel(End::No);
            let (sender, exit) = watch::channel(None);
            let session = start.session_id.clone();
            let run = move || {
                let left = daemon::end_left_over_commands(&start.session_id);
                if left > 0 {
                    tracing::info!(target: "bezel", session = %start.session_id, left, "processes that a dead worker had left were ended");
                }
                let ended = match runtime() {
                    Ok(runtime) => runtime.block_on(work(paths, start, connect, additions, asked)),
                    Err(error) => Err(error),
                };
                sender.send_replace(Some(match ended {
                    Ok(()) => WorkerExit {
                        orderly: true,
                        description: "ended".to_owned(),
                    },
                    Err(error) => WorkerExit {
                        orderly: false,
                        description: format!("ended: {error:#}"),
                    },
                }));
            };
            spawn("bezel-worker", run).map_err(|error| {
                LaunchError(format!(
                    "cannot start a thread for session {session}: {error}"
                ))
            })?;
            Ok(Box::new(WorkerThread { stop, exit }) as Box<dyn LaunchedWorker>)
        }
        .boxed()
    }
}

async fn work(
    paths: Paths,
    start: WorkerStart,
    connect: Arc<dyn Connect>,
    additions: Additions,
    mut asked: watch::Receiver<End>,
) -> Result<(), anyhow::Error> {
    let session = match worker::start(&paths, start, connect, additions).await {
        Ok(session) => session,
        Err(Failure::Message(_, error)) => return Err(error),
        Err(Failure::BrokenPipe) => return Ok(()),
    };
    let reason = tokio::select! {
        reason = session.retired() => reason,
        _ = asked.wait_for(|end| *end != End::No) => "it was asked to end".to_owned(),
    };
    tokio::select! {
        () = worker::end(session, &reason) => {}
        _ = asked.wait_for(|end| *end == End::AtOnce) => {}
    }
    Ok(())
}

impl LaunchedWorker for WorkerThread {
    fn process_id(&self) -> Option<u32> {
        None
    }

    fn exited(&self) -> BoxFuture<'static, WorkerExit> {
        let mut exit = self.exit.clone();
        async move {
            let ended = exit
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|exit| exit.clone());
            ended.unwrap_or(WorkerExit {
                orderly: false,
                description: "panicked; the log has more".to_owned(),
            })
        }
        .boxed()
    }

    fn request_stop(&self) {
        self.stop.send_replace(End::Asked);
    }

    fn kill(&self) {
        self.stop.send_replace(End::AtOnce);
    }
}

fn runtime() -> Result<Runtime, anyhow::Error> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn secret() -> String {
    let bytes: [u128; 2] = rand::random();
    format!("{:032x}{:032x}", bytes[0], bytes[1])
}

/// Paths for a server that leaves nothing behind: the user's configuration, all else under `directory`.
pub fn throwaway(paths: &Paths, directory: &Path) -> Paths {
    let scratch = Paths::under(directory.to_owned());
    Paths {
        data: scratch.data,
        run: scratch.run,
        ..paths.clone()
    }
}
