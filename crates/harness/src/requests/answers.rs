//! Answers on their way to the disk: those that come together are one step of their lane, one commit, one sync.
//!
//! Each of them is accepted or not by itself, in the order in which they came. Where the common commit fails, each
//! is committed alone, and fails alone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_session_types::{InvocationId, OperationId, SubmitOutcome};
use bezel_store::{CommitError, Committed};
use serde_json::Value;
use tokio::sync::oneshot;

use super::waiting::Channel;
use super::{RequestChannel, SubmitError};
use crate::harness::Session;
use crate::lane::Lane;
use crate::operation::Operation;
use crate::state::{LaneState, Step};

/// So many times answers that came meanwhile are seen to before the calls that were answered go on.
const BATCHES: usize = 16;

/// The answers of a session that are not committed yet.
#[derive(Default)]
pub(crate) struct Answers {
    // A plain mutex: held to add one or to take all out.
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: Vec<Answer>,
    /// Whether somebody works them off.
    led: bool,
}

/// An answer, and who hears what becomes of it.
pub(super) struct Answer {
    pub(super) channel: RequestChannel,
    pub(super) invocation_id: InvocationId,
    pub(super) response: Arc<Value>,
    pub(super) told: oneshot::Sender<Result<SubmitOutcome, SubmitError>>,
}

/// What an answer was committed with; nothing where its request waits no more.
type Taken = Result<Option<Committed>, CommitError>;

impl Answers {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Takes an answer on its way.
    pub(super) fn answer(self: &Arc<Self>, answer: Answer) {
        let mut line = self.answers.line();
        line.waiting.push(answer);
        if std::mem::replace(&mut line.led, true) {
            return;
        }
        drop(line);
        let leading = Leading {
            session: Arc::clone(self),
            over: false,
        };
        self.spawner.spawn("answers", leading.work_off());
    }

    /// Commits those whose requests wait, in one step of each lane.
    fn commit_answers(self: &Arc<Self>, answers: &[Answer]) -> Vec<Taken> {
        let mut taken: Vec<Taken> = answers.iter().map(|_| Ok(None)).collect();
        for lane in self.all_lanes() {
            let mut state = lane.core.lock();
            lane.commit_answers(&mut state, answers, &mut taken);
        }
        taken
    }
}

/// Works the answers off. However it ends, none waits for nobody.
struct Leading {
    session: Arc<Session>,
    over: bool,
}

/// An answer that was accepted, for the call that waits for it.
type Accepted = (Arc<Channel>, InvocationId, Arc<Value>);

impl Leading {
    async fn work_off(mut self) {
        let mut accepted = Vec::new();
        let mut batches = 0;
        while let Some(answers) = self.take() {
            let taken = self.session.commit_answers(&answers);
            for (answer, taken) in answers.into_iter().zip(taken) {
                accepted.extend(self.tell(answer, taken).await);
            }
            // First those who answered hear of it, and those who answer now are seen to: what the calls do next
            // takes the thread.
            tokio::task::yield_now().await;
            batches += 1;
            if batches >= BATCHES || self.session.answers.line().waiting.is_empty() {
                batches = 0;
                for (channel, id, response) in accepted.drain(..) {
                    channel.wake(&id, response);
                }
            }
        }
    }

    /// Those that came; none once all are worked off.
    fn take(&mut self) -> Option<Vec<Answer>> {
        let mut line = self.session.answers.line();
        if line.waiting.is_empty() {
            line.led = false;
            self.over = true;
            return None;
        }
        Some(std::mem::take(&mut line.waiting))
    }

    /// Tells whoever answered what came of it, once that is on the disk.
    async fn tell(&self, answer: Answer, taken: Taken) -> Option<Accepted> {
        let Answer {
            channel,
            invocation_id,
            response,
            told,
        } = answer;
        let outcome = match taken {
            // The first waits for the disk, and it is there for the others too.
            Ok(Some(committed)) => {
                let synced = self.session.store.synced(&committed).await;
                synced.map(|()| SubmitOutcome::Accepted)
            }
            Ok(None) => Ok(SubmitOutcome::NotPending),
            Err(error) => Err(error),
        };
        let is_accepted = matches!(outcome, Ok(SubmitOutcome::Accepted));
        if told.send(outcome.map_err(SubmitError::from)).is_err() {
            tracing::debug!(id = %invocation_id, "whoever answered has gone");
        }
        is_accepted.then_some((channel.channel, invocation_id, response))
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        if !self.over {
            let mut line = self.session.answers.line();
            line.led = false;
            // Those who answered hear that nobody works them off.
            line.waiting.clear();
        }
    }
}

