//! Moving a lane to another place in the tree: one operation, and nothing moves before its end.

use std::fmt::Write;
use std::sync::Arc;

use bezel_context::{Cancelled, Context};
use bezel_session_types::{
    BranchSummary, Entry, EntryBody, EntryId, Message, ModelSpec, OperationId, RunOutcome,
    RunPhase, Usage,
};
use bezel_store::{CommitError, ReadError};
use serde::{Deserialize, Serialize};

use crate::context::project;
use crate::coordinator::Stop;
use crate::events::EventKind;
use crate::hooks::{NavigationVerdict, PendingNavigation};
use crate::lane::{Lane, now};
use crate::operation::{BranchSummaryIntent, Operation, OperationKind, Phase, departure_key};
use crate::request::Refused;
use crate::run::{Run, StepResult};
use crate::state::Step;
use crate::summary::{Plan, text_limit, transcript};
use crate::tree::label_key;

const TASK: &str = "The conversation above was left: the user goes on from an earlier point of it. \
Summarise it for the agent that goes on there and will not see it: what was tried and what came of it, \
what was decided and why, files read and changed with full paths, what is still open. Short headed lists.";

/// Where a lane is to go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NavigateRequest {
    /// The entry that becomes the tip; none for the place before the first entry.
    pub target: Option<EntryId>,
    /// Asks for a summary of the branch that is left, with instructions for it, perhaps empty.
    pub summary: Option<String>,
    /// A label for the summary, or for the target where none is made.
    pub label: Option<String>,
}

/// Where a lane's next run begins, instead of at its tip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// The entry that it goes on from; none for the place before the first entry.
    pub from: Option<EntryId>,
}

