//! Starts one process for each session, and finds those again that an earlier server started.

use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use bezel_context::{Context, Spawner};
use bezel_host_server::{
    Errand, ErrandOutcome, LaunchError, LaunchedWorker, WorkerExit, WorkerLauncher, WorkerStart,
};
use bezel_rpc::Connect;
use bezel_session_types::{SESSION_VARIABLE, SessionId};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::AsyncWriteExt as _;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::leftovers;
use super::start::itself;
use crate::logging;
use crate::paths::Paths;

/// Starts workers as processes of this very binary.
pub struct ProcessLauncher {
    paths: Paths,
    spawner: Spawner,
}

impl ProcessLauncher {
    /// Workers will log under `paths` and be watched by tasks of `spawner`.
    pub fn new(paths: Paths, spawner: Spawner) -> Self {
        ProcessLauncher { paths, spawner }
    }

    fn start(&self, start: WorkerStart) -> Result<Box<dyn LaunchedWorker>, LaunchError> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            LaunchError(format!(
                "cannot {what} for session {}: {error}",
                start.session_id
            ))
        };
        let path = self.paths.session_log(start.session_id.as_str());
        let log = logging::open(&path).map_err(|error| wrong("open the log", &error))?;
        let begin = log
            .metadata()
            .map_err(|error| wrong("read the log", &error))?
            .len();
        let binary = itself().map_err(|error| wrong("find the binary", &error))?;
        let mut command = std::process::Command::new(binary);
        // A group of its own: a signal for the server's group, and Ctrl-C, are not for a worker.
        command
            .arg0("bezel-worker")
            .arg("worker")
            .env_remove(SESSION_VARIABLE)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        let mut child = Command::from(command)
            .spawn()
            .map_err(|error| wrong("start a process", &error))?;
        let input = child.stdin.take();
        let process =
            Process::of_child(&child).map_err(|error| wrong("watch the process", &error))?;
        let (sender, exit) = watch::channel(None);
        let text =
            serde_json::to_vec(&start).map_err(|error| wrong("describe the work", &error))?;
        self.spawner.spawn("worker process", async move {
            // Larger than a pipe's buffer where the shell's environment is; a worker that died first is seen below.
            if let Some(mut input) = input
                && let Err(error) = async {
                    input.write_all(&text).await?;
                    input.shutdown().await
                }
                .await
            {
                tracing::warn!(%error, "a worker did not take its start");
            }
            let ended = child.wait().await;
            sender.send_replace(Some(match ended {
                Ok(status) => described(status, || logging::tail(&path, begin, 12)),
                Err(error) => WorkerExit {
                    orderly: false,
                    description: format!("is lost: {error}"),
                },
            }));
        });
        Ok(Box::new(WorkerProcess {
            process: Arc::new(process),
            exit,
        }))
    }
}

/// Does an errand in a process of its own, which ends with it: what was brought cannot break this one.
async fn errand(errand: Errand) -> Result<ErrandOutcome, anyhow::Error> {
    let mut command = std::process::Command::new(itself().context("cannot find the binary")?);
    command
        .arg0("bezel-worker")
        .args(["worker", "--errand"])
        .env_remove(SESSION_VARIABLE)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a process")?;
    let text = serde_json::to_vec(&errand)?;
    if let Some(mut input) = child.stdin.take() {
        input
            .write_all(&text)
            .await
            .context("the process did not take its errand")?;
    }
    let output = child
        .wait_with_output()
        .await
        .context("the process is lost")?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let ended = described(output.status, || {
            String::from_utf8_lossy(&output.stderr).trim().into()
        });
        anyhow!("the process that did it {}", ended.description)
    })
}

