//! The commands of a session: how they start, where, which go on in the background, and that all of them end.

mod job;
mod output;
mod plain;
mod plain_text;
mod pump;
mod scratch;
mod spawn;
mod tree;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bezel_context::{CancelHandle, Context, Spawner};
use bezel_session_types::{SessionId, ToolInvocation};
use bezel_tools_contract::{BackgroundDetails, CommandStatus};
use tokio::sync::watch;

pub(crate) use job::{Feed, Job, JobState, Waited};
pub(crate) use output::{Excerpt, skipped};
pub(crate) use plain_text::{complete_length, plain_text};
pub(crate) use scratch::remove_left_over_scratch;

use crate::{Environment, failure};
use output::Spool;
use scratch::Scratch;
use spawn::{Launch, Shells};
use tree::ProcessTree;

/// Background commands that may run at the same time.
const MOST_RUNNING: usize = 50;
/// Ended background commands whose output can still be read.
const MOST_ENDED: usize = 30;
/// How long the end of a session waits for its commands.
const END_WAIT: Duration = Duration::from_secs(4);

/// Where a command's shell ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Followed {
    /// Where it started.
    Stayed,
    /// In this directory, where the next command starts.
    Moved(PathBuf),
    /// Elsewhere, and it could not be noted where.
    Lost,
}

/// All commands of one session. Dropped, it ends those that still run.
#[derive(Debug)]
pub struct Commands {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: Arc<Environment>,
    spawner: Spawner,
    shells: OnceLock<Shells>,
    // A plain mutex: held for one look or change, never across an await.
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the next command starts; the session's directory until a command went elsewhere.
    directory: Option<PathBuf>,
    scratch: Option<Scratch>,
    launched: u64,
    background: BTreeMap<u64, Background>,
    /// Process groups of ended commands that still have members.
    left_groups: HashSet<i32>,
    session: Option<SessionId>,
    ended: bool,
}

/// A command that goes on while the model does other things.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    pub(crate) id: String,
    pub(crate) state: Arc<JobState>,
    cancel: CancelHandle,
    /// Bytes of output that the model has seen.
    seen: Arc<AtomicU64>,
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("Could not start the command: the session is ending.")]
    Ended,
    #[error(
        "Could not start the command: {MOST_RUNNING} commands run in the background already. End some with bash_kill."
    )]
    TooMany,
    #[error("{described}")]
    Directory { described: String },
    #[error("Could not start the command: {reason}.")]
    Spawn { reason: String },
}

/// Where a command starts and what is to be said about it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    /// The earlier directory, when it is gone.
    pub(crate) gone: Option<PathBuf>,
}

/// A started command with the file that tells in which directory its shell ended.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) job: Job,
    directory_file: PathBuf,
}

impl Commands {
    /// No command yet.
    pub fn new(environment: Arc<Environment>, spawner: Spawner) -> Self {
        let inner = Inner {
            environment,
            spawner,
            shells: OnceLock::new(),
            state: Mutex::default(),
            revision: watch::Sender::new(0),
        };
        Commands {
            inner: Arc::new(inner),
        }
    }

    /// The background commands in the order of their start, ended ones too while their output can be read.
    pub fn background(&self) -> Vec<BackgroundDetails> {
        self.inner
            .lock()
            .background
            .values()
            .map(|command| command.details(0))
            .collect()
    }

    /// A number that grows whenever a background command starts or ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    /// Ends all commands and starts no more. Returns when their processes are gone.
    pub async fn shutdown(&self) {
        let running = self.inner.end_all();
        for mut status in running {
            let over = status.wait_for(|standing| standing.status != CommandStatus::Running);
            if tokio::time::timeout(END_WAIT, over).await.is_err() {
                tracing::warn!("a background command did not end with its session");
            }
        }
        if let Some((session, groups)) = self.inner.take_left_groups() {
            tree::end_groups(&session, &groups).await;
        }
    }

    /// The directory in which the next command starts.
    pub(crate) fn directory(&self, session_directory: &Path) -> PathBuf {
        let directory = self.inner.lock().directory.clone();
        let there = directory.filter(|directory| directory.is_dir());
        there.unwrap_or_else(|| session_directory.into())
    }

