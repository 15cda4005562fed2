//! Asking, answering, dying and ending in any order: there is one answer at most, the first, and it is
//! what the call gets.

use std::time::Duration;

use bezel_context::Context;
use bezel_harness::{RequestChannel, WaitError};
use bezel_session_types::{InvocationId, OperationId, SubmitOutcome};
use proptest::prelude::*;
use serde_json::json;

use crate::requests::{Runs, asked, one_question, open, submit};
use crate::support::{Place, Session};

#[derive(Debug, Clone, Copy)]
enum Happening {
    /// Somebody answers.
    Answer(u8),
    /// The process dies and another takes the session up.
    Die,
    /// The session goes on.
    Resume,
    /// The same question under the same call.
    AskAgain,
    /// Another question under the same call.
    AskOther,
    /// The person ends the run.
    Abort,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        4 => (0_u8..4).prop_map(Happening::Answer),
        4 => Just(Happening::Die),
        3 => Just(Happening::Resume),
        2 => Just(Happening::AskAgain),
        2 => Just(Happening::AskOther),
        1 => Just(Happening::Abort),
    ];
    proptest::collection::vec(happening, 1..12)
}

/// What must be so.
#[derive(Default)]
struct Expected {
    answer: Option<u8>,
    /// The run goes on in this process.
    runs: bool,
    aborted: bool,
}

impl Expected {
    fn is_settled(&self) -> bool {
        self.aborted || (self.runs && self.answer.is_some())
    }

    fn waits(&self) -> bool {
        !self.aborted && self.answer.is_none()
    }
}

async fn ask(channel: &RequestChannel, id: &InvocationId, q: u8) -> Result<String, WaitError> {
    let cx = Context::background().with_timeout(Duration::from_millis(10));
    let answer = channel.wait(&cx, id, json!({ "q": q })).await?;
    Ok(answer["answer"].as_str().unwrap().to_owned())
}

async fn play(happenings: &[Happening]) {
    let place = Place::new();
    let (model, runs) = (one_question(), Runs::default());
    let (mut session, mut channel) = open(&place, &model, &runs);
    let operation: OperationId = session.prompt("do it").await.operation_id;
    let id = asked(&channel).await;
    let mut expected = Expected {
        runs: true,
        ..Expected::default()
    };
    for happening in happenings {
        let settled = expected.is_settled();
        match happening {
            Happening::Answer(answer) => {
                let outcome = submit(&channel, &id, &answer.to_string()).await;
                let first = expected.waits();
                let wanted = match first {
                    true => SubmitOutcome::Accepted,
                    false => SubmitOutcome::NotPending,
                };
                assert_eq!(outcome, wanted, "{happenings:?}");
                if first {
                    expected.answer = Some(*answer);
                }
            }
            Happening::Die => {
                session.kill().await;
                (session, channel) = open(&place, &model, &runs);
                // What had settled stays so.
                expected.runs = settled && !expected.aborted;
            }
            Happening::Resume => {
                session.lane.resume(&session.cx).await.unwrap();
                expected.runs = true;
            }
            Happening::AskAgain => {
                let answer = ask(&channel, &id, 1).await;
                let right = match (&answer, expected.answer) {
                    (Err(WaitError::NotCurrent { .. }), _) => settled,
                    (Ok(given), Some(answer)) => *given == answer.to_string(),
                    (Err(WaitError::Waiting { .. }), None) => expected.runs,
                    (Err(WaitError::Cancelled(_)), None) => !expected.runs,
                    _ => false,
                };
                assert!(right, "{answer:?} in {happenings:?}");
            }
            Happening::AskOther => {
                let answer = ask(&channel, &id, 2).await;
                let right = match &answer {
                    Err(WaitError::NotCurrent { .. }) => settled,
                    Err(WaitError::Waiting { .. }) => expected.runs && !settled,
                    Err(WaitError::OtherRequest { .. }) => !expected.runs && !settled,
                    _ => false,
                };
                assert!(right, "{answer:?} in {happenings:?}");
            }
            Happening::Abort => {
                let ended = session.lane.request_abort(&session.cx, &operation).await;
                assert_eq!(ended.is_ok(), !settled, "{happenings:?}");
                expected.aborted |= !settled;
            }
        }
        if expected.is_settled() {
            session.idle().await;
        } else if expected.runs {
            // Until the replayed tool waits again.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            !channel.pending().borrow().is_empty(),
            expected.waits(),
            "{happenings:?}"
        );
    }
    finish(session, &channel, &id, &expected).await;
    let runs = runs.lock().unwrap();
    assert!(runs.iter().all(|run| *run == id), "{runs:?}");
}

/// Brings it to its end, and looks at what came of it.
async fn finish(
    session: Session,
    channel: &RequestChannel,
    id: &InvocationId,
    expected: &Expected,
) {
    session.lane.resume(&session.cx).await.unwrap();
    let answer = expected.answer.unwrap_or(9);
    if expected.waits() {
        assert_eq!(submit(channel, id, "9").await, SubmitOutcome::Accepted);
    }
    session.idle().await;
    let result = &session.results()[0];
    if expected.aborted {
        assert!(result.is_error, "{result:?}");
    } else {
        assert_eq!(session.outline()[2], format!("result of a: \"{answer}\""));
    }
    assert_eq!(submit(channel, id, "late").await, SubmitOutcome::NotPending);
    let left = session.store.read(|queries| queries.keys("memo/"));
    assert_eq!(left.unwrap(), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_first_answer_is_the_answer_in_whatever_order_things_happen(happenings in happenings()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(&happenings));
    }
}
