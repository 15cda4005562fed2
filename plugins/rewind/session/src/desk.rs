//! Where everything comes together: who wants something of the files waits here for their turn.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bezel_api_session::{Lane, ToolApproval};
use bezel_context::Context;
use bezel_rewind_contract::{Availability, RewindError, RewindState};
use bezel_rpc::StateCell;
use bezel_session_types::{Access, EntryId, InvocationId, Resource};
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::git::{GitError, find_git};
use crate::history::History;
use crate::record::Records;
use crate::restore::Progress;
use crate::rewinder::{Failure, Rewinder, Setting};
use crate::turns::Touch;
use crate::view;

/// How long a call waits for what is recorded before and after it, the wait for the turn included: what is late must
/// not hold it up.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is said of a checkpoint that was late.
const TOO_LATE: &str =
    "a checkpoint took longer than 20 seconds; there are none until the session is opened again";
/// How long late work may take to stop.
const GRACE: Duration = Duration::from_secs(3);
/// How often a sign of life is left.
const PULSE: Duration = Duration::from_secs(1);
/// How often it is shown how far files are written.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Checkpoints of one session, for everybody who needs them.
pub(crate) struct Desk {
    pub(crate) lane: Lane,
    pub(crate) history: History,
    pub(crate) state: StateCell<RewindState>,
    setting: Setting,
    /// Held while files are recorded or written.
    rewinder: Arc<AsyncMutex<Slot>>,
    /// Whether a call is open.
    recording: watch::Sender<bool>,
    // A plain mutex: held to note or take, never across an await.
    late: Mutex<HashMap<InvocationId, Late>>,
    /// Held while the conversation and what is staged are brought together.
    pub(crate) settling: AsyncMutex<()>,
}

/// What of a call was waited for in vain and is written down as not known when the call is settled.
enum Late {
    /// The files before it, in the turn of this message.
    Before(EntryId),
    /// What it has changed.
    After,
}

enum Slot {
    Closed,
    Open(Box<Rewinder>),
    /// It cannot be had in this process.
    Off(String),
}

impl Slot {
    /// Opened at the first need: most sessions have none.
    fn open(
        &mut self,
        setting: &Setting,
        progress: Progress,
    ) -> Result<&mut Rewinder, RewindError> {
        if let Slot::Closed = self {
            *self = match Rewinder::open(setting, progress) {
                Ok(rewinder) => Slot::Open(Box::new(rewinder)),
                Err(error) => Slot::Off(error.to_string()),
            };
        }
        let reason = match self {
            Slot::Open(rewinder) => return Ok(rewinder),
            Slot::Off(reason) => reason.clone(),
            Slot::Closed => "it is not open".to_owned(),
        };
        Err(RewindError::Unavailable { reason })
    }
}

impl Desk {
    pub(crate) fn new(
        lane: Lane,
        history: History,
        state: StateCell<RewindState>,
        setting: Setting,
    ) -> Self {
        Desk {
            lane,
            history,
            state,
            setting,
            rewinder: Arc::new(AsyncMutex::new(Slot::Closed)),
            recording: watch::Sender::new(false),
            late: Mutex::default(),
            settling: AsyncMutex::default(),
        }
    }

    /// Whether what was said then was taken over from another session.
    pub(crate) fn is_taken_over(&self, at: i64) -> bool {
        at < self.setting.born
    }

    /// Where all of it is written down.
    pub(crate) fn records(&self) -> Records {
        Records::new(self.setting.records.clone())
    }

    /// Whether there are checkpoints to take up.
    pub(crate) fn has_records(&self) -> bool {
        self.records().exist()
    }

    /// Says so where it can be told beforehand that there will be none.
    pub(crate) fn look_for_git(&self) {
        if find_git(self.setting.path.as_deref()).is_none() {
            self.unavailable(&GitError::Missing.to_string());
        }
    }