/// A navigation that was not started.
#[derive(Debug, thiserror::Error)]
pub enum NavigateError {
    /// Something runs in the lane, or was left open by a crash.
    #[error(
        "the session is busy with operation {operation_id}: wait for its end or interrupt it first"
    )]
    Busy {
        /// What.
        operation_id: OperationId,
    },
    /// The lane is there already.
    #[error("the conversation stands at this place already: choose another one")]
    Current,
    /// There is no such entry.
    #[error("this session has no entry {entry}: choose one of its tree")]
    Unknown {
        /// Which.
        entry: EntryId,
    },
    /// Before the first entry nothing can be summarised or labelled.
    #[error("the beginning of a session takes neither a summary nor a label: go there without")]
    AtRoot,
    /// The session is closed.
    #[error("the session is closed: open it again")]
    Closed,
    /// The start could not be written.
    #[error("the conversation stays where it is: {0}")]
    Storage(#[from] CommitError),
    /// The database could not be read.
    #[error("the conversation stays where it is: {0}")]
    Read(#[from] ReadError),
    /// The caller's context had ended.
    #[error("the conversation stays where it is: {0}")]
    Cancelled(Cancelled),
}

/// A summary that was made or supplied, and what it took.
struct MadeSummary {
    text: String,
    used: Option<(ModelSpec, Usage)>,
}

impl Lane {
    /// Moves the tip to another entry, with a summary of the branch that is left where that is asked
    /// for. It has moved when [`EventKind::NavigationEnd`] comes without an error. Says which operation
    /// does it.
    pub async fn navigate(
        &self,
        cx: &Context,
        request: NavigateRequest,
    ) -> Result<OperationId, NavigateError> {
        cx.status().map_err(NavigateError::Cancelled)?;
        if self.session.closed() {
            return Err(NavigateError::Closed);
        }
        let NavigateRequest {
            target,
            summary,
            label,
        } = request;
        let label = label
            .map(|label| label.trim().to_owned())
            .filter(|label| !label.is_empty());
        let mut state = self.core.lock();
        if let Some(operation) = &state.operation {
            return Err(NavigateError::Busy {
                operation_id: operation.id.clone(),
            });
        }
        if target == state.tip {
            return Err(NavigateError::Current);
        }
        if target.is_none() && (summary.is_some() || label.is_some()) {
            return Err(NavigateError::AtRoot);
        }
        self.find(target.as_ref())?;
        let id = OperationId::generate();
        let phase = Phase::Navigating {
            target,
            summary: summary.map(|instructions| BranchSummaryIntent {
                entry: EntryId::generate(),
                instructions,
            }),
            label,
        };
        let operation = Operation::new(id.clone(), OperationKind::Navigation, now(), phase)
            .traced(Some(cx.trace().clone()));
        let mut step = Step::to(operation);
        step.transaction.journal(
            "navigation_started",
            serde_json::json!({ "lane": *self.core.name, "operation": id }),
        );
        step.before.push(EventKind::RunStart {
            operation_id: id.clone(),
        });
        step.after.push(EventKind::NavigationStart {
            operation_id: id.clone(),
        });
        state.found = false;
        self.commit(&mut state, step)?;
        self.start(&mut state);
        Ok(id)
    }

    /// Says where the next run begins, or that it begins at the tip again. The lane stays where it is until
    /// then: it moves in the commit that delivers the run's first message, or not at all. Any other move
    /// takes this back.
    pub async fn set_departure(
        &self,
        cx: &Context,
        departure: Option<Departure>,
    ) -> Result<(), NavigateError> {
        cx.status().map_err(NavigateError::Cancelled)?;
        if self.session.closed() {
            return Err(NavigateError::Closed);
        }
        let mut state = self.core.lock();
        if state.departure == departure {
            return Ok(());
        }
        let mut step = Step::default();
        match &departure {
            Some(Departure { from }) => {
                if let Some(operation) = &state.operation {
                    return Err(NavigateError::Busy {
                        operation_id: operation.id.clone(),
                    });
                }
                self.find(from.as_ref())?;
                step.transaction
                    .set_value(departure_key(&self.core.name), &departure);
            }
            None => step
                .transaction
                .delete_value(departure_key(&self.core.name)),
        }
        step.transaction.journal(
            "departure_set",
            serde_json::json!({ "lane": *self.core.name, "departure": departure }),
        );
        self.commit(&mut state, step)?;
        state.departure = departure;
        Ok(())
    }

    /// Where the next run begins, where that is not the tip.
    pub fn departure(&self) -> Option<Departure> {
        self.core.lock().departure.clone()
    }

    fn find(&self, target: Option<&EntryId>) -> Result<(), NavigateError> {
        let Some(entry) = target else { return Ok(()) };
        let found = self.session.store.read(|queries| queries.entry(entry))?;
        match found {
            Some(_) => Ok(()),
            None => Err(NavigateError::Unknown {
                entry: entry.clone(),
            }),
        }
    }
}

impl Run {
    /// Makes the summary that was asked for, then moves: all that comes of it is in the last commit.
    pub(crate) async fn navigate(&mut self, operation: Operation) -> StepResult {
        let Phase::Navigating {
            target,
            summary,
            label,
        } = operation.phase.clone()
        else {
            return Ok(None);
        };
        self.set_phase(RunPhase::Navigating);
        let made = self
            .branch_summary(&operation, target.as_ref(), summary.as_ref())
            .await;
        self.open()?;
        let made = match made {
            Ok(made) => made,
            Err(LeftBranch::Stopped(stop)) => return Err(stop),
            Err(LeftBranch::Refused(Refused::Aborted)) => return self.stay(RunOutcome::Aborted),
            Err(LeftBranch::Refused(Refused::Failed { code, message })) => {
                let code = code.into();
                return self.stay(RunOutcome::Failed { code, message });
            }
        };
        let mut state = self.lane.core.lock();
        let cancelled = state
            .operation
            .as_ref()
            .is_none_or(|operation| operation.cancel_requested.is_some());
        if cancelled {
            drop(state);
            return self.stay(RunOutcome::Aborted);
        }
        let (operation_id, left) = (operation.id.clone(), state.tip.clone());
        let mut step = Step {
            moved_to: Some(target.clone()),
            ..Step::default()
        };
        let mut tip = target;
        if let (Some(MadeSummary { text, used }), Some(from)) = (made, left.clone()) {
            let entry = summary.map_or_else(EntryId::generate, |intent| intent.entry);
            let summary = text;
            step.append(
                entry.clone(),
                EntryBody::BranchSummary(BranchSummary { summary, from }),
            );
            if let Some((spec, usage)) = used {
                self.settle_usage(&mut step, &operation_id, &spec, usage, "branch_summary");
            }
            tip = Some(entry);
        }
        if let (Some(label), Some(entry)) = (&label, &tip) {
            step.transaction.set_value(label_key(entry), label);
            step.transaction.journal(
                "label_set",
                serde_json::json!({ "entry": entry, "label": label }),
            );
            step.after.push(EventKind::LabelSet {
                entry: entry.clone(),
                label: Some(label.clone()),
            });
        }
        step.transaction.journal(
            "navigated",
            serde_json::json!({ "lane": *self.lane.core.name, "from": left, "to": tip }),
        );
        step.after.push(EventKind::NavigationEnd {
            operation_id,
            tip,
            error: None,
        });
        self.end(&mut state, step, RunOutcome::Completed)
    }

    /// Ends the operation with the lane where it was.
    fn stay(&self, outcome: RunOutcome) -> StepResult {
        let mut state = self.lane.core.lock();
        let Some(operation) = &state.operation else {
            return Err(Stop::Closed);
        };
        let error = match &outcome {
            RunOutcome::Failed { message, .. } => message.clone(),
            _ => "it was interrupted".to_owned(),
        };
        let mut step = Step::default();
        step.after.push(EventKind::NavigationEnd {
            operation_id: operation.id.clone(),
            tip: state.tip.clone(),
            error: Some(error),
        });
        self.end(&mut state, step, outcome)
    }

    async fn branch_summary(
        &self,
        operation: &Operation,
        target: Option<&EntryId>,
        intent: Option<&BranchSummaryIntent>,
    ) -> Result<Option<MadeSummary>, LeftBranch> {
        let aborted = LeftBranch::Refused(Refused::Aborted);
        if self.cx.is_cancelled() {
            return Err(aborted);
        }
        let plan = match intent {
            Some(_) => self.left_branch(target).await?,
            None => None,
        };
        let session = &self.lane.session;
        let messages: Arc<[Arc<Message>]> = plan
            .as_ref()
            .map_or_else(|| Arc::from([]), |plan| plan.messages.clone().into());
        let refused = |code, message| Err(LeftBranch::Refused(Refused::Failed { code, message }));
        for hook in session.hooks.before_navigation.registered() {
            let pending = PendingNavigation {
                lane: (*self.lane.core.name).clone(),
                operation_id: operation.id.clone(),
                target: target.cloned(),
                messages: Arc::clone(&messages),
            };
            let deadline = Some(session.config.hook_deadline);
            match hook.call(&self.cx, deadline, pending).await {
                Ok(NavigationVerdict::Proceed) => {}
                Ok(NavigationVerdict::Supply { .. }) if target.is_none() => {
                    let message = "the beginning of a session takes no summary".to_owned();
                    return refused("navigation.root", message);
                }
                Ok(NavigationVerdict::Supply { summary: text }) => {
                    return Ok(Some(MadeSummary { text, used: None }));
                }
                Ok(NavigationVerdict::Decline { reason }) => {
                    return refused("navigation.declined", reason);
                }
                Err(failure) => self.report(failure),
            }
        }
        let (Some(plan), Some(intent)) = (plan, intent) else {
            return Ok(None);
        };
        let model = self.resolve_model().await?;
        let mut text = transcript(&plan, text_limit(&model.spec));
        write!(text, "\n\n{TASK}").expect("text takes text");
        if !intent.instructions.is_empty() {
            write!(
                text,
                "\n\nThe user asks in particular: {}",
                intent.instructions
            )
            .expect("text takes text");
        }
        let (text, usage) = self.ask_for_summary(&model, text).await?;
        let used = Some((model.spec, usage));
        Ok(Some(MadeSummary { text, used }))
    }

    /// What is said on the way from where the paths part to the tip; none where the target lies behind
    /// the tip, or nothing was said.
    async fn left_branch(&self, target: Option<&EntryId>) -> Result<Option<Plan>, LeftBranch> {
        let Some(tip) = self.lane.core.lock().tip.clone() else {
            return Ok(None);
        };
        let (store, target) = (self.lane.session.store.clone(), target.cloned());
        let read = tokio::task::spawn_blocking(move || {
            store.read(|queries| queries.branch(&tip, target.as_ref()))
        });
        let entries = read
            .await
            .map_err(|_| LeftBranch::Stopped(Stop::Closed))?
            .map_err(|error| LeftBranch::Stopped(Stop::Read(error)))?;
        Ok(said_on(&entries))
    }
}

/// What a branch holds for a model: its last summary, and what was said since.
fn said_on(entries: &[Entry]) -> Option<Plan> {
    let compacted = entries.iter().rev().find_map(|entry| match &entry.body {
        EntryBody::Compaction(compaction) => Some((entry, compaction)),
        _ => None,
    });
    let (previous, from) = match compacted {
        None => (None, 0),
        Some((entry, compaction)) => {
            let kept = compaction.first_kept.as_ref().unwrap_or(&entry.id);
            let from = entries.iter().position(|entry| entry.id == *kept);
            // What was kept may have begun before the paths part.
            (Some(compaction.summary.clone()), from.unwrap_or(0))
        }
    };
    let messages: Vec<Arc<Message>> = entries[from..].iter().filter_map(project).collect();
    (previous.is_some() || !messages.is_empty()).then_some(Plan {
        previous,
        messages,
        first_kept: None,
        tokens_before: 0,
    })
}

/// Why there is no summary.
enum LeftBranch {
    /// The operation ends.
    Refused(Refused),
    /// The operation is left where it stands.
    Stopped(Stop),
}

impl From<Refused> for LeftBranch {
    fn from(refused: Refused) -> Self {
        LeftBranch::Refused(refused)
    }
}