    /// Where the next command starts.
    pub(crate) fn place(&self, session_directory: &Path) -> Place {
        let mut state = self.inner.lock();
        match state.directory.clone() {
            Some(directory) if directory.is_dir() => Place {
                directory,
                gone: None,
            },
            gone => {
                state.directory = None;
                Place {
                    directory: session_directory.into(),
                    gone,
                }
            }
        }
    }

    /// Starts a command.
    pub(crate) fn launch(
        &self,
        invocation: &ToolInvocation,
        command: &str,
        directory: &Path,
    ) -> Result<Launched, StartError> {
        let directory_file = self.inner.next_file(&invocation.session_id)?;
        let shells = self
            .inner
            .shells
            .get_or_init(|| Shells::find(&self.inner.environment));
        let launch = Launch {
            command,
            directory,
            session: &invocation.session_id,
            invocation: &invocation.invocation_id,
            directory_file: &directory_file,
        };
        let spool = Arc::new(Spool::new(
            invocation.host.output_file(&invocation.invocation_id),
        ));
        let state = JobState::new(command.into(), directory.into(), spool);
        let started = shells
            .start(&self.inner.environment, &launch)
            .map_err(|error| start_error(directory, &error))?;
        let leader = started
            .child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .unwrap_or_default();
        let tree = ProcessTree::new(leader, &invocation.session_id, &invocation.invocation_id);
        Ok(Launched {
            job: Job::new(state, started, tree),
            directory_file,
        })
    }

    /// Follows a command into the directory in which its shell ended.
    pub(crate) fn follow(&self, launched: &Launched) -> Followed {
        let Ok(noted) = std::fs::read(&launched.directory_file) else {
            return Followed::Stayed;
        };
        if let Err(error) = std::fs::remove_file(&launched.directory_file) {
            tracing::debug!(%error, "a directory note could not be removed");
        }
        use std::os::unix::ffi::OsStringExt as _;
        let noted = noted.strip_suffix(b"\n").unwrap_or(&noted).to_vec();
        let directory = PathBuf::from(std::ffi::OsString::from_vec(noted));
        if !directory.is_absolute() {
            return Followed::Lost;
        }
        self.inner.lock().directory = Some(directory.clone());
        Followed::Moved(directory)
    }

    /// Remembers what an ended command left running, so that it ends with the session.
    pub(crate) fn settled(&self, job: &Job) {
        self.inner.remember_group(job);
    }

    /// Lets a command go on in the background. `time_out` counts from its start.
    pub(crate) fn keep(
        &self,
        launched: Launched,
        time_out: Option<Duration>,
    ) -> Result<Background, StartError> {
        let mut job = launched.job;
        let (cx, cancel) = Context::background().with_cancel();
        let background = {
            let mut state = self.inner.lock();
            if state.ended {
                return Err(StartError::Ended);
            }
            let running = state
                .background
                .values()
                .filter(|command| command.is_running())
                .count();
            if running >= MOST_RUNNING {
                return Err(StartError::TooMany);
            }
            state.forget_oldest();
            let number = state
                .background
                .keys()
                .next_back()
                .map_or(1, |last| last + 1);
            let background = Background {
                id: format!("bash_{number}"),
                state: Arc::clone(&job.state),
                cancel,
                seen: Arc::default(),
            };
            state.background.insert(number, background.clone());
            background
        };
        let inner = Arc::clone(&self.inner);
        let _detached = self.inner.spawner.spawn("background command", async move {
            let status = match job.wait(&cx, time_out, true, None).await {
                Ok(Waited::Ended(status) | Waited::Lingers(status)) => status,
                Ok(Waited::Cancelled) => CommandStatus::Killed,
                Err(error) => {
                    tracing::warn!(%error, "the output of a background command could not be read");
                    CommandStatus::Killed
                }
            };
            inner.remember_group(&job);
            job.state.settle(status);
            inner.revision.send_modify(|revision| *revision += 1);
        });
        self.inner.revision.send_modify(|revision| *revision += 1);
        Ok(background)
    }