    /// Records what a call may change, before it runs. The tool goes on whatever becomes of it; what goes wrong
    /// is shown in the state and at the message.
    pub(crate) async fn before_call(&self, cx: &Context, call: &ToolApproval) {
        let Some(touch) = touch(call) else { return };
        let message = match self.history.current().await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => return self.problem(&error.to_string()),
        };
        let stop = StopOnDrop::default();
        let flag = Arc::clone(&stop.0);
        let (turn, invocation) = (message.clone(), call.invocation.clone());
        let begin = self.with(move |rewinder| {
            rewinder.begin_call(&turn, &invocation, &touch, &flag)?;
            Ok(rewinder.is_recording())
        });
        match cx.run(tokio::time::timeout(PATIENCE, begin)).await {
            Ok(Ok(Ok(is_recording))) => {
                self.recording.send_replace(is_recording);
                self.state
                    .update(&Context::background(), |state| state.problem = None);
            }
            Ok(Ok(Err(error))) => self.problem(&error.to_string()),
            Ok(Err(_)) => {
                drop(stop);
                self.give_up(&call.invocation, &message).await;
            }
            // The run is being interrupted: the tool will not run.
            Err(_) => {}
        }
    }

    /// Records what a call has changed, before anything else can happen in its run.
    pub(crate) async fn after_call(&self, call: InvocationId) {
        if !*self.recording.borrow() {
            return;
        }
        let stop = StopOnDrop::default();
        let flag = Arc::clone(&stop.0);
        let ended = call.clone();
        let end = self.with(move |rewinder| {
            rewinder.end_call(&ended, &flag)?;
            Ok(rewinder.is_recording())
        });
        match tokio::time::timeout(PATIENCE, end).await {
            Ok(Ok(is_recording)) => {
                self.recording.send_replace(is_recording);
            }
            Ok(Err(error)) => self.problem(&error.to_string()),
            Err(_) => {
                // What has begun is told to stop, and writes down that this is not known; where others had the turn
                // all the time, nothing has begun.
                drop(stop);
                self.late().insert(call, Late::After);
                self.problem("what a call changed took longer than 20 seconds to record");
            }
        }
    }

    /// A call is settled: where it never ran, what changes from now on is not its work.
    pub(crate) async fn settled(&self, call: InvocationId) {
        let late = self.late().remove(&call);
        if let Some(Late::Before(message)) = late {
            return note_missing(&mut *self.rewinder.lock().await, &message);
        }
        if !*self.recording.borrow() {
            return;
        }
        let withdrawn = self.with(move |rewinder| {
            match late {
                // Nobody waits any more: it says that it is not known.
                Some(_) => rewinder.end_call(&call, &Arc::new(AtomicBool::new(true)))?,
                None => rewinder.withdraw(&call)?,
            }
            Ok(rewinder.is_recording())
        });
        match withdrawn.await {
            Ok(is_recording) => {
                self.recording.send_replace(is_recording);
            }
            Err(error) => self.problem(&error.to_string()),
        }
    }

    /// While a call is open, leaves a sign of life: after a crash it says until when changes can be the call's.
    pub(crate) async fn keep_pulse(&self) {
        let mut recording = self.recording.subscribe();
        while recording
            .wait_for(|is_recording| *is_recording)
            .await
            .is_ok()
        {
            let pulse = self.records().pulse();
            let touched =
                tokio::task::spawn_blocking(move || std::fs::write(pulse, "alive\n")).await;
            if let Ok(Err(error)) = touched {
                tracing::debug!(%error, "no sign of life was left");
            }
            tokio::time::sleep(PULSE).await;
        }
    }

    /// Records what the turn that has ended did, and shows it.
    pub(crate) async fn after_run(&self) {
        let is_open = match &*self.rewinder.lock().await {
            Slot::Open(_) => true,
            Slot::Closed => self.has_records(),
            Slot::Off(_) => false,
        };
        if is_open {
            // Where the next run has begun, its first call ends the turn.
            match self.when_idle(|rewinder| rewinder.end_turn()).await {
                Ok(()) => {
                    self.recording.send_replace(false);
                }
                Err(RewindError::Busy) => {}
                Err(error) => self.problem(&error.to_string()),
            }
        }
        self.publish().await;
    }

    /// Shows what there is.
    pub(crate) async fn publish(&self) {
        let said = match self.history.newest().await {
            Ok(said) => said,
            Err(error) => {
                self.problem(&error.to_string());
                Vec::new()
            }
        };
        let (points, born) = (said.clone(), self.setting.born);
        let shown = match self.has_records() {
            true => {
                let shown = self.with(move |rewinder| {
                    let left = rewinder.unkept();
                    let named = left.len().min(view::MOST_NAMED);
                    Ok((
                        view::points(&points, rewinder.turns(), born),
                        view::staged(rewinder, false)?,
                        view::left_alone(&left[..named].to_vec()),
                    ))
                });
                shown.await.unwrap_or_else(|error| {
                    self.problem(&error.to_string());
                    (view::points(&said, &[], born), None, Vec::new())
                })
            }
            false => (view::points(&said, &[], born), None, Vec::new()),
        };
        self.state.update(&Context::background(), |state| {
            (state.points, state.staged, state.left_alone) = shown;
            state.loaded = true;
        });
    }

    /// Does blocking work alone with the files, where nothing runs whose tools would work on them too. A run
    /// that begins meanwhile waits before its first tool.
    pub(crate) async fn when_idle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rewinder) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, RewindError> {
        if !self.lane.activity().borrow().is_idle() {
            return Err(RewindError::Busy);
        }
        let lane = self.lane.clone();
        let worked = self.with(move |rewinder| match lane.activity().borrow().is_idle() {
            true => work(rewinder).map(Ok),
            false => Ok(Err(RewindError::Busy)),
        });
        worked.await?
    }

    /// Does blocking work alone with the files. It is done to its end, also when nobody waits any more.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rewinder) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, RewindError> {
        let mut slot = Arc::clone(&self.rewinder).lock_owned().await;
        let (setting, state) = (self.setting.clone(), self.state.clone());
        let progress = shown_in(self.state.clone());
        let worked = tokio::task::spawn_blocking(move || {
            let _done = NoProgress(state);
            let rewinder = match slot.open(&setting, progress) {
                Ok(rewinder) => rewinder,
                Err(error) => return Err((true, error)),
            };
            let error = match work(rewinder) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            tracing::warn!(%error, "files could not be recorded or rewound");
            if error.is_lasting() {
                let reason = error.to_string();
                *slot = Slot::Off(reason.clone());
                return Err((true, RewindError::Unavailable { reason }));
            }
            Err((false, contract_error(error)))
        });
        match worked.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err((is_off, error))) => {
                if let (true, RewindError::Unavailable { reason }) = (is_off, &error) {
                    self.unavailable(reason);
                }
                Err(error)
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(RewindError::Failed {
                    message: "the session ends; what was begun is finished at its next start"
                        .into(),
                }),
            },
        }
    }

    /// A checkpoint was late: this turn has none, and no more are tried, so that not every turn waits.
    async fn give_up(&self, call: &InvocationId, message: &EntryId) {
        self.recording.send_replace(false);
        self.unavailable(TOO_LATE);
        self.problem(TOO_LATE);
        // The late work has been told to stop. Where even that takes long, it is written down when the call is
        // settled.
        match tokio::time::timeout(GRACE, self.rewinder.lock()).await {
            Ok(mut slot) => note_missing(&mut slot, message),
            Err(_) => {
                let late = Late::Before(message.clone());
                self.late().insert(call.clone(), late);
            }
        }
    }

    fn late(&self) -> MutexGuard<'_, HashMap<InvocationId, Late>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self, reason: &str) {
        let availability = Availability::Unavailable {
            reason: reason.to_owned(),
        };
        // Also where a call is open: its sign of life would be left for ever.
        self.recording.send_replace(false);
        self.state.update(&Context::background(), |state| {
            state.availability = availability
        });
    }

    pub(crate) fn problem(&self, problem: &str) {
        self.state.update(&Context::background(), |state| {
            state.problem = Some(problem.to_owned());
        });
    }
}

