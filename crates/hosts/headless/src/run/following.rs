//! From an admitted prompt to its outcome: what is new is told, and nothing is left out.

use std::sync::Arc;
use std::time::Duration;

use bezel_chat_contract::{Activity, ChatClient, Outcome, OutcomeStatus, Phase};
use bezel_context::Cancelled;
use bezel_permissions_contract::PermissionsClient;
use bezel_question_contract::{PendingQuestion, QuestionsClient};
use bezel_rpc::{AttachmentState, CallError, State, StateValue, StateWatcher};
use bezel_session_types::{Entry, HistoryRange};
use bezel_sessions_contract::SessionDirectoryClient;
use bezel_transcript_contract::{Item, TranscriptClient, TranscriptState, entries};
use bezel_usage_contract::UsageClient;

use super::{Admitted, MOST_REVIVALS, Presses, Run, Stop, Stretch, call_message, is_loss};
use crate::events::{QuestionChoice, RunEvent};
use crate::follow::Follower;

/// How long the last items may come after the outcome.
const SETTLE: Duration = Duration::from_secs(5);
/// The same after the session was taken up again.
const SETTLE_REVIVED: Duration = Duration::from_secs(1);
/// How many items are fetched at once where states skipped some.
const PAGE: u32 = 200;

impl Run<'_, '_> {
    /// Tells what is new until the operation ends or the connection to its worker is lost.
    pub(super) async fn follow(
        &mut self,
        admitted: &Admitted,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        presses: &mut Presses<'_>,
    ) -> Result<Stretch, Stop> {
        let chat: ChatClient = self.link.attached().use_service();
        let mut items = transcript.state().watch();
        let mut activity = chat.state().watch();
        let questions = self.link.attached().try_use::<QuestionsClient>();
        let mut questions = questions.map(|questions| questions.pending().watch());
        let permissions = self.link.attached().try_use::<PermissionsClient>();
        let mut asks = permissions
            .as_ref()
            .map(|permissions| permissions.asks().watch());
        let mut retry = 0;
        let wait = chat.wait(self.cx, admitted.operation.clone());
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                Some(()) = presses.interrupts.recv() => {
                    if presses.interrupted {
                        return Err(Stop::Interrupted);
                    }
                    presses.interrupted = true;
                    self.interrupt(admitted).await?;
                }
                state = items.changed() => self.tell(transcript, follower, &state).await?,
                state = activity.changed() => {
                    if let Activity::Running { phase: Phase::Retrying { attempt, at, reason }, .. } = &state.activity
                        && *attempt != retry
                    {
                        retry = *attempt;
                        let (at, reason) = (at.clone(), reason.clone());
                        self.printer.print(RunEvent::Retry { attempt: retry, at, reason })?;
                    }
                }
                asked = changed(&mut questions) => self.tell_questions(&asked)?,
                waiting = changed(&mut asks) => {
                    self.tell_asks(permissions.as_ref(), &waiting).await?;
                }
                ended = &mut wait => return match ended {
                    Ok(outcome) => Ok(Stretch::Outcome(outcome)),
                    Err(CallError::Rpc(error)) if is_loss(error.code) => Ok(Stretch::Lost(error.message)),
                    Err(error) => Err(Stop::Failed(call_message(&error))),
                },
                reason = self.cx.cancelled() => return Err(reason.into()),
            }
        }
    }

    /// Tells what is asked and was not told yet.
    fn tell_questions(&mut self, asked: &[PendingQuestion]) -> Result<(), Stop> {
        let Some(session_id) = self.session.clone() else {
            return Ok(());
        };
        for PendingQuestion { id, request, .. } in asked {
            if !self.asked.insert(id.clone()) {
                continue;
            }
            let options = request.options.iter().map(|option| QuestionChoice {
                label: option.label.clone(),
                description: option.description.clone(),
            });
            self.printer.print(RunEvent::Question {
                item: id.to_string(),
                session_id: session_id.clone(),
                question: request.question.clone(),
                options: options.collect(),
            })?;
        }
        Ok(())
    }

    /// Tells what a state adds; fetches items that states skipped.
    pub(super) async fn tell(
        &mut self,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        state: &TranscriptState,
    ) -> Result<(), Stop> {
        let mut older = Vec::new();
        let mut has_older = state.has_older;
        loop {
            let oldest = older.first().or(state.items.first());
            let Some(oldest) = oldest.map(|item: &Item| item.id.clone()) else {
                break;
            };
            if !follower.misses(older.iter().chain(&state.items), has_older) {
                break;
            }
            match transcript.page(self.cx, oldest, PAGE).await {
                Ok(page) => {
                    has_older = page.has_older && !page.items.is_empty();
                    older.splice(0..0, page.items);
                }
                // The next state finds the gap again.
                Err(CallError::Rpc(error)) if is_loss(error.code) => return Ok(()),
                Err(error) => return Err(Stop::Failed(call_message(&error))),
            }
        }
        for event in follower.tell(older.iter().chain(&state.items)) {
            self.printer.print(event)?;
        }
        Ok(())
    }

    /// Waits for the items that the outcome overtook: the transcript says when it has all of an operation.
    /// A worker that took a session up again after the operation had ended shows all from the start and
    /// says nothing. A worker that is lost now is started again: an answer is not left out.
    pub(super) async fn settle(
        &mut self,
        admitted: &Admitted,
        outcome: &Outcome,
        transcript: &TranscriptClient,
        follower: &mut Follower,
        mut revived: bool,
    ) -> Result<(), Stop> {
        let state: State<TranscriptState> = transcript.state();
        let attachment = self.link.attached().attachment();
        let answered = outcome.status == OutcomeStatus::Done;
        let whole = |follower: &Follower| {
            follower.is_settled() && (!answered || follower.ends_with_answer())
        };
        let mut items = state.watch();
        let mut losses = 0;
        let mut settled = false;
        let mut patience = self.cx.with_timeout(SETTLE);
        let mut silence = self.cx.with_timeout(SETTLE_REVIVED);
        let problem = loop {
            let gone = |state: &AttachmentState| !state.is_attached();
            tokio::select! {
                biased;
                now = items.changed() => {
                    self.tell(transcript, follower, &now).await?;
                    // An operation that stopped for a full disk was settled once already before it went on.
                    // One that began after it may be told in its place: ids are in the order of their making.
                    settled = now.settled.as_ref().is_some_and(|last| *last >= admitted.operation);
                    if settled && whole(follower) {
                        return Ok(());
                    }
                }
                _ = attachment.wait_for(self.cx, gone) => {
                    losses += 1;
                    if losses > MOST_REVIVALS {
                        break "the session's worker was lost again and again".to_owned();
                    }
                    match self.revive().await {
                        Ok(()) => {}
                        Err(Stop::Failed(reason)) => break reason,
                        Err(stop) => return Err(stop),
                    }
                    revived = true;
                    patience = self.cx.with_timeout(SETTLE);
                    silence = self.cx.with_timeout(SETTLE_REVIVED);
                }
                _ = silence.cancelled(), if revived && !state.is_stale() && whole(follower) => return Ok(()),
                _ = patience.cancelled() => {
                    break format!("they did not come within {} seconds", SETTLE.as_secs());
                }
            }
        };
        if settled && follower.answer().is_some() {
            return Ok(());
        }
        // The outcome is known, and the server reads what is on the disk, whatever became of the worker.
        let problem = match self.entries_after(admitted).await {
            Ok(entries) => {
                for event in follower.tell(entries::items(&entries).iter()) {
                    self.printer.print(event)?;
                }
                if whole(follower) {
                    return Ok(());
                }
                problem
            }
            Err(error) => format!("{problem}, and the session could not be read: {error}"),
        };
        if whole(follower) {
            let message =
                "some of the run's last events did not arrive; `bezel session show` has them"
                    .to_owned();
            return Ok(self.printer.print(RunEvent::Warning {
                message,
                of_answer: false,
            })?);
        }
        let session = self
            .session
            .as_ref()
            .map_or("ID", |session| session.as_str());
        Err(Stop::Failed(format!(
            "the turn has ended, and its last events are missing here: {problem}; \
             `bezel session show {session}` has the answer"
        )))
    }

    /// What the session's disk has of the run: all that came after its prompt. Needs no worker.
    async fn entries_after(&self, admitted: &Admitted) -> Result<Vec<Entry>, ReadBackError> {
        let (Some(session), Some(prompt)) = (&self.session, &admitted.message) else {
            return Err(ReadBackError::Unplaced);
        };
        let cx = self.cx.with_timeout(SETTLE);
        let directory: SessionDirectoryClient = self.link.server().use_service();
        let mut entries: Vec<Entry> = Vec::new();
        let mut losses = 0;
        loop {
            self.link.settled(&cx).await?;
            let range = HistoryRange {
                before: None,
                after: Some(entries.last().map_or(prompt, |last| &last.id).clone()),
            };
            match directory.history(&cx, session.clone(), range, PAGE).await {
                Ok(mut page) => {
                    let is_last = !page.more || page.entries.is_empty();
                    entries.append(&mut page.entries);
                    if is_last {
                        return Ok(entries);
                    }
                }
                Err(CallError::Rpc(error)) if is_loss(error.code) && losses < MOST_REVIVALS => {
                    losses += 1;
                }
                Err(error) => return Err(ReadBackError::Refused(call_message(&error))),
            }
        }
    }

    /// Tells what the session has used; where no plugin counts it, nothing.
    pub(super) async fn usage(&mut self) -> Result<(), Stop> {
        let Some(usage) = self.link.attached().try_use::<UsageClient>() else {
            return Ok(());
        };
        let Ok(used) = usage.state().ready(&self.cx.with_timeout(SETTLE)).await else {
            return Ok(());
        };
        self.printer.print(RunEvent::Usage {
            input: used.total.input,
            output: used.total.output,
            cache_read: used.total.cache_read,
            cache_write: used.total.cache_write,
            reasoning: used.total.reasoning,
            cost: used.cost,
            context_tokens: used.context_tokens,
            context_window: used.context_window,
            requests: used.requests,
        })?;
        Ok(())
    }
}

/// Why what a session's disk has of a run could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadBackError {
    #[error("it did not say where the prompt is")]
    Unplaced,
    #[error("{0}")]
    Refused(String),
    #[error("the server did not answer in time")]
    Late(#[from] Cancelled),
}

/// The next value; never one where there is nothing to follow.
async fn changed<T: StateValue>(watcher: &mut Option<StateWatcher<T>>) -> Arc<T> {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}
