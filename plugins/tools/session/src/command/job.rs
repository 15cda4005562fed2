//! One command from its start to the end of its last process.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bezel_context::Context;
use bezel_tools_contract::{BashDetails, CommandStatus};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bound::cut_line;

use super::output::{SAVED_BYTES, Spool};
use super::pump::{Moved, Pump};
use super::spawn::Started;
use super::tree::{ProcessTree, group_lives};

/// How long processes that a command leaves behind may hold its output before they count as background ones.
const LINGER: Duration = Duration::from_millis(250);
/// How long the kernel gets to hand over the exit status of a killed process.
const REAP: Duration = Duration::from_secs(1);

/// Characters kept of a command in its details: the call's arguments hold all of it.
const DETAILS_CHARACTERS: usize = 4_000;

/// What everybody may see of a command.
#[derive(Debug)]
pub(crate) struct JobState {
    pub(crate) command: String,
    pub(crate) directory: PathBuf,
    pub(crate) spool: Arc<Spool>,
    started: Instant,
    status: watch::Sender<Standing>,
}

/// How a command stands and, once it has ended, how long it took.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) status: CommandStatus,
    took: Option<Duration>,
}

impl JobState {
    pub(crate) fn new(command: String, directory: PathBuf, spool: Arc<Spool>) -> Arc<Self> {
        let status = watch::Sender::new(Standing {
            status: CommandStatus::Running,
            took: None,
        });
        Arc::new(JobState {
            command,
            directory,
            spool,
            started: Instant::now(),
            status,
        })
    }

    pub(crate) fn status(&self) -> CommandStatus {
        self.status.borrow().status.clone()
    }

    /// Follows the status; it changes once.
    pub(crate) fn watch(&self) -> watch::Receiver<Standing> {
        self.status.subscribe()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.status
            .borrow()
            .took
            .unwrap_or_else(|| self.started.elapsed())
    }

    pub(crate) fn settle(&self, status: CommandStatus) {
        let took = Some(self.started.elapsed());
        self.status.send_replace(Standing { status, took });
    }

    /// For renderers.
    pub(crate) fn details(
        &self,
        saved: Option<PathBuf>,
        background_id: Option<String>,
    ) -> BashDetails {
        let saved = saved.or_else(|| self.spool.saved().map(Into::into));
        BashDetails {
            command: cut_line(&self.command, DETAILS_CHARACTERS).into_owned(),
            directory: self.directory.display().to_string(),
            status: self.status(),
            duration_ms: u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX),
            output_bytes: self.spool.total(),
            saved_file: saved.map(|path| path.display().to_string()),
            background_id,
        }
    }
}

/// How a wait for a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// All is over; whatever had to be ended is.
    Ended(CommandStatus),
    /// The shell has ended by itself, but processes that it started still hold the output.
    Lingers(CommandStatus),
    /// The context ended first, and all processes were ended.
    Cancelled,
}

/// Owns the processes. Dropped before they have ended, it kills them.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) state: Arc<JobState>,
    child: Child,
    tree: ProcessTree,
    pump: Pump,
    exit: Option<ExitStatus>,
    output_ended: bool,
    over: bool,
    script: Option<PathBuf>,
    /// Processes that could not be ended.
    pub(crate) survivors: Vec<i32>,
}

impl Job {
    pub(crate) fn new(state: Arc<JobState>, started: Started, tree: ProcessTree) -> Self {
        let pump = Pump::new(started.output, Arc::clone(&state.spool));
        Job {
            state,
            child: started.child,
            tree,
            pump,
            exit: None,
            output_ended: false,
            over: false,
            script: started.script,
            survivors: Vec::new(),
        }
    }