    /// The background command of that name, else the names that there are.
    pub(crate) fn find(&self, id: &str) -> Result<Background, Vec<String>> {
        let state = self.inner.lock();
        let found = state
            .background
            .values()
            .find(|command| command.id == id.trim())
            .cloned();
        found.ok_or_else(|| {
            state
                .background
                .values()
                .map(|command| command.id.clone())
                .collect()
        })
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.inner.end_all();
        if let Some((session, groups)) = self.inner.take_left_groups() {
            tree::kill_groups(&session, &groups);
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new file name in a directory of the session's own, which is made for the first command.
    fn next_file(&self, session: &SessionId) -> Result<PathBuf, StartError> {
        let mut state = self.lock();
        if state.ended {
            return Err(StartError::Ended);
        }
        state.session.get_or_insert_with(|| session.clone());
        state.launched += 1;
        let name = format!("{}.cwd", state.launched);
        let scratch = match &state.scratch {
            Some(scratch) => scratch,
            None => {
                let made = Scratch::make(&std::env::temp_dir(), session).map_err(|error| {
                    StartError::Spawn {
                        reason: format!(
                            "a temporary directory could not be made in {}: {error}",
                            std::env::temp_dir().display()
                        ),
                    }
                })?;
                state.scratch.insert(made)
            }
        };
        Ok(scratch.path().join(name))
    }

    fn remember_group(&self, job: &Job) {
        if let Some(group) = job.left_group() {
            self.lock().left_groups.insert(group);
        }
    }

    fn end_all(&self) -> Vec<watch::Receiver<job::Standing>> {
        let mut state = self.lock();
        state.ended = true;
        let running = state
            .background
            .values()
            .filter(|command| command.is_running());
        running
            .map(|command| {
                command.cancel.cancel();
                command.state.watch()
            })
            .collect()
    }

    /// The process groups that ended commands have left; `None` without any.
    fn take_left_groups(&self) -> Option<(SessionId, HashSet<i32>)> {
        let mut state = self.lock();
        let groups = std::mem::take(&mut state.left_groups);
        state
            .session
            .clone()
            .filter(|_| !groups.is_empty())
            .map(|session| (session, groups))
    }
}

impl State {
    fn forget_oldest(&mut self) {
        let ended: Vec<u64> = self
            .background
            .iter()
            .filter(|(_, command)| !command.is_running())
            .map(|(number, _)| *number)
            .collect();
        for number in ended
            .iter()
            .take(ended.len().saturating_sub(MOST_ENDED - 1))
        {
            self.background.remove(number);
        }
    }
}

impl Background {
    pub(crate) fn is_running(&self) -> bool {
        self.state.status() == CommandStatus::Running
    }

    /// Asks it to end.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Takes the output that the model has not seen, and its length in bytes.
    pub(crate) fn unseen(&self) -> (Excerpt, u64) {
        let from = self.seen.load(Ordering::Acquire);
        let excerpt = self.state.spool.excerpt(from);
        let total = self.state.spool.total();
        self.seen.store(total, Ordering::Release);
        (excerpt, total - from)
    }

    /// Marks all output so far as seen.
    pub(crate) fn see_all(&self) {
        self.seen.store(self.state.spool.total(), Ordering::Release);
    }

    pub(crate) fn details(&self, new_bytes: u64) -> BackgroundDetails {
        BackgroundDetails {
            id: self.id.clone(),
            command: self.state.details(None, Some(self.id.clone())),
            new_bytes,
        }
    }
}

fn start_error(directory: &Path, error: &io::Error) -> StartError {
    if let Err(problem) = std::fs::read_dir(directory)
        && problem.kind() != io::ErrorKind::PermissionDenied
    {
        return StartError::Directory {
            described: failure::describe("start a command in", directory, &problem),
        };
    }
    let reason = match error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error)
    {
        Some(rustix::io::Errno::AGAIN) => {
            "the system allows no further process. End some, then try again".into()
        }
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
            "too many files are open. End background commands with bash_kill, then try again".into()
        }
        _ => format!("in {}: {error}", directory.display()),
    };
    StartError::Spawn { reason }
}
