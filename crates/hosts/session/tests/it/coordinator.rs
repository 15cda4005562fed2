//! Admission and running, behaviour by behaviour, as a facet meets them. The numbers are those of the list
//! of behaviours that this product took over.

use std::time::Duration;

use bezel_api_session::PromptError;
use bezel_session_types::{CommandId, Delivery, UserMessage};
use bezel_testkit::{Script, ScriptedProvider, Step, Turn};

use crate::world::{Opened, Place};

/// Answers what it was asked last, after a second.
fn slow() -> ScriptedProvider {
    ScriptedProvider::new(Script::respond(|call| {
        let words = call.last_user_text().to_owned();
        Turn::steps([
            Step::delay(Duration::from_secs(1)),
            Step::Text(format!("re {words}")),
        ])
    }))
}

/// Never answers.
fn stuck() -> ScriptedProvider {
    ScriptedProvider::new(Script::respond(|_| {
        Turn::steps([Step::delay(Duration::from_secs(1_000_000))])
    }))
}

async fn record(session: &Opened, words: &str) {
    let message = UserMessage::text(words);
    let recorded = session
        .lane
        .record(&session.cx, CommandId::new(words), message, Delivery::Steer)
        .await;
    recorded.unwrap();
}

mod opencode_06_a_prompt_is_durable_before_it_returns {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn and_survives_a_kill_at_that_instant() {
        let place = Place::new();
        let session = place.open(&stuck()).await;
        session.steer("one").await;
        session.dies().await;
        let session = place.open(&slow()).await;
        session.idle().await;
        assert_eq!(session.said().await, ["one", "re one"]);
    }
}

mod opencode_07_retrying_a_prompt_id_never_creates_a_second_message {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn in_the_same_process_and_in_the_next() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        session.prompt("id", "one", Delivery::Steer).await;
        session.prompt("id", "one", Delivery::Steer).await;
        session.idle().await;
        session.dies().await;
        let session = place.open(&slow()).await;
        session.prompt("id", "one", Delivery::Steer).await;
        session.idle().await;
        assert_eq!(session.said().await, ["one", "re one"]);
    }
}

mod opencode_08_reusing_an_id_for_something_else_fails {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn with_a_conflict_before_and_after_a_restart() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        session.prompt("id", "one", Delivery::Steer).await;
        session.idle().await;
        let again = async |session: &Opened, words: &str, delivery| {
            let (id, message) = (CommandId::new("id"), UserMessage::text(words));
            session
                .lane
                .prompt(&session.cx, id, message, delivery)
                .await
        };
        let conflict = Err(PromptError::Conflict(CommandId::new("id")));
        assert_eq!(again(&session, "two", Delivery::Steer).await, conflict);
        assert_eq!(again(&session, "one", Delivery::Queue).await, conflict);
        session.dies().await;
        let session = place.open(&slow()).await;
        assert_eq!(again(&session, "two", Delivery::Steer).await, conflict);
        session.idle().await;
        assert_eq!(session.said().await, ["one", "re one"]);
    }
}

mod opencode_09_steers_come_at_the_next_boundary_and_queued_input_waits_for_idle {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steers_together_in_order_and_queued_ones_one_at_a_time() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        session.steer("one").await;
        session.prompt("q1", "later", Delivery::Queue).await;
        session.prompt("q2", "last", Delivery::Queue).await;
        session.steer("two").await;
        session.steer("three").await;
        session.idle().await;
        assert_eq!(
            session.said().await,
            [
                "one", "re one", "two", "three", "re three", "later", "re later", "last", "re last"
            ]
        );
    }
}

mod opencode_10_resume_false_starts_nothing {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn neither_now_nor_when_the_session_is_opened_again() {
        let place = Place::new();
        let model = slow();
        let session = place.open(&model).await;
        record(&session, "noted").await;
        assert!(session.lane.activity().borrow().is_idle());
        session.dies().await;
        let session = place.open(&model).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(model.requests().is_empty() && session.said().await.is_empty());
        assert_eq!(session.waiting(), ["noted"]);
        // Whoever asks gets it run.
        assert!(session.lane.resume(&session.cx).await.unwrap());
        session.idle().await;
        assert_eq!(session.said().await, ["noted", "re noted"]);
    }
}

