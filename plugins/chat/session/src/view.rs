//! Lane words as contract words.

use bezel_api_session as api;
use bezel_chat_contract::{
    Activity, Failure, FailureKind, Outcome, OutcomeStatus, Phase, QueuedMessage,
};
use bezel_session_types::{RunOutcome, RunPhase, RunState};
use jiff::Timestamp;

/// `thinking` says whether what streams now is reasoning.
pub(crate) fn activity(state: &RunState, thinking: bool) -> Activity {
    match state {
        RunState::Idle => Activity::Idle,
        RunState::Running {
            operation_id,
            since,
            phase,
            aborting,
        } => Activity::Running {
            operation_id: operation_id.clone(),
            since: text(*since),
            phase: view_phase(phase, thinking),
            cancelling: *aborting,
        },
    }
}

fn view_phase(phase: &RunPhase, thinking: bool) -> Phase {
    match phase {
        RunPhase::Preparing => Phase::Starting,
        RunPhase::WaitingForModel => Phase::WaitingForModel,
        RunPhase::Streaming if thinking => Phase::Thinking,
        RunPhase::Streaming => Phase::Answering,
        RunPhase::Tools { names } => Phase::Tools {
            names: names.clone(),
        },
        RunPhase::RetryWait {
            until,
            attempt,
            error,
        } => Phase::Retrying {
            attempt: attempt + 1,
            at: text(*until),
            reason: error.clone(),
        },
        RunPhase::Compacting => Phase::Compacting,
        RunPhase::Navigating => Phase::Navigating,
    }
}

/// Milliseconds since 1970 as RFC 3339.
fn text(milliseconds: i64) -> String {
    Timestamp::from_millisecond(milliseconds)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_string()
}

pub(crate) fn queue(queued: &[bezel_session_types::QueuedMessage]) -> Vec<QueuedMessage> {
    let view = queued.iter().map(|queued| QueuedMessage {
        id: queued.id.clone(),
        text: queued.message.to_text(),
        delivery: queued.delivery,
    });
    view.collect()
}

pub(crate) fn outcome(outcome: &api::Outcome) -> Outcome {
    let (status, error) = match &outcome.outcome {
        RunOutcome::Completed => (OutcomeStatus::Done, None),
        RunOutcome::Aborted => (OutcomeStatus::Interrupted, None),
        RunOutcome::Failed { code, message } => {
            let failure = Failure {
                kind: failure_kind(code),
                message: message.clone(),
            };
            (OutcomeStatus::Failed, Some(failure))
        }
    };
    Outcome {
        operation_id: outcome.operation_id.clone(),
        status,
        error,
    }
}

/// The harness's codes of what has to do with a model are `model.*`; all else is Bezel's own failure.
fn failure_kind(code: &str) -> FailureKind {
    match code {
        "model.authentication" => FailureKind::Authentication,
        "model.none" | "model.unknown" | "model.unavailable" => FailureKind::NoModel,
        code if code.starts_with("model.") => FailureKind::Provider,
        "session.refused" => FailureKind::Refused,
        _ => FailureKind::Internal,
    }
}
