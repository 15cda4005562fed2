//! Where everything comes together: who wants something of the files waits here for their turn.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_api_session::{Lane, ToolApproval};
use bezel_context::Context;
use bezel_rewind_contract::{Availability, RewindError, RewindState};
use bezel_rpc::StateCell;
use bezel_session_types::{Access, EntryId};
use tokio::sync::Mutex as AsyncMutex;

use crate::git::{GitError, find_git};
use crate::history::History;
use crate::record::Records;
use crate::rewinder::{Failure, Rewinder, Setting};
use crate::view;

/// How long a tool waits for its checkpoint: one that is late must not hold up the tool.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long late work may take to stop.
const GRACE: Duration = Duration::from_secs(3);

/// Checkpoints of one session, for everybody who needs them.
pub(crate) struct Desk {
    pub(crate) lane: Lane,
    pub(crate) history: History,
    pub(crate) state: StateCell<RewindState>,
    setting: Setting,
    /// Held while files are recorded or written.
    rewinder: Arc<AsyncMutex<Slot>>,
    /// The message whose turn needs nothing more.
    begun: Begun,
    /// Held while the conversation and what is staged are brought together.
    pub(crate) settling: AsyncMutex<()>,
}

/// The message whose turn needs nothing more. A plain mutex: held to compare or to replace.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Option<EntryId>>>);

impl Begun {
    fn is(&self, message: &EntryId) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            == Some(message)
    }

    fn set(&self, message: Option<EntryId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }
}

enum Slot {
    Closed,
    Open(Box<Rewinder>),
    /// It cannot be had in this process.
    Off(String),
}

impl Slot {
    /// Opened at the first need: most sessions have none.
    fn open(&mut self, setting: &Setting) -> Result<&mut Rewinder, RewindError> {
        if let Slot::Closed = self {
            *self = match Rewinder::open(setting) {
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
            begun: Begun::default(),
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

    /// Takes the checkpoint of this turn, where it has none yet. The tool goes on whatever becomes of it; what
    /// goes wrong is shown in the state and at the message.
    pub(crate) async fn before_changes(&self, cx: &Context) {
        let message = match self.history.current().await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => return self.problem(&error.to_string()),
        };
        if self.begun.is(&message) {
            return;
        }
        let stop = StopOnDrop::default();
        let flag = Arc::clone(&stop.0);
        let turn = message.clone();
        let begin = self.with(move |rewinder| {
            if rewinder.has_begun(&turn) {
                return Ok(());
            }
            rewinder.begin_turn(&turn, &flag)
        });
        let begun = cx.run(tokio::time::timeout(PATIENCE, begin)).await;
        match begun {
            Ok(Ok(Ok(()))) => self
                .state
                .update(&Context::background(), |state| state.problem = None),
            Ok(Ok(Err(error))) => self.problem(&error.to_string()),
            Ok(Err(_)) => {
                drop(stop);
                self.give_up(&message).await;
            }
            // The run is being interrupted: the tool will not run.
            Err(_) => return,
        }
        self.begun.set(Some(message));
    }

    /// Records what the turn that has ended did, and shows it.
    pub(crate) async fn after_run(&self) {
        let is_open = match &*self.rewinder.lock().await {
            Slot::Open(_) => true,
            Slot::Closed => self.has_records(),
            Slot::Off(_) => false,
        };
        if is_open {
            // Where the next run has begun, its end is the end of both.
            match self
                .when_idle(|rewinder| rewinder.end_turn(&Arc::default()))
                .await
            {
                Ok(()) | Err(RewindError::Busy) => {}
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
    /// that begins meanwhile waits before its first tool, and takes a checkpoint of its own then.
    pub(crate) async fn when_idle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rewinder) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, RewindError> {
        if !self.lane.activity().borrow().is_idle() {
            return Err(RewindError::Busy);
        }
        let (begun, lane) = (self.begun.clone(), self.lane.clone());
        let worked = self.with(move |rewinder| {
            // First this, then the look: whoever begins to run between the two asks for a checkpoint.
            begun.set(None);
            match lane.activity().borrow().is_idle() {
                true => work(rewinder).map(Ok),
                false => Ok(Err(RewindError::Busy)),
            }
        });
        worked.await?
    }

    /// Does blocking work alone with the files. It is done to its end, also when nobody waits any more.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rewinder) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, RewindError> {
        let mut slot = Arc::clone(&self.rewinder).lock_owned().await;
        let setting = self.setting.clone();
        let worked = tokio::task::spawn_blocking(move || {
            let rewinder = match slot.open(&setting) {
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
    async fn give_up(&self, message: &EntryId) {
        let reason = "a checkpoint took longer than 20 seconds; there are none until the session is opened again";
        self.unavailable(reason);
        self.problem(reason);
        // The late work has been told to stop. Where even that takes long, it is known of the turn later.
        let Ok(mut slot) = tokio::time::timeout(GRACE, self.rewinder.lock()).await else {
            return;
        };
        if let Slot::Open(rewinder) = &mut *slot
            && let Err(error) = rewinder.give_up_turn(message, reason)
        {
            tracing::warn!(%error, "it could not be written down that a checkpoint is missing");
        }
        *slot = Slot::Off(reason.to_owned());
    }

    fn unavailable(&self, reason: &str) {
        let availability = Availability::Unavailable {
            reason: reason.to_owned(),
        };
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

/// Whether a call may change files, as the tool itself says of it. One that does not say may.
pub(crate) fn may_change_files(call: &ToolApproval) -> bool {
    let changes = |access: &Access| !matches!(&*access.action, Access::READ | Access::WEB);
    let accesses = call.accesses.as_ref();
    accesses.is_none_or(|accesses| accesses.iter().any(changes))
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