mod opencode_11_two_resumes_share_one_execution_and_two_sessions_overlap {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_resume_joins_and_another_session_does_not_wait() {
        let (here, there) = (Place::new(), Place::new());
        let model = slow();
        let (first, second) = (here.open(&model).await, there.open(&model).await);
        record(&first, "one").await;
        for _ in 0..2 {
            assert!(first.lane.resume(&first.cx).await.unwrap());
        }
        let since = tokio::time::Instant::now();
        second.steer("two").await;
        first.idle().await;
        second.idle().await;
        assert!(
            since.elapsed() < Duration::from_millis(1_900),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(model.requests().len(), 2);
        assert_eq!(first.said().await, ["one", "re one"]);
    }
}

mod opencode_12_many_wakes_cause_exactly_one_more_pass {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn however_many_messages_and_resumes_come_during_a_run() {
        let place = Place::new();
        let model = slow();
        let session = place.open(&model).await;
        session.steer("one").await;
        session.runs().await;
        for words in ["two", "three", "four"] {
            session.steer(words).await;
            session.lane.resume(&session.cx).await.unwrap();
        }
        session.idle().await;
        assert_eq!(model.requests().len(), 2);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(model.requests().len(), 2);
    }
}

mod opencode_13_interrupt_returns_promptly_and_keeps_what_waits {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn is_nothing_when_idle_and_holds_the_rest_over_a_restart() {
        let place = Place::new();
        let session = place.open(&stuck()).await;
        assert_eq!(session.lane.interrupt(&session.cx).await, Ok(None));
        session.steer("one").await;
        session.prompt("q", "later", Delivery::Queue).await;
        let since = tokio::time::Instant::now();
        let ended = session.lane.interrupt(&session.cx).await.unwrap();
        assert!(ended.is_some());
        session.idle().await;
        assert!(
            since.elapsed() < Duration::from_secs(1),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(session.waiting(), ["later"]);
        session.dies().await;
        let model = slow();
        let session = place.open(&model).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            session.waiting(),
            ["later"],
            "it is held until somebody asks"
        );
        assert!(model.requests().is_empty());
        session.steer("two").await;
        session.idle().await;
        assert!(session.waiting().is_empty());
        assert_eq!(
            session.said().await.last().map(String::as_str),
            Some("re later")
        );
    }
}

mod opencode_14_wait_starts_nothing_and_waits_out_a_successor {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn with_what_was_recorded_left_alone() {
        let place = Place::new();
        let model = slow();
        let session = place.open(&model).await;
        record(&session, "noted").await;
        session.idle().await;
        assert!(model.requests().is_empty(), "waiting starts nothing");
        session.steer("one").await;
        session.prompt("q", "two", Delivery::Queue).await;
        session.idle().await;
        assert_eq!(
            session.said().await.last().map(String::as_str),
            Some("re two")
        );
    }
}

mod opencode_15_active_is_empty_after_a_restart_until_work_begins {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whatever_was_recorded() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        session.steer("one").await;
        session.idle().await;
        record(&session, "noted").await;
        session.dies().await;
        let session = place.open(&slow()).await;
        assert_eq!(session.lane.activity().borrow().operation_id(), None);
        assert!(session.host.is_idle());
        session.steer("two").await;
        session.runs().await;
        assert!(session.lane.activity().borrow().operation_id().is_some());
    }
}

mod messages_that_wait {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn can_be_edited_made_to_steer_and_taken_back_until_they_are_delivered() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        session.steer("one").await;
        for words in ["a", "b", "c"] {
            session.prompt(words, words, Delivery::Queue).await;
        }
        let queue = session.lane.queue().borrow().clone();
        let cx = &session.cx;
        let edited = UserMessage::text("edited");
        assert!(session.lane.edit(cx, &queue[0].id, edited).await.unwrap());
        assert!(session.lane.withdraw(cx, &queue[1].id).await.unwrap());
        assert!(session.lane.promote(cx, &queue[2].id).await.unwrap());
        session.idle().await;
        assert_eq!(
            session.said().await,
            ["one", "re one", "c", "re c", "edited", "re edited"]
        );
        let late = UserMessage::text("late");
        assert!(!session.lane.edit(cx, &queue[0].id, late).await.unwrap());
        assert!(!session.lane.promote(cx, &queue[2].id).await.unwrap());
        assert!(!session.lane.withdraw(cx, &queue[1].id).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn run_when_they_are_made_to_steer_while_nothing_runs() {
        let place = Place::new();
        let session = place.open(&slow()).await;
        record(&session, "noted").await;
        let queue = session.lane.queue().borrow().clone();
        assert!(
            session
                .lane
                .promote(&session.cx, &queue[0].id)
                .await
                .unwrap()
        );
        session.idle().await;
        assert_eq!(session.said().await, ["noted", "re noted"]);
    }
}
