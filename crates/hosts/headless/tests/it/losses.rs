//! A run whose server, worker or turn is taken away from it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bezel_chat_contract::{Activity, Outcome, OutcomeStatus, Phase};
use bezel_context::Context;
use bezel_host_headless::{Choice, EndStatus};
use bezel_rpc::AttachmentState;
use bezel_session_types::OperationId;
use tokio::sync::mpsc::unbounded_channel;

use crate::runs::{answer, fresh, options, play, user};
use crate::world::{World, ended};

#[tokio::test]
async fn a_worker_that_dies_is_taken_up_again_and_nothing_is_told_twice() {
    let world = World::new().await;
    world
        .session
        .show(&[user("1"), answer("2", "Hello ", false)], 10);
    world
        .session
        .transcript
        .set(&Context::background(), Default::default());
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Hello ", false)], 10)
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let kill = async {
        world
            .session
            .transcript
            .state()
            .wait_for(&Context::background(), |state| !state.items.is_empty())
            .await
            .unwrap();
        world.restart_worker().await;
        world
            .session
            .show(&[user("1"), answer("2", "Hello world", true)], 10);
        world.session.end(ended(OutcomeStatus::Done, None));
    };
    let ((outcome, lines), ()) =
        tokio::join!(play(&world, options(fresh()), &mut interrupts), kill);
    assert_eq!(outcome.status, EndStatus::Done);
    let pieces: String = lines
        .iter()
        .filter(|line| line["type"] == "text_delta")
        .map(|line| line["text"].as_str().unwrap())
        .collect();
    assert_eq!(pieces, "Hello world");
    assert_eq!(world.session.prompts.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_worker_dies_while_it_is_selected_is_selected_again() {
    let world = World::new().await;
    world.session.astray.store(1, Ordering::Relaxed);
    world
        .session
        .script(|session| async move { session.end(ended(OutcomeStatus::Failed, None)) });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, _) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(
        (outcome.status, world.session.prompts.lock().unwrap().len()),
        (EndStatus::Failed, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_before_the_session_shows_itself_is_no_end() {
    for choice in [fresh(), Choice::Newest] {
        let world = World::new().await;
        let deaf = world.restart_worker_deaf().await;
        world
            .session
            .script(|session| async move { session.end(ended(OutcomeStatus::Failed, None)) });
        let (_sender, mut interrupts) = unbounded_channel();
        let lose = async {
            let attachment = world.link.attached().attachment();
            let cx = Context::background();
            let attached = |state: &AttachmentState| state.is_attached();
            attachment.wait_for(&cx, attached).await.unwrap();
            world.drop_connection();
            attachment
                .wait_for(&cx, |state| !state.is_attached())
                .await
                .unwrap();
            deaf.hear();
        };
        let ((outcome, _), ()) = tokio::join!(play(&world, options(choice), &mut interrupts), lose);
        assert_eq!(outcome.status, EndStatus::Failed);
        assert_eq!(world.session.prompts.lock().unwrap().len(), 1);
        // The same session at each try.
        let created = world.session.created.lock().unwrap();
        assert!(
            created
                .windows(2)
                .all(|pair| pair[0].session_id == pair[1].session_id)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_lost_connection_did_not_bring_is_fetched() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Hal", false)], 10);
        session.end_early(ended(OutcomeStatus::Done, None));
    });
    let lose = async {
        // On a paused clock this is when everybody else waits.
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.drop_connection();
        world
            .session
            .show(&[user("1"), answer("2", "Half and whole", true)], 10);
    };
    let (_sender, mut interrupts) = unbounded_channel();
    let ((outcome, lines), ()) =
        tokio::join!(play(&world, options(fresh()), &mut interrupts), lose);
    assert_eq!(outcome.status, EndStatus::Done);
    assert_eq!(lines.last().unwrap()["text"], "Half and whole");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_was_settled_before_it_went_on_is_waited_for() {
    let world = World::new().await;
    world.session.settle(&OperationId::new("op"));
    world.session.script(|session| async move {
        session.show(&[user("1")], 10);
        session.end_early(ended(OutcomeStatus::Done, None));
        tokio::time::sleep(Duration::from_millis(500)).await;
        session.show(&[user("1"), answer("2", "At last.", true)], 10);
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, lines) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Done);
    assert_eq!(lines.last().unwrap()["text"], "At last.");
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_answer_cannot_be_had_is_no_success() {
    let world = World::new().await;
    world.session.script(|session| async move {
        session.show(&[user("1")], 10);
        session.end_early(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, _) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status.exit_status(), 1);
    let error = outcome.error.unwrap();
    assert!(error.contains("bezel session show"), "{error}");
}

impl World {
    /// Somebody else's turn runs; the prompt will join it.
    fn busy(&self) {
        self.session.chat.update(&Context::background(), |state| {
            state.activity = Activity::Running {
                operation_id: OperationId::new("op"),
                since: String::new(),
                phase: Phase::WaitingForModel,
                cancelling: false,
            };
        });
    }
}

#[tokio::test]
async fn an_interrupt_takes_a_waiting_prompt_back_and_leaves_the_turn_of_others_alone() {
    for waits in [true, false] {
        let world = World::new().await;
        world.busy();
        world.session.waits.store(waits, Ordering::Relaxed);
        let (sender, mut interrupts) = unbounded_channel();
        world
            .session
            .script(move |_| async move { sender.send(()).unwrap() });
        let (outcome, _) = play(&world, options(Choice::Newest), &mut interrupts).await;
        assert_eq!(outcome.status, EndStatus::Interrupted);
        assert_eq!(world.session.withdrawn.lock().unwrap().len(), 1);
        assert!(world.session.aborts.borrow().is_empty());
    }
}

#[tokio::test]
async fn a_prompt_that_waited_for_a_turn_which_somebody_ended_gets_a_turn_of_its_own() {
    let world = World::new().await;
    world.busy();
    world.session.waits.store(true, Ordering::Relaxed);
    world.session.script(|session| async move {
        session.chat.update(&Context::background(), |state| {
            state.activity = Activity::Idle
        });
        *session.operation.lock().unwrap() = OperationId::new("own");
        session.end(ended(OutcomeStatus::Interrupted, None));
    });
    world.session.script(|session| async move {
        session.show(&[user("1"), answer("2", "Mine.", true)], 10);
        let outcome = ended(OutcomeStatus::Done, None);
        session.end(Outcome {
            operation_id: OperationId::new("own"),
            ..outcome
        });
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, lines) = play(&world, options(Choice::Newest), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Done);
    assert_eq!(lines.last().unwrap()["text"], "Mine.");
    let prompts = world.session.prompts.lock().unwrap();
    assert_eq!(prompts.len(), 2);
    assert_ne!(prompts[0].command_id, prompts[1].command_id);
}