/// Writes down that the checkpoint of this message's turn is missing, and makes no more.
fn note_missing(slot: &mut Slot, message: &EntryId) {
    if let Slot::Open(rewinder) = slot
        && let Err(error) = rewinder.give_up(message, TOO_LATE)
    {
        tracing::warn!(%error, "it could not be written down that a checkpoint is missing");
    }
    *slot = Slot::Off(TOO_LATE.to_owned());
}

/// What a call may change, as the tool itself says of it. One that does not say may change anything, and so may
/// one that does something else than to read or to edit. None where it changes nothing.
fn touch(call: &ToolApproval) -> Option<Touch> {
    let Some(accesses) = &call.accesses else {
        return Some(Touch::Anything);
    };
    let changing = |access: &&Access| !matches!(&*access.action, Access::READ | Access::WEB);
    let mut paths = Vec::new();
    for access in accesses.iter().filter(changing) {
        match &access.resource {
            Resource::Path(path) if access.action == Access::EDIT => paths.push(path.clone()),
            _ => return Some(Touch::Anything),
        }
    }
    (!paths.is_empty()).then_some(Touch::Paths(paths))
}

/// Shows how far files are written, not more often than a person can see.
fn shown_in(state: StateCell<RewindState>) -> Progress {
    let shown = Mutex::new(None::<Instant>);
    Progress::new(move |done, total| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY) {
            *shown = Some(Instant::now());
            let progress = bezel_rewind_contract::Progress {
                done: view::number(done),
                total: view::number(total),
            };
            state.update(&Context::background(), |state| {
                state.progress = Some(progress)
            });
        }
    })
}

/// Ends what is shown of how far files are written.
struct NoProgress(StateCell<RewindState>);

impl Drop for NoProgress {
    fn drop(&mut self) {
        if self.0.get().progress.is_some() {
            self.0
                .update(&Context::background(), |state| state.progress = None);
        }
    }
}

/// Where `git` is looked for: as the person's shell would, or else as this process does.
pub(crate) fn search_path(shell: Option<&String>) -> Option<OsString> {
    shell
        .map(OsString::from)
        .or_else(|| std::env::var_os("PATH"))
}

fn contract_error(error: Failure) -> RewindError {
    match error {
        Failure::Edited(paths) => RewindError::Edited {
            paths: paths.iter().map(ToString::to_string).collect(),
        },
        Failure::NothingStaged => RewindError::NothingStaged,
        error => RewindError::Failed {
            message: error.to_string(),
        },
    }
}

/// Tells a walk to stop when nobody waits for it any more.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