    /// Waits for the end. `time_out` ends the command then; `linger` says whether processes that outlive the
    /// shell are waited for without limit. `feed` is called at its own pace while there is output.
    pub(crate) async fn wait(
        &mut self,
        cx: &Context,
        time_out: Option<Duration>,
        linger: bool,
        mut feed: Option<&mut (dyn Feed + Send)>,
    ) -> io::Result<Waited> {
        let time_is_up = time_out.map(|after| self.state.started + after);
        let mut lingers_until = None;
        let cancelled = cx.cancelled();
        tokio::pin!(cancelled);
        loop {
            if let (Some(exit), true) = (self.exit, self.output_ended) {
                self.over = true;
                return Ok(Waited::Ended(status(exit)));
            }
            if self.exit.is_some() && lingers_until.is_none() && !linger {
                lingers_until = Some(Instant::now() + LINGER);
            }
            let next_feed = feed.as_ref().and_then(|feed| feed.due(&self.state));
            tokio::select! {
                biased;
                _ = &mut cancelled => {
                    self.end().await?;
                    return Ok(Waited::Cancelled);
                }
                () = until(time_is_up) => {
                    self.end().await?;
                    let after = time_out.unwrap_or_default().as_millis();
                    let after_ms = u64::try_from(after).unwrap_or(u64::MAX);
                    return Ok(Waited::Ended(CommandStatus::TimedOut { after_ms }));
                }
                // Before the output, which could be endless.
                () = until(next_feed) => {
                    if let Some(feed) = &mut feed {
                        feed.feed(&self.state);
                    }
                }
                moved = self.pump.move_some(), if !self.output_ended => match moved? {
                    Moved::Some => {}
                    Moved::End => self.output_ended = true,
                    Moved::TooMuch => {
                        self.end().await?;
                        return Ok(Waited::Ended(CommandStatus::OutputLimit { limit_bytes: SAVED_BYTES }));
                    }
                },
                exit = self.child.wait(), if self.exit.is_none() => self.exit = Some(exit?),
                () = until(lingers_until) => {
                    return Ok(Waited::Lingers(status(self.exit.unwrap_or_default())));
                }
            }
        }
    }

    /// The process group, when processes of it are left that do not hold the output.
    pub(crate) fn left_group(&self) -> Option<i32> {
        group_lives(self.tree.group()).then(|| self.tree.group())
    }

    /// Ends all processes and takes in their last output.
    async fn end(&mut self) -> io::Result<()> {
        let tree = self.tree.clone();
        let end = tree.end(self.exit.is_some());
        tokio::pin!(end);
        self.survivors = loop {
            tokio::select! {
                biased;
                survivors = &mut end => break survivors,
                // A full pipe would keep a process from ending in its own way.
                moved = self.pump.move_some(), if !self.output_ended => {
                    self.output_ended = !matches!(moved, Ok(Moved::Some));
                }
            }
        };
        // Only now: as long as its exit status is not taken, the leader's number stays its own.
        self.over = true;
        if self.exit.is_none() {
            match tokio::time::timeout(REAP, self.child.wait()).await {
                Ok(exit) => self.exit = exit.ok(),
                Err(_) => {
                    tracing::warn!(group = self.tree.group(), "a killed command has not ended")
                }
            }
        }
        self.pump.drain().await
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.over {
            self.tree.kill_now(self.exit.is_some());
            self.state.settle(CommandStatus::Killed);
        }
        if let Some(script) = self.script.take()
            && let Err(error) = std::fs::remove_file(&script)
        {
            tracing::debug!(%error, path = %script.display(), "a command's script could not be removed");
        }
    }
}

/// Shows how far a command is.
pub(crate) trait Feed {
    /// When to be called next; `None` while there is nothing to show.
    fn due(&self, state: &JobState) -> Option<Instant>;

    /// Shows what is new.
    fn feed(&mut self, state: &JobState);
}

fn status(exit: ExitStatus) -> CommandStatus {
    match (exit.code(), exit.signal()) {
        (Some(code), _) => CommandStatus::Exited { code },
        (None, signal) => CommandStatus::Signalled {
            signal: signal.unwrap_or_default(),
        },
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bezel_session_types::{InvocationId, SessionId};

    use super::super::spawn::{Launch, Shells};
    use super::*;
    use crate::Environment;

    #[tokio::test]
    async fn a_command_that_writes_without_end_is_ended() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment = Environment::new([("PATH".into(), path)], []);
        let (session, invocation) = (SessionId::generate(), InvocationId::new("call"));
        let launch = Launch {
            command: "yes; true",
            directory: Path::new("/"),
            session: &session,
            invocation: &invocation,
            directory_file: &directory.path().join("cwd"),
        };
        let started = Shells::find(&environment)
            .start(&environment, &launch)
            .expect("it starts");
        let leader = started
            .child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .expect("a pid");
        let tree = ProcessTree::new(leader, &session, &invocation);
        let spool = Arc::new(Spool::with_limit(directory.path().join("saved"), 1_000_000));
        let state = JobState::new("yes".into(), "/".into(), spool);
        let mut job = Job::new(state, started, tree);
        let waited = job
            .wait(&Context::background(), None, false, None)
            .await
            .expect("output");
        assert_eq!(
            waited,
            Waited::Ended(CommandStatus::OutputLimit {
                limit_bytes: SAVED_BYTES
            })
        );
        assert!(job.survivors.is_empty());
    }
}