impl WorkerLauncher for ProcessLauncher {
    fn errand(&self, errand: Errand) -> BoxFuture<'_, Result<ErrandOutcome, LaunchError>> {
        async move {
            let done = self::errand(errand).await;
            done.map_err(|error| LaunchError(format!("the errand was not done: {error:#}")))
        }
        .boxed()
    }

    fn forget(&self, session_id: &SessionId) -> std::io::Result<()> {
        leftovers::remove_files(session_id, &self.paths)
    }

    fn clear(&self, session_id: &SessionId) -> usize {
        leftovers::end(session_id)
    }

    fn launch(
        &self,
        _cx: &Context,
        start: WorkerStart,
        _server: Arc<dyn Connect>,
    ) -> BoxFuture<'_, Result<Box<dyn LaunchedWorker>, LaunchError>> {
        async move { self.start(start) }.boxed()
    }

    fn adopt(&self, identity: &str) -> Option<Box<dyn LaunchedWorker>> {
        let process = Process::of_identity(identity)?;
        let (sender, exit) = watch::channel(None);
        let handle = process.handle.try_clone().ok()?;
        self.spawner.spawn("adopted worker process", async move {
            // Not this process's child: its end is seen, its status is not.
            // SAFETY: an `OwnedFd` names one open file for as long as it lives and never gives it out to be
            // closed; `AsyncFd` owns it, and deregisters it before it is dropped.
            let watched = unsafe { AsyncFd::register(handle) };
            let description = match watched {
                Ok(handle) => match handle.readable().await {
                    Ok(_) => "ended".to_owned(),
                    Err(error) => format!("is lost: {error}"),
                },
                Err(error) => format!("cannot be watched: {error}"),
            };
            sender.send_replace(Some(WorkerExit {
                orderly: false,
                description,
            }));
        });
        Some(Box::new(WorkerProcess {
            process: Arc::new(process),
            exit,
        }))
    }
}

struct WorkerProcess {
    process: Arc<Process>,
    exit: watch::Receiver<Option<WorkerExit>>,
}

impl LaunchedWorker for WorkerProcess {
    fn process_id(&self) -> Option<u32> {
        Some(self.process.id)
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{}:{}", self.process.id, self.process.started))
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
                description: "is no longer watched".to_owned(),
            })
        }
        .boxed()
    }

    fn request_stop(&self) {
        self.process.signal(Signal::TERM);
    }

    fn kill(&self) {
        self.process.signal(Signal::KILL);
    }
}

/// A process, held so that a signal never reaches another one that got its number later.
struct Process {
    id: u32,
    /// When it started, in the kernel's ticks since boot, and which boot that was.
    started: String,
    handle: OwnedFd,
}

impl Process {
    fn of_child(child: &Child) -> std::io::Result<Self> {
        let id = child
            .id()
            .ok_or_else(|| std::io::Error::other("it ended at once"))?;
        let handle = pidfd(id)?;
        Ok(Process {
            id,
            started: started(id)?,
            handle,
        })
    }

    fn of_identity(identity: &str) -> Option<Self> {
        let (id, expected) = identity.split_once(':')?;
        let id: u32 = id.parse().ok()?;
        // First the handle, then the check: what the handle names cannot change any more.
        let handle = pidfd(id).ok()?;
        let started = started(id).ok()?;
        (started == expected).then_some(Process {
            id,
            started,
            handle,
        })
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = pidfd_send_signal(&self.handle, signal) {
            tracing::debug!(process = self.id, %error, "a worker could not be signalled; it has ended");
        }
    }
}

fn pidfd(id: u32) -> std::io::Result<OwnedFd> {
    let pid = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn started(id: u32) -> std::io::Result<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // Field 22; the second field is the name in parentheses and may hold anything.
    let ticks = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(19));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let ticks = ticks.ok_or_else(|| std::io::Error::other("its status cannot be read"))?;
    Ok(format!("{ticks}@{}", boot.trim()))
}

/// How a process ended, with its last words where it gave up by itself.
fn described(status: ExitStatus, last_words: impl FnOnce() -> String) -> WorkerExit {
    let description = match (status.code(), status.signal()) {
        (Some(0), _) => "exited".to_owned(),
        (Some(code), _) => match last_words() {
            words if words.is_empty() => format!("exited with status {code}"),
            words => format!("exited with status {code}: {words}"),
        },
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    WorkerExit {
        orderly: status.success(),
        description,
    }
}