impl Lane {
    /// Commits those of the answers whose requests wait here, in one step.
    fn commit_answers(&self, state: &mut LaneState, answers: &[Answer], taken: &mut [Taken]) {
        let accepted = accepted(state, answers);
        let (Some(operation), false) = (&state.operation, accepted.is_empty()) else {
            return;
        };
        let operation_id = operation.id.clone();
        let mut step = Step::default();
        for (at, _) in &accepted {
            answers[*at].write(self, &operation_id, &mut step);
        }
        match self.commit(state, step) {
            Ok(committed) => {
                for (at, place) in &accepted {
                    state.notes.asked[*place].response = Some(Arc::clone(&answers[*at].response));
                    taken[*at] = Ok(Some(committed.clone()));
                }
                hide(accepted.iter().map(|(at, _)| &answers[*at]).collect());
            }
            Err(error) => match accepted.as_slice() {
                [(only, _)] => taken[*only] = Err(error),
                // One may have failed for all.
                _ => {
                    tracing::debug!(%error, count = accepted.len(), "answers are committed one by one");
                    for (answer, taken) in answers.chunks(1).zip(taken.chunks_mut(1)) {
                        self.commit_answers(state, answer, taken);
                    }
                }
            },
        }
    }
}

impl Answer {
    fn write(&self, lane: &Lane, operation: &OperationId, step: &mut Step) {
        let (channel, id) = (&self.channel, &self.invocation_id);
        channel.journal(lane, operation, id, "request_answered", step);
        let key = channel.key(operation, id, "response");
        step.transaction.set_value(key, &*self.response);
    }
}

/// Which answers are accepted, in their order, each with the place of what it answers among what is asked.
fn accepted(state: &LaneState, answers: &[Answer]) -> Vec<(usize, usize)> {
    // By call; those to the same one in the order in which they came.
    let mut by_call: Vec<usize> = (0..answers.len()).collect();
    by_call.sort_by_key(|at| &answers[*at].invocation_id);
    let mut open = vec![false; answers.len()];
    let calls = state.operation.iter().flat_map(Operation::calls);
    for call in calls.filter(|call| call.phase.is_open()) {
        for at in to_call(&call.invocation_id, &by_call, answers) {
            open[*at] = true;
        }
    }
    let mut accepted = Vec::new();
    for (place, asked) in state.notes.asked.iter().enumerate() {
        let mut answering = to_call(&asked.invocation_id, &by_call, answers).iter();
        let first = answering.find(|at| answers[**at].channel.id == asked.channel);
        if let Some(first) = first.filter(|at| open[**at] && asked.response.is_none()) {
            accepted.push((*first, place));
        }
    }
    accepted.sort_unstable();
    accepted
}

/// The places of the answers to one call, out of those of all in the order of their calls.
fn to_call<'places>(
    id: &InvocationId,
    by_call: &'places [usize],
    answers: &[Answer],
) -> &'places [usize] {
    let first = by_call.partition_point(|at| answers[*at].invocation_id < *id);
    let of_call = &by_call[first..];
    let count = of_call
        .iter()
        .take_while(|at| answers[**at].invocation_id == *id);
    &of_call[..count.count()]
}

/// Shows no more what was answered: each channel changes once.
fn hide(mut answered: Vec<&Answer>) {
    while let Some(first) = answered.first() {
        let (channel, id) = (Arc::clone(&first.channel.channel), first.channel.id.clone());
        let of_channel = |answer: &mut &Answer| answer.channel.id == id;
        let gone: HashSet<_> = answered
            .extract_if(.., of_channel)
            .map(|answer| &answer.invocation_id)
            .collect();
        channel.hide(|shown| gone.contains(shown));
    }
}
