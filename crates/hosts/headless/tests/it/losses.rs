//! A run whose server, worker or turn is taken away from it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bezel_chat_contract::{Activity, Outcome, OutcomeStatus, Phase};
use bezel_context::Context;
use bezel_host_headless::{Choice, EndStatus};
use bezel_rpc::AttachmentState;
use bezel_session_types::{Entry, OperationId};
use bezel_transcript_contract::{Item, ToolStatus};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::runs::{answer, fresh, options, play, tool, user};
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

/// Entries of an answer with one call, its result, and the answer after it.
fn worked() -> Vec<Entry> {
    let entry = |id: &str, message: serde_json::Value| {
        let entry = json!({
            "id": id, "parent": null, "seq": 1, "created_at": 0,
            "kind": "message", "message": message,
        });
        serde_json::from_value(entry).unwrap()
    };
    let usage =
        json!({ "input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0 });
    let answer = |content: serde_json::Value, stop: &str| {
        json!({
            "role": "assistant", "content": content, "model": { "provider": "p", "model_id": "m" },
            "usage": usage, "stop_reason": stop,
        })
    };
    let call = json!({ "type": "tool_call", "id": "c", "name": "bash", "arguments": {} });
    vec![
        entry("2", answer(json!([call]), "tool_use")),
        entry(
            "3",
            json!({
                "role": "tool_result", "call_id": "c", "tool": "bash", "invocation_id": "i",
                "content": [{ "type": "text", "text": "seen" }], "is_error": false, "details": null,
            }),
        ),
        entry(
            "4",
            answer(json!([{ "type": "text", "text": "Done." }]), "stop"),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_no_worker_shows_of_a_turn_that_is_done_is_read_from_the_disk() {
    let world = World::new().await;
    *world.session.entries.lock().unwrap() = worked();
    world.session.script(|session| async move {
        session.show(&[user("1")], 10);
        session.end_early(ended(OutcomeStatus::Done, None));
    });
    let (_sender, mut interrupts) = unbounded_channel();
    let (outcome, lines) = play(&world, options(fresh()), &mut interrupts).await;
    assert_eq!(outcome.status, EndStatus::Done, "{outcome:?}");
    let told = lines
        .iter()
        .find(|line| line["type"] == "tool_end")
        .unwrap();
    assert_eq!(
        (&told["item"], &told["output"]),
        (&json!("i"), &json!("seen"))
    );
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["exit_status"], &last["text"]),
        (&json!(0), &json!("Done."))
    );
}

#[tokio::test(start_paused = true)]
async fn what_dead_workers_left_open_does_not_hold_the_end_up() {
    // On a paused clock this is when everybody else waits.
    let seen = || tokio::time::sleep(Duration::from_millis(100));
    let world = World::new().await;
    let begun = [user("1"), answer("2", "I look.", true)];
    let with = |more: &[Item]| [&begun[..], more].concat();
    let running = with(&[tool("call", ToolStatus::Running)]);
    world
        .session
        .script(|session| async move { session.show(&running, 10) });
    let die = async {
        seen().await;
        world.restart_worker().await;
        // It has not looked yet what became of the call.
        let found = with(&[tool("2:0", ToolStatus::Interrupted)]);
        world.session.show(&found, 10);
        seen().await;
        let call = tool("call", ToolStatus::Done);
        let cut_off = with(&[call.clone(), answer("3", "Hal", false)]);
        world.session.show(&cut_off, 10);
        seen().await;
        world.restart_worker().await;
        let whole = with(&[call, answer("4", "Whole.", true)]);
        world.session.show(&whole, 10);
        world.session.end_early(ended(OutcomeStatus::Done, None));
    };
    let (_sender, mut interrupts) = unbounded_channel();
    let ((outcome, lines), ()) = tokio::join!(play(&world, options(fresh()), &mut interrupts), die);
    assert_eq!(outcome.status, EndStatus::Done, "{outcome:?}");
    assert_eq!(lines.last().unwrap()["text"], "Whole.");
    let of_call = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!((of_call("tool_start"), of_call("tool_end")), (1, 1));
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
